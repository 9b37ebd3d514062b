//! Bugs of what ends messages, of keys, of groups, and of what dueq does of its own accord.

use super::{Bug, Patch, list::probe, probes};

pub(super) fn bugs() -> Vec<Bug> {
    vec![
        Bug {
            name: "pop before record",
            does: "messages leave the queue in one step and are noted as leased in another",
            patches: &[Patch {
                script: "lease",
                find: "redis.call('ZADD', KEYS[1], unpack(leases))",
                put: "",
            }],
            breaks: &["I1"],
            scenario: probe!(faults::lost_answers),
        },
        Bug {
            name: "a counter not counted",
            does: "the usual ack is left out of the totals",
            patches: &[Patch {
                script: "ack",
                find: "redis.call('HINCRBY', KEYS[5], 'acked', n)",
                put: "",
            }],
            breaks: &["I9"],
            scenario: probe!(counts::plain_lives),
        },
        Bug {
            name: "housekeeping counts twice",
            does: "leases that housekeeping ends count twice",
            patches: &[Patch {
                script: "sweep",
                find: "redis.call('HINCRBY', k.meta, 'lease_expired', ended)",
                put: "redis.call('HINCRBY', k.meta, 'lease_expired', 2 * ended)",
            }],
            breaks: &["I9"],
            scenario: probe!(counts::leases_nobody_asks_for),
        },
        Bug {
            name: "retained counted twice",
            does: "an acked message counts as expired when its retention ends",
            patches: &[Patch {
                script: "*",
                find: "redis.call('ZREM', k.acked, unpack(gone))",
                put: "redis.call('ZREM', k.acked, unpack(gone)) redis.call('HINCRBY', k.meta, 'expired', #gone)",
            }],
            breaks: &["I9"],
            scenario: probe!(counts::retained_messages),
        },
        Bug {
            name: "delete leaves the body",
            does: "a deleted message's body stays in Redis",
            patches: &[Patch {
                script: "delete",
                find: "redis.call('HDEL', k.messages, unpack(members))",
                put: "",
            }],
            breaks: &["I8"],
            scenario: probe!(counts::deletes),
        },
        Bug {
            name: "delete of a leased message",
            does: "a delete without force takes a message from its holder",
            patches: &[Patch {
                script: "delete",
                find: "if ARGV[4] ~= '1' then return 'LEASED' end",
                put: "",
            }],
            breaks: &["I11"],
            scenario: probe!(counts::deletes),
        },
        Bug {
            name: "delete undone",
            does: "a ready message is granted although its delete was answered",
            patches: &[Patch {
                script: "delete",
                find: "drop_all(k, { member }, 'deleted')",
                put: "if state ~= 'ready' then drop_all(k, { member }, 'deleted') end",
            }],
            breaks: &["I11"],
            scenario: probe!(counts::deletes),
        },
        Bug {
            name: "purge takes leased ones",
            does: "a purge removes messages that somebody holds",
            patches: &[Patch {
                script: "purge_topic",
                find: "if ARGV[4] == '1' then\n",
                put: "if ARGV[4] == '1' then\n\
                      for _, held in ipairs(redis.call('ZRANGE', k.unack, 0, limit)) do\n\
                      redis.call('ZREM', k.unack, held) drop_all(k, { held }, 'purged') end\n",
            }],
            breaks: &["I1", "I5", "I9"],
            scenario: probe!(counts::a_purge),
        },
        Bug {
            name: "dead not atomic",
            does: "the last failure takes a message out, and a later step puts it among the dead",
            patches: &[
                Patch {
                    script: "nack",
                    find: "redis.call('ZADD', k.dead, at, member)",
                    put: "redis.call('ZADD', k.dead_out, at, member)",
                },
                Patch {
                    script: "sweep",
                    find: "local more = sweep(k, now, tonumber(ARGV[2]), rules)",
                    put: "for _, member in ipairs(redis.call('ZRANGE', k.dead_out, 0, 127)) do\n\
                          redis.call('ZADD', k.dead, now, member) redis.call('ZREM', k.dead_out, member) end\n\
                          local more = sweep(k, now, tonumber(ARGV[2]), rules)",
                },
            ],
            breaks: &["I7", "I8", "I9"],
            scenario: probe!(deaths::deaths),
        },
        Bug {
            name: "nack does not count",
            does: "a failure uses up no attempt",
            patches: &[Patch {
                script: "nack",
                find: "if kind == 'n' or kind == 'd' then counted = counted + 1 end",
                put: "",
            }],
            breaks: &["I7"],
            scenario: probe!(deaths::budgets),
        },
        Bug {
            name: "release counts",
            does: "a message that is given back unworked uses up an attempt",
            patches: &[Patch {
                script: "nack",
                find: "if kind == 'n' or kind == 'd' then counted = counted + 1 end",
                put: "if kind ~= 'u' then counted = counted + 1 end",
            }],
            breaks: &["I7"],
            scenario: probe!(deaths::budgets),
        },
        Bug {
            name: "redrive keeps the old budget",
            does: "a message is redriven with its attempts used up",
            patches: &[
                Patch {
                    script: "redrive_message",
                    find: "local attempts, _, max_attempts, priority, rest = parse_extra(extra)\n  local _, ttl,",
                    put: "local attempts, used, max_attempts, priority, rest = parse_extra(extra)\n  local _, ttl,",
                },
                Patch {
                    script: "redrive_message",
                    find: "format_extra(attempts, 0, max_attempts,",
                    put: "format_extra(attempts, used, max_attempts,",
                },
            ],
            breaks: &["I7"],
            scenario: probe!(deaths::a_redrive),
        },
        Bug {
            name: "key not freed",
            does: "a message that is done goes on holding its key",
            patches: &[Patch {
                script: "*",
                find: "if key ~= '' and redis.call('HGET', k.keys, key) == member then",
                put: "if false then",
            }],
            breaks: &["I8", "I10"],
            scenario: probe!(keys::keys_set_free),
        },
        Bug {
            name: "key held by the dead",
            does: "a publish is answered by a dead message that had its key",
            patches: &[
                Patch {
                    script: "*",
                    find: "if key ~= '' and redis.call('HGET', k.keys, key) == member then",
                    put: "if false then",
                },
                Patch {
                    script: "publish_special",
                    find: "if where == 'delayed' or where == 'ready' or where == 'leased' then",
                    put: "if where and where ~= 'acked' then",
                },
            ],
            breaks: &["I10"],
            scenario: probe!(keys::keys_set_free),
        },
        Bug {
            name: "idempotency key ignored",
            does: "a publish that is repeated makes a second message",
            patches: &[Patch {
                script: "publish_special",
                find: "local first = not code and idem ~= '' and redis.call('HGET', k.idem, idem)",
                put: "local first = false",
            }],
            breaks: &["I10"],
            scenario: probe!(keys::repeated_publishes),
        },
        Bug {
            name: "answers swapped",
            does: "callers of a group are given each other's answers",
            patches: &[],
            breaks: &["I2", "I15"],
            scenario: probe!(groups::crowds),
        },
        Bug {
            name: "keys read first",
            does: "a group looks for its keys before any of it is stored: two publishes of one key both are",
            patches: &[],
            breaks: &["I10", "I15"],
            scenario: probe!(groups::one_key_by_two),
        },
        Bug {
            name: "tokens read first",
            does: "a group checks its tokens before any of it is done: two acks of one token both are 204",
            patches: &[],
            breaks: &["I5", "I15"],
            scenario: probe!(groups::one_token_by_two),
        },
        Bug {
            name: "blind repeat",
            does: "a publish whose answer was lost is sent again",
            patches: &[],
            breaks: &["I15"],
            scenario: probe!(faults::lost_answers),
        },
        Bug {
            name: "sent after 503",
            does: "a publish that waited too long is answered redis_unavailable, and sent later all the same",
            patches: &[],
            breaks: &["I15"],
            scenario: probe!(faults::a_redis_that_stands_still),
        },
        Bug {
            name: "unavailable after it was sent",
            does: "what was sent and not answered is called redis_unavailable, not outcome_unknown",
            patches: &[],
            breaks: &["I15"],
            scenario: probe!(faults::a_redis_that_stands_still),
        },
        Bug {
            name: "called again",
            does: "a callback is called once more after its 200 was recorded",
            patches: &[],
            breaks: &["I14"],
            scenario: probe!(told::callbacks),
        },
        Bug {
            name: "secrets for strangers",
            does: "a topic's authorization goes wherever its messages go",
            patches: &[],
            breaks: &["I14"],
            scenario: probe!(told::secrets),
        },
        Bug {
            name: "denied and dialled",
            does: "an address is called that --callback-deny names",
            patches: &[],
            breaks: &["I14"],
            scenario: probe!(told::secrets),
        },
        Bug {
            name: "tick doubled",
            does: "two instances make the same tick of a schedule",
            patches: &[
                Patch {
                    script: "claim_schedules",
                    find: "redis.call('ZADD', KEYS[3], held, name)",
                    put: "",
                },
                Patch {
                    script: "publish_special",
                    find: "local first = not code and idem ~= '' and redis.call('HGET', k.idem, idem)",
                    put: "local first = idem ~= '' and string.byte(idem) ~= 255 and redis.call('HGET', k.idem, idem)",
                },
            ],
            breaks: &["I14"],
            scenario: probe!(told::ticks),
        },
    ]
}
