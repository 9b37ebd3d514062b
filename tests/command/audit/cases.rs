//! Kinds of damage: what is published, how it is damaged, what an audit says.

/// What must be true of the message once all is mended.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    /// It can be leased and acked.
    Leased,
    /// It is in this state.
    In(&'static str),
    /// It is not there any more.
    Gone,
    /// Its topic works; its old id may lead nowhere.
    New,
}
use Then::*;

/// What is published, what is then done to it in Lua, what is found, what becomes of the message. In the Lua `member` and
/// `topic` are the message's, `key(name)` is a key of its partition, `call` is redis.call.
pub type Damage = (&'static str, &'static str, &'static str, Then);

/// To a message itself.
pub const MESSAGES: &[Damage] = &[
    ("no_place", "{}", "call('ZREM', key('delayed'), member)", Leased),
    ("no_place", r#"{"priority": 9}"#, "call('ZREM', key('ready'), member)", Leased),
    (
        "no_place",
        r#"{"key": "a", "ttl_ms": 60000}"#,
        "call('DEL', key('delayed'), key('expires'), key('keys'))",
        Leased,
    ),
    ("no_body", "{}", "call('HDEL', key('messages'), member)", Gone),
    (
        "no_body",
        r#"{"key": "b", "priority": 2, "ttl_ms": 9000}"#,
        "call('HDEL', key('messages'), member)",
        Gone,
    ),
    ("many_places", "{}", "call('ZADD', key('dead'), 1, member)", Leased),
    (
        "many_places",
        "{}",
        "call('ZADD', key('acked'), 1, member)\ncall('ZADD', key('ready'), 1, member)",
        Leased,
    ),
    (
        "many_places",
        "{}",
        "call('ZADD', key('unack'), string.format('%d', (call('TIME')[1] * 1000 + 600000) * 2048), member)",
        In("leased"),
    ),
    (
        "wrong_time",
        "{}",
        "call('ZREM', key('delayed'), member)\ncall('ZADD', key('unack'), '-inf', member)",
        Leased,
    ),
    (
        "wrong_time",
        r#"{"key": "t", "priority": 4}"#,
        "call('ZREM', key('ready'), member)\ncall('ZADD', key('unack'), 'inf', member)",
        Leased,
    ),
    (
        "wrong_time",
        r#"{"max_attempts": 2}"#,
        "call('ZREM', key('delayed'), member)\ncall('ZADD', key('last'), 9e15, member)",
        Leased,
    ),
    (
        "wrong_time",
        "{}",
        "call('ZREM', key('delayed'), member)\ncall('ZADD', key('dead'), '-inf', member)",
        In("dead"),
    ),
    (
        "wrong_place",
        "{}",
        "call('ZREM', key('delayed'), member)\ncall('ZADD', key('ready'), 5, member)",
        Leased,
    ),
    (
        "wrong_place",
        r#"{"priority": 9}"#,
        "call('ZREM', key('ready'), member)\ncall('ZADD', key('delayed'), 5, member)",
        Leased,
    ),
    ("wrong_place", r#"{"priority": 9}"#, "call('ZADD', key('ready'), 5, member)", Leased),
    ("wrong_place", "{}", "call('ZADD', key('delayed'), '-inf', member)", Leased),
    (
        "bad_id",
        "{}",
        "call('HSET', key('messages'), 'abc', '\\0001')\ncall('ZADD', key('dead'), 1, 'abc')",
        Leased,
    ),
    ("bad_body", "{}", "call('HSET', key('messages'), member, '')", Gone),
    ("bad_body", "{}", "call('HSET', key('messages'), member, '\\1\\0\\3{x}')", Gone),
    ("bad_body", "{}", "call('HSET', key('messages'), member, '\\0{\"a\": [1, 2}')", Gone),
    (
        "bad_body",
        r#"{"headers": {"a": "b"}}"#,
        "call('HSET', key('messages'), member, '\\7')\ncall('ZREM', key('delayed'), member)",
        Gone,
    ),
    ("bad_extra", "{}", "call('HSET', key('extra'), member, 'x')", Leased),
    (
        "bad_extra",
        r#"{"priority": 3, "key": "c"}"#,
        "call('HSET', key('extra'), member, '1,1,,900')",
        Leased,
    ),
];

/// To what lies beside messages, and to counts.
pub const BESIDE: &[Damage] = &[
    ("stray_extra", "{}", "call('HSET', key('extra'), 'elevenbytes', '1,1,,0')", Leased),
    ("stray_events", "{}", "call('HSET', key('events'), 'elevenbytes', 'n 1 1\\n')", Leased),
    ("stray_expires", "{}", "call('ZADD', key('expires'), 9e15, 'elevenbytes')", Leased),
    ("stray_expires", "{}", "call('ZADD', key('expires'), 9e15, member)", Leased),
    ("stray_first_due", "{}", "call('ZADD', key('first_due'), 9e15, 'elevenbytes')", Leased),
    (
        "no_expires",
        r#"{"ttl_ms": 60000, "delay_ms": 100}"#,
        "call('ZREM', key('expires'), member)",
        Leased,
    ),
    ("lost_key", r#"{"key": "d"}"#, "call('HDEL', key('keys'), 'd')", Leased),
    ("lost_key", r#"{"key": "e"}"#, "call('HSET', key('keys'), 'e', 'elevenbytes')", Leased),
    ("wrong_line", r#"{"group": "l"}"#, "call('DEL', key('heads'))", Leased),
    (
        "stuck_group",
        r#"{"group": "m"}"#,
        "call('ZREM', key('delayed'), member)\ncall('ZADD', key('blocked'), 1, member)
        call('RENAME', key('heads'), key('queued'))",
        Leased,
    ),
    (
        "stray_heads",
        "{}",
        "call('ZADD', key('heads'), 0, string.rep('0', 28) .. 'elevenbytes')",
        Leased,
    ),
    (
        "stray_queued",
        "{}",
        "call('ZADD', key('queued'), 0, string.rep('0', 28) .. 'elevenbytes')",
        Leased,
    ),
    ("stray_key", "{}", "call('HSET', key('keys'), 'f', member)", Leased),
    ("stray_key", r#"{"key": "g"}"#, "call('HSET', key('keys'), 'h', member)", Leased),
    ("bad_idem", r#"{"idempotency_key": "i"}"#, "call('HSET', key('idem'), 'i', 'x')", Leased),
    ("no_idem_due", r#"{"idempotency_key": "j"}"#, "call('ZREM', key('idem_due'), 'j')", Leased),
    ("stray_idem_due", r#"{"idempotency_key": "k"}"#, "call('HDEL', key('idem'), 'k')", Leased),
    ("counts", "{}", "call('ZADD', key('delayed'), 5, 'elevenbytes')", Leased),
    ("totals", "{}", "call('HINCRBY', key('meta'), 'published', -1)", Leased),
    ("totals", "{}", "call('HINCRBY', key('meta'), 'published', 3)", Leased),
    ("totals", "{}", "call('HINCRBY', key('meta'), 'acked', -3)", Leased),
    ("totals", "{}", "call('HSET', key('meta'), 'granted', 'x')", Leased),
];

/// To topics.
pub const TOPICS: &[Damage] = &[
    ("partition", "{}", "call('HSET', key('meta'), 'topic', 'x')", Leased),
    ("partition", "{}", "call('HSET', key('meta'), 'topic', '9000 1')", Leased),
    ("partition", "{}", "call('HSET', key('meta'), 'topic', '-' .. number)", Leased),
    ("partition", "{}", "call('HDEL', key('meta'), 'max_attempts')", Leased),
    ("bad_entry", "{}", "call('HSET', registry, topic, 'x')", Leased),
    (
        "bad_entry",
        "{}",
        "call('HSET', registry, topic, call('HGET', registry, topic) .. ' {')",
        Leased,
    ),
    ("no_number", "{}", "call('HDEL', names, number)", Leased),
    ("second_number", "{}", "call('HSET', names, '0', topic)", Leased),
    (
        "taken_number",
        "{}",
        "call('HSET', registry, topic, '1 ' .. call('HGET', names, 'revision'))\ncall('HDEL', names, number)",
        New,
    ),
    ("not_in_index", "{}", "call('ZREM', index, topic)", Leased),
    ("not_in_registry", "{}", "call('HDEL', registry, topic)", Leased),
    ("not_in_registry", "{}", "call('HDEL', registry, topic)\ncall('HDEL', names, number)", New),
    ("late_counter", "{}", "call('HSET', names, 'next', 0)", Leased),
    ("late_counter", "{}", "call('HDEL', names, 'revision')", Leased),
    ("bad_name", "{}", "call('ZADD', index, 0, 'a b')", Leased),
    ("bad_name", "{}", "call('HSET', registry, '..', '5 5')", Leased),
    ("bad_name", "{}", "call('HSET', names, '900', '')", Leased),
    ("bad_name", "{}", "call('ZADD', sweeps, 9e15, 'a b')", Leased),
    ("leftover", "{}", "call('ZADD', sweeps, 9e15, 'gone/3')", Leased),
    ("leftover", "{}", "call('ZADD', sweeps, 9e15, topic .. '/1')", Leased),
    ("leftover", "{}", "call('ZADD', 'dueq:{history}:active', 9e15, 'gone')", Leased),
    ("leftover", "{}", "call('HSET', 'dueq:{history}:lateness', 'gone', '1 0:1')", Leased),
    ("leftover", "{}", "call('RPUSH', 'dueq:{gone:0}:history', '1')", Leased),
    ("leftover", "{}", "call('RPUSH', 'dueq:{gone:0}:recent', '1')", Leased),
    ("leftover", "{}", "call('HSET', 'dueq:{gone:0}:meta', 'topic', '-7')", Leased),
];
