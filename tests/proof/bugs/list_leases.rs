//! Bugs of grants and leases.

use super::probes::{grants, leases, waits};
use super::{Bug, bug, scenario};

pub(super) fn bugs() -> Vec<Bug> {
    vec![
        bug("early by 2 ms", &["I3"], scenario!(grants::impatient_consumers))
            .does("a lease takes what is due two milliseconds from now")
            .patch(
                "lease",
                "redis.call('ZCOUNT', KEYS[3], '-inf', now))",
                "redis.call('ZCOUNT', KEYS[3], '-inf', now + 2))",
            ),
        bug("promoted early", &["I3"], scenario!(grants::impatient_consumers))
            .does("messages with a priority are ready 5 ms before they are due")
            .patch("lease", "lib.promote(now, LIMIT,", "lib.promote(now + 5, LIMIT,"),
        bug("local clock", &["I3", "I4"], scenario!(grants::impatient_consumers))
            .does("a delay is counted from the clock of an instance, which is slow, not from Redis's"),
        bug("order reversed", &["I16"], scenario!(grants::one_after_another))
            .does("of what is taken together the last comes first")
            .patch(
                "lease",
                "local plain = redis.call('ZPOPMIN', KEYS[3], due)\n",
                "local popped, plain = redis.call('ZPOPMIN', KEYS[3], due), {}\n\
                      for i = 1, #popped, 2 do plain[#popped - i], plain[#popped - i + 1] = popped[i], popped[i + 1] end\n",
            ),
        bug("old payload after a replace", &["I2"], scenario!(grants::changed_messages))
            .does("a replace answers 200 and leaves the payload as it was")
            .patch(
                "publish_special",
                "    add(bodies, member, body)\n",
                "    add(bodies, member, code == 2 and redis.call('HGET', k.messages, member) or body)\n",
            ),
        bug("update without its due time", &["I3"], scenario!(grants::changed_messages))
            .does("an update changes the payload and leaves a message ready that it delayed")
            .patch(
                "update",
                "  place(member, priority, due, now, k.delayed, k.delayed_prio, k.ready)\n  if interval",
                "  place(member, priority, math.min(due, now), now, k.delayed, k.delayed_prio, k.ready)\n  if interval",
            ),
        bug("ttl ignored on redelivery", &["the contract"], scenario!(grants::time_to_live))
            .does("a message that was granted before is granted again after its time to live")
            .patch(
                "lease",
                "local _, _, _, _, rest = parse_extra(extras[i])\n    local due = ranked",
                "local attempts, _, _, _, rest = parse_extra(extras[i])\n    local due = ranked",
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
            .patch("*", "count = note_over(k, now, over, rules.ttl, budget)\n", "count = 0\n"),
        bug("paused not honoured", &["the contract", "I15"], scenario!(grants::a_pause))
            .does("a lease grants messages of a paused topic")
            .patch("lease", "if rules.paused then", "if false then"),
        bug("lease shorter than said", &["I4"], scenario!(leases::leases_that_run_out))
            .does("a lease ends half a second before the deadline that its holder was told")
            .patch(
                "lease",
                "pack_lease(up + tonumber(ARGV[want + 1]), number)",
                "pack_lease(now + tonumber(ARGV[want + 1]) - 500, number)",
            ),
        bug("no token check", &["I5"], scenario!(leases::old_tokens))
            .does("whoever ever held a message may end or extend its present lease")
            .patch("*", "if attempts + 1 ~= attempt then return false end", ""),
        bug("token without deadline", &["I5", "I6"], scenario!(leases::late_nacks))
            .does("a token holds its lease as long as nobody else was granted the message")
            .patch(
                "*",
                "if deadline <= now or of_lease ~= epoch then return false end",
                "if of_lease ~= epoch then return false end",
            ),
        bug("expired lease ackable", &["I5"], scenario!(leases::late_acks))
            .does("an ack of a first grant is taken after the deadline, before the next grant")
            .patch(
                "ack",
                "local least, good, before = (now + 1) * 2048,",
                "local least, good, before = 1,",
            ),
        bug("attempt wrapped at 2048", &["I5"], scenario!(leases::grant_2049))
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
        bug("extend shortens", &["I6"], scenario!(leases::extensions))
            .does("an extension by less than what is left makes the lease shorter")
            .patch("extend", "if wanted > deadline or sooner then", "if wanted ~= deadline then"),
        bug("extend past the cap", &["I6"], scenario!(leases::extensions))
            .does("a lease can be extended past 12 h from its grant")
            .patch(
                "extend",
                "local wanted = math.min(up + math.abs(lease), tonumber(ARGV[options + n + i]))",
                "local wanted = now + math.abs(lease)",
            ),
        bug("long poll oversleeps", &["I12"], scenario!(waits::waiting_consumers))
            .does("consumers that wait are told a moment two seconds after the message falls due")
            .patch(
                "lease",
                "local reply = { now, up, next_at,",
                "local reply = { now, up, next_at == 0 and 0 or next_at + 2000,",
            ),
        bug("nobody woken", &["I12"], scenario!(waits::waiting_consumers))
            .does("a publish wakes no consumer that waits")
            .patch(
                "publish",
                "if not sleep or due >= tonumber(sleep) then return 0 end",
                "if true then return 0 end",
            ),
        bug("wake-up left to the instance", &["I12"], scenario!(waits::waiting_consumers))
            .does("a publish wakes only who waits at the instance that it came through")
            .patch("publish", "  announce(meta_key)\n", ""),
        bug("wake-ups not restored", &["I12"], scenario!(waits::waiting_after_a_restart))
            .does("an instance that lost its subscription to wake-ups never notices"),
        bug("missing bound on a scan", &["I12"], scenario!(waits::many_leases_over))
            .does("one call ends all leases that are over, however many there are")
            .patch(
                "lease",
                "local list = redis.call('ZRANGEBYSCORE', key, '-inf', over, 'WITHSCORES', 'LIMIT', 0, limit - ended)",
                "local list = redis.call('ZRANGEBYSCORE', key, '-inf', over, 'WITHSCORES')",
            ),
    ]
}
