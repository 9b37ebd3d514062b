-- note_sweeps: say when topics must be swept, for each the earliest that anybody says.
-- KEYS[1] sweeps
-- ARGV[1..] pairs moment (ms), name
-- returns: 'OK'
-- cost: ZREM, one ZADD
-- A first write that removes, and misses: at maxmemory what ends must leave all the more.
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], 'LT', unpack(ARGV))
return 'OK'
