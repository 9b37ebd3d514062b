//! Bugs of what ends messages, of keys, of groups, and of what dueq does of its own accord.

use super::probes::{counts, deaths, faults, groups, keys, told};
use super::{Bug, bug, scenario};

pub(super) fn bugs() -> Vec<Bug> {
    vec![
        bug("pop before record", &["I1"], scenario!(faults::lost_answers))
            .does("messages leave the queue in one step and are noted as leased in another")
            .patch("lease", "redis.call('ZADD', KEYS[1], unpack(leases))", ""),
        bug("a counter not counted", &["I9"], scenario!(counts::plain_lives))
            .does("the usual ack is left out of the totals")
            .patch("ack", "redis.call('HINCRBY', KEYS[5], 'acked', n)", ""),
        bug("housekeeping counts twice", &["I9"], scenario!(counts::leases_nobody_asks_for))
            .does("leases that housekeeping ends count twice")
            .patch(
                "sweep",
                "redis.call('HINCRBY', k.meta, 'lease_expired', ended)",
                "redis.call('HINCRBY', k.meta, 'lease_expired', 2 * ended)",
            ),
        bug("retained counted twice", &["I9"], scenario!(counts::retained_messages))
            .does("an acked message counts as expired when its retention ends")
            .patch(
                "*",
                "redis.call('ZREM', k.acked, unpack(gone))",
                "redis.call('ZREM', k.acked, unpack(gone)) redis.call('HINCRBY', k.meta, 'expired', #gone)",
            ),
        bug("delete leaves the body", &["I8"], scenario!(counts::deletes))
            .does("a deleted message's body stays in Redis")
            .patch("delete", "redis.call('HDEL', k.messages, unpack(members))", ""),
        bug("delete of a leased message", &["I11"], scenario!(counts::deletes))
            .does("a delete without force takes a message from its holder")
            .patch("delete", "if ARGV[4] ~= '1' then return 'LEASED' end", ""),
        bug("delete undone", &["I11"], scenario!(counts::deletes))
            .does("a ready message is granted although its delete was answered")
            .patch(
                "delete",
                "drop_all(k, { member }, 'deleted')",
                "if state ~= 'ready' then drop_all(k, { member }, 'deleted') end",
            ),
        bug("bulk delete of leased messages", &["I8", "I9", "I11"], scenario!(counts::a_bulk_delete))
            .does("a delete of many messages takes those that somebody holds")
            .patch("change_messages", "if state == 'leased' then return 2 end", ""),
        bug("bulk delete counts once", &["I9"], scenario!(counts::a_bulk_delete))
            .does("messages that one request deletes are left out of the totals")
            .patch(
                "change_messages",
                "redis.call('HINCRBY', k.meta, total, #members)",
                "if total ~= 'deleted' then redis.call('HINCRBY', k.meta, total, #members) end",
            ),
        bug("purge takes leased ones", &["I1", "I5", "I9"], scenario!(counts::a_purge))
            .does("a purge removes messages that somebody holds")
            .patch(
                "purge_topic",
                "if ARGV[4] == '1' then\n",
                "if ARGV[4] == '1' then\n\
                      for _, held in ipairs(redis.call('ZRANGE', k.unack, 0, limit)) do\n\
                      redis.call('ZREM', k.unack, held) drop_all(k, { held }, 'purged') end\n",
            ),
        bug("dead not atomic", &["I7", "I8", "I9"], scenario!(deaths::deaths))
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
        bug("nack does not count", &["I7"], scenario!(deaths::budgets))
            .does("a failure uses up no attempt")
            .patch("nack", "if kind == 'n' or kind == 'd' then counted = counted + 1 end", ""),
        bug("release counts", &["I7"], scenario!(deaths::budgets))
            .does("a message that is given back unworked uses up an attempt")
            .patch(
                "nack",
                "if kind == 'n' or kind == 'd' then counted = counted + 1 end",
                "if kind ~= 'u' then counted = counted + 1 end",
            ),
        bug("redrive keeps the old budget", &["I7"], scenario!(deaths::a_redrive))
            .does("a message is redriven with its attempts used up")
            .patch(
                "redrive_message",
                "local attempts, _, max_attempts, priority, rest = parse_extra(extra)\n  local _, ttl,",
                "local attempts, used, max_attempts, priority, rest = parse_extra(extra)\n  local _, ttl,",
            )
            .patch(
                "redrive_message",
                "format_extra(attempts, 0, max_attempts,",
                "format_extra(attempts, used, max_attempts,",
            ),
        bug("key not freed", &["I8", "I10"], scenario!(keys::keys_set_free))
            .does("a message that is done goes on holding its key")
            .patch(
                "*",
                "if key ~= '' and redis.call('HGET', k.keys, key) == member then",
                "if false then",
            ),
        bug("key held by the dead", &["I10"], scenario!(keys::keys_set_free))
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
        bug("idempotency key ignored", &["I10"], scenario!(keys::repeated_publishes))
            .does("a publish that is repeated makes a second message")
            .patch(
                "publish_special",
                "local first = not code and idem ~= '' and redis.call('HGET', k.idem, idem)",
                "local first = false",
            ),
        bug("idempotency answers of old", &["I10"], scenario!(keys::repeats_of_what_is_gone))
            .does("a repeated publish is told the state that its message had at first")
            .patch("publish_special", "state = where or 'gone'", "state = word"),
        bug("waiting is an attempt", &["I14"], scenario!(told::a_paused_host))
            .does("a callback that is given back because no slot is free has had an attempt")
            .patch(
                "nack",
                "local attempt = kind == 'w' and attempts or attempts + 1",
                "local attempt = attempts + 1",
            )
            .patch("nack", "if kind ~= 'w' then redis.call('HSET', k.extra", "if true then redis.call('HSET', k.extra"),
        bug("answers swapped", &["I2", "I15"], scenario!(groups::crowds))
            .does("callers of a group are given each other's answers"),
        bug("keys read first", &["I10", "I15"], scenario!(groups::one_key_by_two))
            .does("a group looks for its keys before any of it is stored: two publishes of one key both are"),
        bug("tokens read first", &["I5", "I15"], scenario!(groups::one_token_by_two))
            .does("a group checks its tokens before any of it is done: two acks of one token both are 204"),
        bug("blind repeat", &["I15"], scenario!(faults::lost_answers))
            .does("a publish whose answer was lost is sent again"),
        bug("sent after 503", &["I15"], scenario!(faults::a_redis_that_stands_still))
            .does("a publish that waited too long is answered redis_unavailable, and sent later all the same"),
        bug("unavailable after it was sent", &["I15"], scenario!(faults::a_redis_that_stands_still))
            .does("what was sent and not answered is called redis_unavailable, not outcome_unknown"),
        bug("called again", &["I14"], scenario!(told::callbacks))
            .does("a callback is called once more after its 200 was recorded"),
        bug("secrets for strangers", &["I14"], scenario!(told::secrets))
            .does("a topic's authorization goes wherever its messages go"),
        bug("denied and dialled", &["I14"], scenario!(told::secrets))
            .does("an address is called that --callback-deny names"),
        bug("tick doubled", &["I14"], scenario!(told::ticks))
            .does("two instances make the same tick of a schedule")
            .patch("claim_schedules", "redis.call('ZADD', KEYS[3], held, name)", "")
            .patch(
                "publish_special",
                "local first = not code and idem ~= '' and redis.call('HGET', k.idem, idem)",
                "local first = idem ~= '' and string.byte(idem) ~= 255 and redis.call('HGET', k.idem, idem)",
            ),
    ]
}
