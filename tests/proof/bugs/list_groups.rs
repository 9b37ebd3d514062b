//! Bugs of groups of messages, and of limits of how much is granted.

use super::probes::customers;
use super::{Bug, bug, scenario};

pub(super) fn bugs() -> Vec<Bug> {
    vec![
        bug("a failed head steps aside", &["I17"], scenario!(customers::a_failed_head))
            .does("a message that failed lets the next of its group go while it waits")
            .patch(
                "nack",
                "        place(member, priority, due, now, k.delayed, k.delayed_prio, k.ready)\n        if due < earliest",
                "        local _, _, _, _, _, group, order = parse_rest(rest)\n\
                         leave_groups(k, { member }, { group }, { order })\n\
                         place(member, priority, due, now, k.delayed, k.delayed_prio, k.ready)\n        if due < earliest",
            ),
        bug("the dead hold their group", &["I8", "I17"], scenario!(customers::a_dead_head))
            .does("a message that dies blocks its group for ever")
            .patch("*", "  leave_groups(k, { member }, { group }, { order })\nend", "end"),
        bug("the deleted hold their group", &["I8", "I17"], scenario!(customers::a_deleted_head))
            .does("a message that is deleted blocks its group for ever")
            .patch("delete", "  if any then leave_groups(k, members, groups, orders) end\n", ""),
        bug("next by due time", &["I17"], scenario!(customers::a_delayed_turn))
            .does("of a group whatever falls due first is next, not what was published first")
            .patch(
                "*",
                "for _, entry in ipairs(redis.call('ZRANGEBYLEX', k.queued, from, upto, 'LIMIT', 0, free)) do",
                "local line = redis.call('ZRANGEBYLEX', k.queued, from, upto)\n\
                      local function due_of(entry) return tonumber(redis.call('ZSCORE', k.blocked, string.sub(entry, 29)) or 0) end\n\
                      table.sort(line, function(a, b) return due_of(a) < due_of(b) end)\n\
                      for _, entry in ipairs({ unpack(line, 1, math.min(free, #line)) }) do",
            ),
        bug("one more of a group", &["I17"], scenario!(customers::some_at_once))
            .does("of a group one more may be leased at once than its topic allows")
            .patch(
                "*",
                "local free = math.min(limit, most - redis.call('ZLEXCOUNT', k.heads, from, upto))",
                "local free = math.min(limit, most + 1 - redis.call('ZLEXCOUNT', k.heads, from, upto))",
            ),
        bug("rate of a group ignored", &["I18"], scenario!(customers::a_slow_group))
            .does("the messages of a group fall due as if it had no rate")
            .patch(
                "*",
                "return tonumber(most or 1), tonumber(interval or ''), tonumber(burst or 1)",
                "return tonumber(most or 1), nil, tonumber(burst or 1)",
            ),
        bug("next of a group at once", &["I18"], scenario!(customers::a_slow_line))
            .does("the next message of a group does not wait for the rate of its group")
            .patch("*", "local at = head_due(k, string.sub(entries[i], 1, 16), members[i], now, due, interval, burst)", "local at = due")
            .patch("lease", "most = lib.hold_early(k, now, most, interval, burst, 3)", "most = most"),
        bug("unused calls are kept", &["I18"], scenario!(customers::a_slow_topic))
            .does("what a topic did not grant in the last minute is granted on top of its rate")
            .patch("take_calls", "now - math.max(50000, interval)", "now - 60000000"),
        bug("turns of the deleted are kept", &["I18"], scenario!(customers::a_left_turn))
            .does("what waits for the rate of its group waits for those too that were deleted before they went")
            .patch("*", "if redis.call('ZREM', k.turns, unpack(members)) > 0 then", "if false then"),
        bug("turns are only planned", &["I18"], scenario!(customers::a_late_consumer))
            .does("all messages of a group whose planned turn is over are granted at once")
            .patch("lease", "most = lib.hold_early(k, now, most, interval, burst, 3)", "most = most"),
        bug("marked groups are forgotten", &["I12", "I18"], scenario!(customers::a_long_line))
            .does("where many messages of a group leave before their turns, those far behind wait for their turns too")
            .patch("*", "if #line > 64 then mark(k, id, half) end", ""),
        bug("lives end in line", &["I18"], scenario!(customers::a_ttl_in_line))
            .does("the time to live of a message begins before the rate of its group lets it go")
            .patch("publish_special", "waits and interval and NEVER or due + tonumber(ttl)", "due + tonumber(ttl)"),
        bug("one partition's leases", &["I18"], scenario!(customers::leases_of_all_parts))
            .does("leases of a topic of several partitions are counted in none")
            .patch("count_leases", "return { now, leases,", "return { now, 0,"),
        bug("one more lease", &["I18"], scenario!(customers::leases_at_once))
            .does("of a topic one more message is leased at once than it allows")
            .patch(
                "lease",
                "free = math.max(free - redis.call",
                "free = math.max(free + 1 - redis.call",
            ),
    ]
}
