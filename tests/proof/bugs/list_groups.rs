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
            .patch("*", "if not interval then return due end", "if true then return due end"),
        bug("next of a group at once", &["I18"], scenario!(customers::a_slow_line))
            .does("the next message of a group does not wait for the rate of its group")
            .patch("*", "if not over or over > now then at = head_due(", "if false then at = head_due("),
        bug("unused calls are kept", &["I18"], scenario!(customers::a_slow_topic))
            .does("what a topic did not grant in the last minute is granted on top of its rate")
            .patch("take_calls", "now - math.max(50000, interval)", "now - 60000000"),
        bug("one more lease", &["I18"], scenario!(customers::leases_at_once))
            .does("of a topic one more message is leased at once than it allows")
            .patch(
                "reserve_leases",
                "tonumber(ARGV[3]) - redis.call('ZCOUNT', KEYS[2], later, '+inf')",
                "tonumber(ARGV[3]) + 1 - redis.call('ZCOUNT', KEYS[2], later, '+inf')",
            ),
    ]
}
