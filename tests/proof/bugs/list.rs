//! Bugs of grants and leases.

use super::{Bug, Patch, probes};

/// A probe as a scenario.
macro_rules! probe {
    ($module:ident::$name:ident) => {
        $crate::proof::bugs::Scenario {
            name: stringify!($name),
            run: |setting| Box::pin(probes::$module::$name(setting)),
        }
    };
}
pub(super) use probe;

pub(super) fn bugs() -> Vec<Bug> {
    vec![
        Bug {
            name: "early by 2 ms",
            does: "a lease takes what is due two milliseconds from now",
            patches: &[Patch {
                script: "lease",
                find: "redis.call('ZCOUNT', KEYS[3], '-inf', now))",
                put: "redis.call('ZCOUNT', KEYS[3], '-inf', now + 2))",
            }],
            breaks: &["I3"],
            scenario: probe!(grants::impatient_consumers),
        },
        Bug {
            name: "promoted early",
            does: "messages with a priority are ready 5 ms before they are due",
            patches: &[Patch {
                script: "lease",
                find: "lib.promote(now, LIMIT,",
                put: "lib.promote(now + 5, LIMIT,",
            }],
            breaks: &["I3"],
            scenario: probe!(grants::impatient_consumers),
        },
        Bug {
            name: "local clock",
            does: "a delay is counted from the clock of an instance, which is slow, not from Redis's",
            patches: &[],
            breaks: &["I3", "I4"],
            scenario: probe!(grants::impatient_consumers),
        },
        Bug {
            name: "order reversed",
            does: "of what is taken together the last comes first",
            patches: &[Patch {
                script: "lease",
                find: "local plain = redis.call('ZPOPMIN', KEYS[3], due)\n",
                put: "local popped, plain = redis.call('ZPOPMIN', KEYS[3], due), {}\n\
                      for i = 1, #popped, 2 do plain[#popped - i], plain[#popped - i + 1] = popped[i], popped[i + 1] end\n",
            }],
            breaks: &["I16"],
            scenario: probe!(grants::one_after_another),
        },
        Bug {
            name: "old payload after a replace",
            does: "a replace answers 200 and leaves the payload as it was",
            patches: &[Patch {
                script: "publish_special",
                find: "    add(bodies, member, body)\n",
                put: "    add(bodies, member, code == 2 and redis.call('HGET', k.messages, member) or body)\n",
            }],
            breaks: &["I2"],
            scenario: probe!(grants::changed_messages),
        },
        Bug {
            name: "update without its due time",
            does: "an update changes the payload and leaves a message ready that it delayed",
            patches: &[Patch {
                script: "update",
                find: "if not dies then place(member, priority, due, now,",
                put: "if not dies then place(member, priority, math.min(due, now), now,",
            }],
            breaks: &["I3"],
            scenario: probe!(grants::changed_messages),
        },
        Bug {
            name: "ttl ignored on redelivery",
            does: "a message that was granted before is granted again after its time to live",
            patches: &[
                Patch {
                    script: "lease",
                    find: "local _, _, _, _, rest = parse_extra(extras[i])\n    local due = ranked",
                    put: "local attempts, _, _, _, rest = parse_extra(extras[i])\n    local due = ranked",
                },
                Patch {
                    script: "lease",
                    find: "if expires and expires <= now then over",
                    put: "if expires and expires <= now and attempts == 0 then over",
                },
                Patch {
                    script: "*",
                    find: "local over = expiry(k, member, rest, deadline, ttl)\n",
                    put: "local over = false\n",
                },
                Patch {
                    script: "*",
                    find: "count = note_over(k, now, over, rules.ttl, budget)\n",
                    put: "count = 0\n",
                },
            ],
            breaks: &["the contract"],
            scenario: probe!(grants::time_to_live),
        },
        Bug {
            name: "paused not honoured",
            does: "a lease grants messages of a paused topic",
            patches: &[Patch {
                script: "lease",
                find: "if rules.paused then",
                put: "if false then",
            }],
            breaks: &["the contract", "I15"],
            scenario: probe!(grants::a_pause),
        },
        Bug {
            name: "lease shorter than said",
            does: "a lease ends half a second before the deadline that its holder was told",
            patches: &[Patch {
                script: "lease",
                find: "pack_lease(up + tonumber(ARGV[want + 1]), number)",
                put: "pack_lease(now + tonumber(ARGV[want + 1]) - 500, number)",
            }],
            breaks: &["I4"],
            scenario: probe!(leases::leases_that_run_out),
        },
        Bug {
            name: "no token check",
            does: "whoever ever held a message may end or extend its present lease",
            patches: &[Patch {
                script: "*",
                find: "if attempts + 1 ~= attempt then return false end",
                put: "",
            }],
            breaks: &["I5"],
            scenario: probe!(leases::old_tokens),
        },
        Bug {
            name: "token without deadline",
            does: "a token holds its lease as long as nobody else was granted the message",
            patches: &[Patch {
                script: "*",
                find: "if deadline <= now or of_lease ~= epoch then return false end",
                put: "if of_lease ~= epoch then return false end",
            }],
            breaks: &["I5", "I6"],
            scenario: probe!(leases::late_nacks),
        },
        Bug {
            name: "expired lease ackable",
            does: "an ack of a first grant is taken after the deadline, before the next grant",
            patches: &[Patch {
                script: "ack",
                find: "local least, good, before = (now + 1) * 2048,",
                put: "local least, good, before = 1,",
            }],
            breaks: &["I5"],
            scenario: probe!(leases::late_acks),
        },
        Bug {
            name: "attempt wrapped at 2048",
            does: "of a token's attempt only eleven bits are compared",
            patches: &[Patch {
                script: "*",
                find: "if attempts + 1 ~= attempt then return false end",
                put: "if (attempts + 1 - attempt) % 2048 ~= 0 then return false end",
            }],
            breaks: &["I5"],
            scenario: probe!(leases::grant_2049),
        },
        Bug {
            name: "token of another run",
            does: "a token from before Redis lost its newest seconds fits a grant made after",
            patches: &[Patch {
                script: "*",
                find: "local number = numbers[at + 1]",
                put: "local number = numbers[at + 1] or redis.call('HGET', meta, 'epochs')",
            }],
            breaks: &["I13"],
            scenario: probe!(leases::a_forgotten_grant),
        },
        Bug {
            name: "extend shortens",
            does: "an extension by less than what is left makes the lease shorter",
            patches: &[Patch {
                script: "extend",
                find: "if wanted > deadline then",
                put: "if wanted ~= deadline then",
            }],
            breaks: &["I6"],
            scenario: probe!(leases::extensions),
        },
        Bug {
            name: "extend past the cap",
            does: "a lease can be extended past 12 h from its grant",
            patches: &[Patch {
                script: "extend",
                find: "local wanted = math.min(up + tonumber(ARGV[options + i]), tonumber(ARGV[options + n + i]))",
                put: "local wanted = now + tonumber(ARGV[options + i])",
            }],
            breaks: &["I6"],
            scenario: probe!(leases::extensions),
        },
        Bug {
            name: "long poll oversleeps",
            does: "consumers that wait are told a moment two seconds after the message falls due",
            patches: &[Patch {
                script: "lease",
                find: "local reply = { now, up, next_at,",
                put: "local reply = { now, up, next_at == 0 and 0 or next_at + 2000,",
            }],
            breaks: &["I12"],
            scenario: probe!(waits::waiting_consumers),
        },
        Bug {
            name: "nobody woken",
            does: "a publish wakes no consumer that waits",
            patches: &[Patch {
                script: "publish",
                find: "if not sleep or due >= tonumber(sleep) then return 0 end",
                put: "if true then return 0 end",
            }],
            breaks: &["I12"],
            scenario: probe!(waits::waiting_consumers),
        },
        Bug {
            name: "wake-up left to the instance",
            does: "a publish wakes only who waits at the instance that it came through",
            patches: &[Patch { script: "publish", find: "  announce(meta_key)\n", put: "" }],
            breaks: &["I12"],
            scenario: probe!(waits::waiting_consumers),
        },
        Bug {
            name: "wake-ups not restored",
            does: "an instance that lost its subscription to wake-ups never notices",
            patches: &[],
            breaks: &["I12"],
            scenario: probe!(waits::waiting_after_a_restart),
        },
        Bug {
            name: "missing bound on a scan",
            does: "one call ends all leases that are over, however many there are",
            patches: &[Patch {
                script: "lease",
                find: "local list = redis.call('ZRANGEBYSCORE', key, '-inf', over, 'WITHSCORES', 'LIMIT', 0, limit - ended)",
                put: "local list = redis.call('ZRANGEBYSCORE', key, '-inf', over, 'WITHSCORES')",
            }],
            breaks: &["I12"],
            scenario: probe!(waits::many_leases_over),
        },
    ]
}
