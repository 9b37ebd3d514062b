//! All bugs, by what they are bugs of.

use super::probes::{
    bounds, calls, counts, customers, deaths, faults, forgets, grants, groups, keys, leases,
    leftovers, links, moves, replicas, tenants, told, waits,
};
use super::{Bug, bug, probe, scenario};
use crate::proof::scenarios::{clock, cluster_clocks, endurance, failover, memory_stays, snapshot};

/// All of them.
pub fn all() -> Vec<Bug> {
    vec![
        // Grants and leases.
        bug("early by 2 ms", &["I3"], probe!(grants::impatient_consumers))
            .does("a lease takes what is due two milliseconds from now")
            .patch(
                "lease",
                "redis.call('ZCOUNT', KEYS[3], '-inf', now))",
                "redis.call('ZCOUNT', KEYS[3], '-inf', now + 2))",
            ),
        bug("promoted early", &["I3"], probe!(grants::impatient_consumers))
            .does("messages with a priority are ready 5 ms before they are due")
            .patch("lease", "lib.promote(now, limit,", "lib.promote(now + 5, limit,"),
        bug("local clock", &["I3", "I4"], probe!(grants::impatient_consumers))
            .does("a delay is counted from a clock that is two seconds slow, and the answer says otherwise")
            .patch(
                "publish",
                "local due = due_at(asked, now, up)\n",
                "local due = math.max(now, due_at(asked, now, up) - 2000)\n",
            ),
        bug("order reversed", &["I16"], probe!(grants::one_after_another))
            .does("of what is taken together the last comes first")
            .patch(
                "lease",
                "local plain = redis.call('ZPOPMIN', KEYS[3], due)\n",
                "local popped, plain = redis.call('ZPOPMIN', KEYS[3], due), {}\n\
                      for i = 1, #popped, 2 do plain[#popped - i], plain[#popped - i + 1] = popped[i], popped[i + 1] end\n",
            ),
        bug("old payload after a replace", &["I2"], probe!(grants::changed_messages))
            .does("a replace answers 200 and leaves the payload as it was")
            .patch(
                "publish_special",
                "    add_to(lists, k.messages, member, body)\n",
                "    add_to(lists, k.messages, member, code == 2 and redis.call('HGET', k.messages, member) or body)\n",
            ),
        bug("update without its due time", &["I3"], probe!(grants::changed_messages))
            .does("an update changes the payload and leaves a message ready that it delayed")
            .patch(
                "update",
                "    place(member, priority, due, now, k.delayed, k.delayed_prio, k.ready)\n  end\n  if group",
                "    place(member, priority, math.min(due, now), now, k.delayed, k.delayed_prio, k.ready)\n  end\n  if group",
            ),
        bug("ttl ignored on redelivery", &["the contract"], probe!(grants::time_to_live))
            .does("a message that was granted before is granted again after its time to live")
            .patch(
                "lease",
                "local _, _, _, _, rest = parse_extra(extras[i])\n    local expires = expiry",
                "local attempts, _, _, _, rest = parse_extra(extras[i])\n    local expires = expiry",
            )
            .patch(
                "lease",
                "if expires and expires <= now then over",
                "if expires and expires <= now and attempts == 0 then over",
            )
            .patch(
                "*",
                "local over = expiry(k, member, rest, deadline, ttl)\n",
                "local over = false\n",
            )
            .patch("*", "count = note_over(k, now, over)\n", "count = 0\n"),
        bug("paused not honoured", &["the contract", "I15"], probe!(grants::a_pause, 2))
            .does("a lease grants messages of a paused topic")
            .patch("lease", "if rules.paused then", "if false then"),
        bug("lease shorter than said", &["I4"], probe!(leases::leases_that_run_out))
            .does("a lease ends half a second before the deadline that its holder was told")
            .patch(
                "lease",
                "pack_lease(up + tonumber(ARGV[want + 1]), number)",
                "pack_lease(now + tonumber(ARGV[want + 1]) - 500, number)",
            ),
        bug("no token check", &["I5"], probe!(leases::old_tokens))
            .does("anyone who ever held a message may end or extend its present lease")
            .patch("*", "if attempts + 1 ~= attempt then return false end", ""),
        bug("token without deadline", &["I5", "I6"], probe!(leases::late_nacks))
            .does("a token holds its lease as long as nobody else was granted the message")
            .patch(
                "*",
                "if deadline <= now or of_lease ~= epoch then return false end",
                "if of_lease ~= epoch then return false end",
            ),
        bug("expired lease ackable", &["I5"], probe!(leases::late_acks))
            .does("an ack of a first grant is taken after the deadline, before the next grant")
            .patch(
                "ack",
                "local least, good, before = (now + 1) * 2048,",
                "local least, good, before = 1,",
            ),
        bug("attempt wrapped at 2048", &["I5"], probe!(leases::grant_2049))
            .does("of a token's attempt only eleven bits are compared")
            .patch(
                "*",
                "if attempts + 1 ~= attempt then return false end",
                "if (attempts + 1 - attempt) % 2048 ~= 0 then return false end",
            ),
        bug("token of another run", &["I13"], scenario!(leases::a_forgotten_grant))
            .does("a token from before Redis lost its newest seconds fits a grant made after")
            .patch(
                "*",
                "local number = numbers[at + 1]",
                "local number = numbers[at + 1] or redis.call('HGET', meta, 'epochs')",
            ),
        bug("extend shortens", &["I6"], probe!(leases::extensions))
            .does("an extension by less than what is left makes the lease shorter")
            .patch("extend", "if wanted > deadline or sooner then", "if wanted ~= deadline then"),
        bug("extend past the cap", &["I6"], probe!(leases::extensions))
            .does("a lease can be extended past 12 h from its grant")
            .patch(
                "extend",
                "local wanted = math.min(up + math.abs(lease), tonumber(ARGV[options + n + i]))",
                "local wanted = now + math.abs(lease)",
            ),
        bug("long poll oversleeps", &["I12"], probe!(waits::waiting_consumers, 2))
            .does("consumers that wait are told a moment two seconds after the message falls due")
            .patch(
                "lease",
                "local reply = { now, up, next_at,",
                "local reply = { now, up, next_at == 0 and 0 or next_at + 2000,",
            ),
        bug("wake-up left to the instance", &["I12"], probe!(waits::waiting_consumers, 2))
            .does("a publish wakes nobody at another instance than it came through")
            .patch("publish", "  announce(meta_key)\n", ""),
        bug("wake-ups not restored", &["I12"], scenario!(waits::waiting_after_a_restart))
            .does("an instance that lost its subscription to wake-ups never notices"),
        bug("missing bound on a scan", &["I12"], probe!(waits::many_leases_over))
            .does("one call ends all leases that are over, however many there are")
            .patch(
                "lease",
                "local list = redis.call('ZRANGEBYSCORE', key, '-inf', over, 'WITHSCORES', 'LIMIT', 0, limit - ended)",
                "local list = redis.call('ZRANGEBYSCORE', key, '-inf', over, 'WITHSCORES')",
            ),
        // What ends messages, keys, and what dueq does of its own accord.
        bug("pop before record", &["I1"], probe!(faults::lost_answers))
            .does("messages leave the queue in one step and are noted as leased in another, which may not come")
            .patch(
                "lease",
                "redis.call('ZADD', KEYS[1], unpack(leases))",
                "if now % 8 > 0 then redis.call('ZADD', KEYS[1], unpack(leases)) end",
            ),
        bug("a counter not counted", &["I9"], probe!(counts::plain_lives))
            .does("the usual ack is left out of the totals")
            .patch("ack", "redis.call('HINCRBY', KEYS[5], 'acked', n)", ""),
        bug("housekeeping counts twice", &["I9"], probe!(counts::leases_nobody_asks_for))
            .does("leases that housekeeping ends count twice")
            .patch(
                "sweep",
                "redis.call('HINCRBY', k.meta, 'lease_expired', ended)",
                "redis.call('HINCRBY', k.meta, 'lease_expired', 2 * ended)",
            ),
        bug("retained counted twice", &["I9"], probe!(counts::retained_messages))
            .does("an acked message counts as expired when its retention ends")
            .patch(
                "*",
                "redis.call('ZREM', k.acked, unpack(gone))",
                "redis.call('ZREM', k.acked, unpack(gone)) redis.call('HINCRBY', k.meta, 'expired', #gone)",
            ),
        bug("delete leaves the body", &["I8"], probe!(counts::deletes))
            .does("a deleted message's body stays in Redis")
            .patch("change_messages", "redis.call('HDEL', k.messages, unpack(members))", ""),
        bug("delete of a leased message", &["I11"], probe!(counts::deletes))
            .does("a delete without force takes a message from its holder")
            .patch("change_messages", "if what ~= 'force' then return 2 end", ""),
        bug("delete undone", &["I11"], probe!(counts::deletes))
            .does("a ready message is granted although its delete was answered")
            .patch(
                "change_messages",
                "drop_all(k, { member }, what == 'purge' and 'purged' or 'deleted')",
                "if state ~= 'ready' then drop_all(k, { member }, 'deleted') end",
            ),
        bug("bulk delete of leased messages", &["I8", "I9", "I11"], probe!(counts::a_bulk_delete))
            .does("a delete of many messages takes leased ones")
            .patch("change_messages", "if what ~= 'force' then return 2 end", ""),
        bug("bulk delete counts once", &["I9"], probe!(counts::a_bulk_delete))
            .does("messages that one request deletes are left out of the totals")
            .patch(
                "change_messages",
                "redis.call('HINCRBY', k.meta, total, #members)",
                "if total ~= 'deleted' then redis.call('HINCRBY', k.meta, total, #members) end",
            ),
        bug("purge takes leased ones", &["I1", "I5", "I9"], probe!(counts::a_purge))
            .does("a purge removes leased messages")
            .patch(
                "purge_topic",
                "if ARGV[4] == '1' then\n",
                "if ARGV[4] == '1' then\n\
                      for _, held in ipairs(redis.call('ZRANGE', k.unack, 0, limit)) do\n\
                      redis.call('ZREM', k.unack, held) drop_all(k, { held }, 'purged') end\n",
            ),
        bug("dead not atomic", &["I7", "I8", "I9"], probe!(deaths::deaths))
            .does("the last failure takes a message out, and a later step puts it among the dead")
            .patch(
                "nack",
                "redis.call('ZADD', k.dead, at, member)",
                "redis.call('ZADD', k.dead_out, at, member)",
            )
            .patch(
                "sweep",
                "local more = sweep(k, now, tonumber(ARGV[2]), rules)",
                "for _, member in ipairs(redis.call('ZRANGE', k.dead_out, 0, 127)) do\n\
                          redis.call('ZADD', k.dead, now, member) redis.call('ZREM', k.dead_out, member) end\n\
                          local more = sweep(k, now, tonumber(ARGV[2]), rules)",
            ),
        bug("nack does not count", &["I7"], probe!(deaths::budgets))
            .does("a failure uses up no attempt")
            .patch("nack", "if kind == 'n' or kind == 'd' then counted = counted + 1 end", ""),
        bug("release counts", &["I7"], probe!(deaths::budgets))
            .does("a message that is given back unworked uses up an attempt")
            .patch(
                "nack",
                "if kind == 'n' or kind == 'd' then counted = counted + 1 end",
                "if kind ~= 'u' then counted = counted + 1 end",
            ),
        bug("redrive keeps the old budget", &["I7"], probe!(deaths::a_redrive))
            .does("a message is redriven with its attempts used up")
            .patch(
                "change_messages",
                "local attempts, _, max_attempts, priority, rest = parse_extra(extra)\n  local flags, ttl, policy, hold, key, group, order = parse_rest(rest)\n  local blocked",
                "local attempts, used, max_attempts, priority, rest = parse_extra(extra)\n  local flags, ttl, policy, hold, key, group, order = parse_rest(rest)\n  local blocked",
            )
            .patch(
                "change_messages",
                "format_extra(attempts, 0, max_attempts,",
                "format_extra(attempts, used, max_attempts,",
            ),
        bug("key not freed", &["I8", "I10"], probe!(keys::keys_set_free))
            .does("a message that is done goes on holding its key")
            .patch(
                "*",
                "if key ~= '' and redis.call('HGET', k.keys, key) == member then",
                "if false then",
            ),
        bug("key held by the dead", &["I10"], probe!(keys::keys_set_free))
            .does("a publish is answered by a dead message that had its key")
            .patch(
                "*",
                "if key ~= '' and redis.call('HGET', k.keys, key) == member then",
                "if false then",
            )
            .patch(
                "publish_special",
                "if waiting_now or where == 'leased' then",
                "if where and where ~= 'acked' then",
            ),
        bug("idempotency key ignored", &["I10"], probe!(keys::repeated_publishes))
            .does("a publish that is repeated makes a second message")
            .patch(
                "publish_special",
                "local first = not code and idem ~= '' and redis.call('HGET', k.idem, idem)",
                "local first = false",
            ),
        bug("idempotency answers of old", &["I10"], probe!(keys::repeats_of_what_is_gone))
            .does("a repeated publish is told the state that its message had at first")
            .patch("publish_special", "state = where or 'gone'", "state = word"),
        bug("due time lost while put off", &["the contract"], scenario!(told::a_paused_host))
            .does("a message that is put off since its host is paused shows when it comes back as its due time")
            .patch("nack", "kind == 'w' and called ~= '' and note", "false and note"),
        bug("waiting is an attempt", &["I14"], scenario!(told::a_paused_host))
            .does("a callback that is given back because no slot is free has had an attempt")
            .patch(
                "nack",
                "local attempt = kind == 'w' and attempts or attempts + 1",
                "local attempt = attempts + 1",
            )
            .patch("nack", "if kind ~= 'w' then redis.call('HSET', k.extra", "if true then redis.call('HSET', k.extra"),
        bug("answers swapped", &["I2", "I15"], probe!(groups::crowds))
            .does("messages that are granted together are given each other's payloads")
            .patch(
                "lease",
                "bodies = redis.call('HMGET', KEYS[4], unpack(members)) end",
                "bodies = redis.call('HMGET', KEYS[4], unpack(members)) end\n\
                      bodies[1], bodies[#bodies] = bodies[#bodies], bodies[1]",
            ),
        bug("keys read first", &["I10", "I15"], probe!(groups::one_key_by_two))
            .does("a publish looks for its key as it was 20 ms before: two of one key both are stored")
            .patch(
                "publish_special",
                "local holder = key ~= '' and holders[i]",
                "local holder = key ~= '' and holders[i]\n\
                      if holder and tonumber(redis.call('ZSCORE', k.delayed, holder) or 0) > up + 59980 then holder = nil end",
            ),
        bug("tokens read first", &["I5", "I15"], probe!(groups::one_token_by_two))
            .does("a token is good although its message has just been acked: two acks of one token both are 204")
            .patch(
                "ack",
                "if redis.call('HEXISTS', k.messages, member) == 0 then return 2 end",
                "if redis.call('HEXISTS', k.messages, member) == 0 then return 0 end",
            ),
        bug("blind repeat", &["I15"], probe!(faults::lost_answers))
            .does("a publish is stored twice, as if it was sent again after its answer was lost")
            .patch(
                "publish",
                "redis.call('HINCRBY', KEYS[3], 'published', n)\n",
                "redis.call('HINCRBY', KEYS[3], 'published', n + 1)\n\
                      local twin = string.sub(ARGV[5], 1, 10) .. string.char((string.byte(ARGV[5], 11) + 128) % 256)\n\
                      redis.call('HSET', KEYS[1], twin, ARGV[2 * n + 5]) redis.call('ZADD', KEYS[2], ARGV[4], twin)\n",
            ),
        bug("stored after 503", &["I15"], probe!(groups::crowds))
            .does("a publish is answered redis_unavailable, and stored all the same")
            .patch(
                "publish",
                "return { now, wake(KEYS[3], meta[2], earliest), up }",
                "local reply = { now, wake(KEYS[3], meta[2], earliest), up }\n\
                      if now % 4 == 0 then return redis.error_reply('OOM refused') end\n\
                      return reply",
            ),
        bug("unavailable after it was sent", &["I15"], scenario!(faults::a_redis_that_stands_still))
            .does("clients hear redis_unavailable, not outcome_unknown, of what was sent and not answered"),
        bug("called again", &["I14"], scenario!(told::callbacks))
            .does("a callback is called once more after its 200 was recorded")
            .patch(
                "ack",
                "redis.call('ZADD', KEYS[10], unpack(kept))",
                "if not redis.call('ZSCORE', KEYS[10], good[1]) then redis.call('ZADD', (string.gsub(KEYS[10], ':acked', ':delayed')), now, good[1]) redis.call('HSET', KEYS[5], 'short', '1') meta[5] = '1' end\n\
                      redis.call('ZADD', KEYS[10], unpack(kept))",
            ),
        bug("secrets for strangers", &["I14"], scenario!(told::secrets))
            .does("a topic's authorization goes wherever its messages go"),
        bug("denied and dialled", &["I14"], scenario!(told::secrets))
            .does("an address is called that --callback-deny names"),
        bug("tick doubled", &["I14"], probe!(told::ticks, 2))
            .does("two instances make the same tick of a schedule")
            .patch("claim_schedules", "redis.call('ZADD', KEYS[3], held, name)", "")
            .patch(
                "publish_special",
                "local first = not code and idem ~= '' and redis.call('HGET', k.idem, idem)",
                "local first = idem ~= '' and string.byte(idem) ~= 255 and redis.call('HGET', k.idem, idem)",
            ),
        // Groups, and limits of how much is granted.
        bug("a failed head steps aside", &["I17"], probe!(customers::a_failed_head))
            .does("a message that failed lets the next of its group go while it waits")
            .patch(
                "nack",
                "        code = wait_again(k, member, priority, due, now, group, order)",
                "        leave_groups(k, { member }, { group }, { order })\n\
                         code = wait_again(k, member, priority, due, now, group, order)",
            ),
        bug("the dead hold their group", &["I8", "I17"], probe!(customers::a_dead_head))
            .does("a message that dies blocks its group for ever")
            .patch("*", "  leave_groups(k, { member }, { group }, { order })\nend", "end"),
        bug("the deleted hold their group", &["I8", "I17"], probe!(customers::a_deleted_head))
            .does("a message that is deleted blocks its group for ever")
            .patch("change_messages", "  if any then leave_groups(k, members, groups, orders) end\n", ""),
        bug("next by due time", &["I17"], probe!(customers::a_delayed_turn))
            .does("of a group whatever falls due first is next, not what was published first")
            .patch(
                "*",
                "for _, entry in ipairs(redis.call('ZRANGEBYLEX', k.queued, from, upto, 'LIMIT', 0, free)) do",
                "local line = redis.call('ZRANGEBYLEX', k.queued, from, upto)\n\
                      local function due_of(entry) return tonumber(redis.call('ZSCORE', k.blocked, string.sub(entry, 29)) or 0) end\n\
                      table.sort(line, function(a, b) return due_of(a) < due_of(b) end)\n\
                      for _, entry in ipairs({ unpack(line, 1, math.min(free, #line)) }) do",
            ),
        bug("one more of a group", &["I17"], probe!(customers::some_at_once))
            .does("of a group one more may be leased at once than its topic allows")
            .patch(
                "*",
                "local free = math.min(limit, most - heads_upto(k, id, most, first))",
                "local free = math.min(limit, 1 + most - heads_upto(k, id, most, first))",
            ),
        bug("rate of a group ignored", &["I18"], probe!(customers::a_slow_group))
            .does("the messages of a group fall due as if it had no rate")
            .patch(
                "*",
                "known = { most > 0 and most or math.huge, tonumber(interval or ''),",
                "known = { most > 0 and most or math.huge, nil,",
            ),
        bug("next of a group at once", &["I18"], probe!(customers::a_slow_line))
            .does("the next message of a group does not wait for the rate of its group")
            .patch("*", "if counted == 0 then at = head_due(", "if false then at = head_due(")
            .patch("lease", "most = lib.hold_early(k, now, most, 3)", "most = most"),
        bug("unused calls are kept", &["I18"], probe!(customers::a_slow_topic))
            .does("what a topic did not grant in the last minute is granted on top of its rate")
            .patch("take_calls", "now - math.max(50000, interval)", "now - 60000000"),
        bug("turns of the deleted are kept", &["I18"], probe!(customers::a_left_turn))
            .does("what waits for the rate of its group waits for those too that were deleted before they went")
            .patch("*", "if redis.call('ZREM', k.turns, unpack(members)) > 0 then", "if false then"),
        bug("turns are only planned", &["I18"], probe!(customers::a_late_consumer))
            .does("all messages of a group whose planned turn is over are granted at once")
            .patch("lease", "most = lib.hold_early(k, now, most, 3)", "most = most"),
        bug("marked groups are forgotten", &["I12", "I18"], probe!(customers::a_long_line))
            .does("where many messages of a group leave before their turns, those far behind wait for their turns too")
            .patch("*", "if #line > 64 then mark(k, id, half) end", ""),
        bug("lives end in line", &["I18"], probe!(customers::a_ttl_in_line))
            .does("the time to live of a message begins before the rate of its group lets it go")
            .patch("publish_special", "waits and interval and NEVER or math.max(due, now) + tonumber(ttl)", "due + tonumber(ttl)"),
        bug("one partition's leases", &["I18"], probe!(customers::leases_of_all_parts))
            .does("leases of a topic of several partitions are counted in none")
            .patch("count_leases", "return { now, leases,", "return { now, 0,"),
        bug("one more lease", &["I18"], probe!(customers::leases_at_once))
            .does("of a topic one more message is leased at once than it allows")
            .patch(
                "lease",
                "free = math.max(free - redis.call",
                "free = math.max(free + 1 - redis.call",
            ),
        // Groups that take turns.
        bug("a grant is no turn", &["I19"], probe!(tenants::two_tenants))
            .does("a group that was granted a message is where it was in the round")
            .patch("*", "local TURN = 10000\n", "local TURN = 0\n"),
        bug("newcomers are first", &["I19"], probe!(tenants::a_late_tenant))
            .does("a group that comes is granted as many messages as others were before it came")
            .patch("*", "present = present or present_turn(k)\n", "present = '0'\n"),
        bug("newcomers are last", &["I19"], probe!(tenants::a_late_tenant))
            .does("a group that comes waits for a thousand rounds of the others")
            .patch("*", "present = present or present_turn(k)\n", "present = present or string.format('%d', present_turn(k) + 10000000)\n"),
        bug("no turn for a retry", &["I19"], probe!(tenants::a_failed_tenant))
            .does("a message that failed gets no turn if it is the only one of its group")
            .patch("nack", "fair_entry(id, priority, due, member))\n  offer(k, { [id] = due }, now)\n", "fair_entry(id, priority, due, member))\n"),
        bug("the deleted take the turn along", &["I19"], probe!(tenants::a_failed_tenant))
            .does("a group of which a message is deleted gets no turn for the others")
            .patch("change_messages", "if not has_line(k, id) then\n", "if true then\n"),
        bug("expired leases forget their group", &["I8"], probe!(tenants::a_forgotten_tenant))
            .does("a message whose lease ends waits as one without a group")
            .patch("*", "wait_again(k, member, priority, deadline, now, group, order)", "wait_again(k, member, priority, deadline, now, '', '')"),
        bug("turns of later are forgotten", &["I12"], probe!(tenants::a_later_tenant))
            .does("a group whose messages were all due later gets no turn once they are due")
            .patch("lease", "if #come == 0 then return false end", "if true then return false end"),
        bug("no turn without a group", &["I12"], probe!(tenants::a_later_tenant))
            .does("messages without a group get no turn among groups")
            .patch("lease", "if #plain > 0 then offer(k, { [''] = now }, now) end\n", ""),
        bug("one more of a tenant", &["I17"], probe!(tenants::a_limited_tenant))
            .does("groups that take turns may have any number of leases")
            .patch("*", "if group.free < 0 then return false end", ""),
        bug("rate of a tenant ignored", &["I18"], probe!(tenants::a_slow_tenant))
            .does("groups that take turns have no rate")
            .patch("*", "if interval and parse_extra(redis.call('HGET', k.extra, entry_member(entry))) == 0 then", "if false then"),
        // Settings of one group.
        bug("own number ignored", &["I17"], probe!(tenants::a_tenant_with_limits))
            .does("a group may have as many leases as its topic says, whatever was put for it")
            .patch("*", "its[2] or most,", "most,"),
        bug("own rate ignored", &["I18"], probe!(tenants::a_tenant_with_limits))
            .does("a group has the rate of its topic, whatever was put for it")
            .patch("*", "its[3] or interval,", "interval,"),
        bug("pause of a group ignored", &["the contract"], probe!(tenants::a_paused_tenant))
            .does("messages of a paused group are granted")
            .patch("*", "its[1] == 1 and 0 or its[2]", "its[2]"),
        bug("a resume is told nobody", &["I12"], probe!(tenants::a_paused_tenant))
            .does("who waits is not woken when a group is resumed")
            .patch("put_group", "  wake(k.meta, redis.call('HGET', k.meta, 'sleep'), now)\n  return 0", "  return 0"),
        bug("weight ignored", &["I19"], probe!(tenants::a_heavy_tenant))
            .does("all groups are granted the same, whatever their weights")
            .patch("*", "group.turn + TURN / group.weight", "group.turn + TURN"),
        // On a Redis that is full, that is a replica by now, or that has gone back.
        bug("resume refused at maxmemory", &["the contract"], scenario!(memory_stays::memory_stays))
            .does("a pause or resume begins with a write that a full Redis refuses")
            .patch("pause_topic", "redis.call('HDEL', KEYS[1], '')\n", ""),
        bug("epochs by run_id", &["I5"], scenario!(failover::failover))
            .does("leases are fenced by the process that granted them, which lives through a demotion and a promotion")
            .patch(
                "lease",
                "local info = redis.pcall('INFO', 'replication')\n  local digits = type(info) == 'string' and string.match(info, 'master_replid:(",
                "local info = redis.pcall('INFO', 'server')\n  local digits = type(info) == 'string' and string.match(info, 'run_id:(",
            ),
        bug("revisions counted up from what is left", &["I13"], scenario!(snapshot::snapshot_restored))
            .does("a revision that Redis lost with its newest seconds is given out again, for another configuration")
            .patch(
                "*",
                "local revision = int(math.max(last + 1, now * 1024))",
                "local revision = int(last + 1)",
            ),
        bug("lanes stay at a replica", &["I12"], scenario!(failover::failover_idle))
            .does("a lane does not mind that its server has become a replica"),
        // A registry that has gone back, while the partitions have not.
        bug("partitions fewer again", &["I1", "I12"], probe!(forgets::a_registry_set_back))
            .does("a registry that has forgotten a growth is believed")
            .patch(
                "open_partition",
                "if gone == '' and tonumber(meta[4] or 1) > tonumber(ARGV[8]) then",
                "if false then",
            )
            .patch("open_partition", "if known == number and changed > revision then", "if false then"),
        bug("a pause forgotten", &["I15"], probe!(forgets::a_registry_set_back))
            .does("a registry that has forgotten a pause is believed")
            .patch("open_partition", "if known == number and changed > revision then", "if false then"),
        bug("one partition's mark believed", &["I1"], probe!(forgets::a_deletion_forgotten))
            .does("a topic is deleted since one of its partitions says so, though its first is open")
            .patch(
                "open_partition",
                "if meta[1] then\n",
                "local mark = redis.call('HGET', (string.gsub(KEYS[1], ':0}', ':3}')), 'topic')\n\
                      if mark and string.byte(mark) == 45 then return 'DELETED' end\n\
                      if meta[1] then\n",
            ),
        bug("one clock", &["I2", "I12"], scenario!(cluster_clocks::cluster_clocks))
            .does("an instance takes the clocks of all nodes of a Cluster for one"),
        // Answers that wait for replicas.
        bug("unconfirmed counts", &["I13"], scenario!(replicas::unconfirmed))
            .does("what no replica has confirmed counts as confirmed by one"),
        bug("fence without its epoch", &["I13"], scenario!(replicas::unconfirmed))
            .does("what an old primary has written is confirmed by the replicas of the new one"),
        bug("one replica is enough", &["I13"], scenario!(replicas::a_lagging_replica))
            .does("where all replicas are to confirm, dueq waits for one"),
        bug("a shard that cannot confirm stops all", &["I12"], scenario!(replicas::a_lost_replica))
            .does("what one server cannot confirm is taken for what none can"),
        bug("closed connections look open", &["I15"], scenario!(links::closed))
            .does("what Redis has closed is used for the next request"),
        // What no answer shows: the watch over every run is there for it.
        bug("script that holds Redis", &["I12"], probe!(waits::waiting_consumers, 2))
            .does("a lease takes tens of milliseconds of Redis's CPU")
            .patch(
                "lease",
                "local now, up = now_ms()\n",
                "local now, up = now_ms()\nfor i = 1, 20000000 do end\n",
            ),
        bug("panic in the background", &["no panic"], probe!(counts::leases_nobody_asks_for))
            .does("housekeeping panics, and no request notices"),
        bug("ticks that stay where they were", &["I14"], scenario!(clock::clock_of_schedules))
            .does("the tick that a clock that was ahead, or an older time zone database, has put elsewhere is not moved")
            .patch(
                "finish_schedule",
                "local lost = next_at ~= ARGV[2] or claimed_at ~= ARGV[3]",
                "local lost = next_at ~= ARGV[2] or claimed_at ~= ARGV[3] or ARGV[5] == '0'",
            ),
        bug("loop that ends", &["I14"], probe!(told::ticks, 2))
            .does("schedules tick once and no more, and no request notices")
            .patch(
                "claim_schedules",
                "local names = redis.call(",
                "if redis.call('EXISTS', KEYS[3] .. ':ended') == 1 then return { now, 0 } end\n\
                      if redis.call('ZCOUNT', KEYS[3], '-inf', now) > 0 then redis.call('SET', KEYS[3] .. ':ended', 1) end\n\
                      local names = redis.call(",
            ),
        bug("memory kept", &["no growth"], scenario!(endurance::endurance))
            .does("64 KiB of every connection are never freed"),
        bug("descriptor kept", &["no growth"], scenario!(endurance::endurance))
            .does("every connection leaves a file open"),
        // Callbacks, and deaths that are published elsewhere.
        bug("a letter goes with its message", &["I1"], probe!(calls::letters))
            .does("what is deleted before its death was published elsewhere is never published there")
            .patch("*", "  if died then members = but_untold(k, members) end\n", ""),
        bug("a move without a claim", &["I8"], probe!(moves::moves, 2))
            .does("what was redriven or deleted since it was read moves all the same")
            .patch("claim_dead", "elseif stands[i][1] ~= 7 then", "elseif false then"),
        bug("moved on and on", &["the contract"], probe!(moves::a_circle))
            .does("what moved here when it died moves on when it dies again")
            .patch(
                "take_dead",
                "return { now, list, found, bodies,",
                "for i = 1, #bodies do bodies[i] = string.gsub(bodies[i] or '', '\"o\":', '\"x\":') end\n\
                 return { now, list, found, bodies,",
            ),
        bug("redriven past the limit", &["the contract"], probe!(moves::a_full_topic))
            .does("a redrive makes more messages live than the topic may hold")
            .patch("*", "if room >= wanted then return room end", "if true then return math.huge end"),
        bug("a key for its message", &["I2"], probe!(moves::a_key_that_passes_on))
            .does("a change by a key writes the content of one message into the next of that key")
            .patch("update", "member ~= ARGV[10] or ", ""),
        bug("called as it was", &["I14"], scenario!(calls::a_pause))
            .does("what waited for a place is called though its topic has been paused")
            .patch("pause_topic", "'^%d', ARGV[2])", "'^%d', 2 * ARGV[2])")
            .patch("*", "paused = paused == '1', ttl", "paused = paused == '2', ttl"),
        bug("a park is a grant", &["I10"], scenario!(calls::a_key_that_waits))
            .does("a message that waits for a place has given up the key that it holds until it is granted")
            .patch(
                "lease",
                "key, group = lib.call_key(rest)",
                "key, group = lib.grant_key(k, members[i], extras[i], rest)",
            ),
        bug("broken off is no attempt", &["I7"], scenario!(calls::a_drain))
            .does("a call that the end of an instance breaks off does not count")
            .patch(
                "nack",
                "  local deadline = holds(seals[i], scores[i], extras[i], now)\n",
                "  if string.find(reason, 'is stopping', 1, true) then kind, delay = 'r', '0' end\n\
                   local deadline = holds(seals[i], scores[i], extras[i], now)\n",
            ),
        bug("retried against its lists", &["the contract"], scenario!(calls::a_final_answer))
            .does("a call is repeated after an answer that its lists call final"),
        bug("a token for each call", &["the contract"], scenario!(calls::a_token))
            .does("each call fetches a token of its own"),
        bug("completion forgotten", &["the contract"], scenario!(calls::completions))
            .does("a message whose ack is to be published is forgotten with it")
            .patch("ack", "if #reported > 0 then redis.call('ZADD', KEYS[11], unpack(reported)) end", ""),
        bug("completion without its result", &["the contract"], scenario!(calls::completions))
            .does("an ack is published without what it gave")
            .patch("ack", "if line ~= '' then lib.add_events(k, good[i], line) end", ""),
        bug("completion noted for good", &["the contract"], scenario!(calls::completions))
            .does("an ack stays noted when it has been published, and is published again")
            .patch("complete", "redis.call('ZREM', KEYS[1], unpack(ARGV, 5, count + 4))", ""),
        bug("failing and called", &["the contract"], scenario!(calls::a_failing_host))
            .does("no instance learns that a host fails")
            .patch("swap_host", "if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end", ""),
        bug("failing for good", &["I12"], scenario!(calls::a_failing_host))
            .does("no instance gets the turn to try a host that fails")
            .patch("swap_host", "if written ~= ARGV[2] then", "if written ~= '' then"),
        bug("failed with the others", &["the contract"], scenario!(calls::one_of_many_failed))
            .does("a message that the answer of a call for many names as failed is called again at once")
            .patch(
                "nack",
                "  local deadline = holds(seals[i], scores[i], extras[i], now)\n",
                "  if string.find(reason, 'names it among', 1, true) then delay = '0' end\n\
                   local deadline = holds(seals[i], scores[i], extras[i], now)\n",
            ),
        bug("parked to the end", &["I12"], scenario!(calls::a_pulled_topic))
            .does("what was parked stays so when its topic is pushed no more")
            .patch("fetch_parked", "    redis.call('ZADD', k.delayed, due, member)\n", ""),
        // What scripts compute before they write, and what they write.
        bug("key cut at a NUL", &["I8", "I10"], probe!(keys::a_key_with_a_nul))
            .does("what is written of a message that failed ends where its key has a NUL")
            .patch(
                "nack",
                "  return table.concat({ string.format('%d,%d,', attempts, counted), max_attempts, string.format(',%d', priority), rest })",
                "  return string.format('%d,%d,%s,%d%s', attempts, counted, max_attempts, priority, rest)",
            ),
        bug("removed before it is placed", &["I1", "I8"], probe!(deaths::a_backoff))
            .does("a nack ends the lease, and then falls over the backoff that it computes")
            .patch(
                "nack",
                "        after = backoff(policy, counted, ARGV[at + 3])",
                "        redis.call('ZREM', k.unack, member)\n        after = backoff(policy, counted, ARGV[at + 3]) + nil",
            ),
        // What is left, and what is damaged.
        bug("history of a deleted topic", &["I8"], probe!(leftovers::a_deleted_topic))
            .does("a deleted topic leaves its history")
            .patch("close_partition", " k.history, k.recent,", ""),
        bug("a damaged body fails its call", &["I12"], probe!(leftovers::a_damaged_body))
            .does("a lease that looks at sizes falls over a body that is too short")
            .patch("*", "  if tag == 1 and low then size = size - 3", "  if tag == 1 then size = size - 3"),
        // What bounds the service.
        bug("budget not kept", &["I15"], scenario!(bounds::half_bodies))
            .does("bodies and answers in flight may take any amount of memory"),
        bug("refused grants kept", &["I12"], scenario!(bounds::grants_without_room))
            .does("what is granted and finds no room in the answer waits out its lease")
            .patch(
                "nack",
                "local deadline = holds(seals[i], scores[i], extras[i], now)\n",
                "local deadline = kind ~= 'u' and holds(seals[i], scores[i], extras[i], now)\n",
            ),
    ]
}
