-- note_sweeps: record when to sweep topics. The earliest moment for a topic counts.
-- KEYS[1] sweeps
-- ARGV[1..] pairs moment (ms), name
-- returns: 'OK'
-- cost: ZREM, one ZADD
-- A first write that removes nothing: at maxmemory, sweeps matter even more.
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], 'LT', unpack(ARGV))
return 'OK'
