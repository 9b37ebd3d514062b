-- @include config
-- delete_schedule: delete a schedule.
-- KEYS[1] entries
-- KEYS[2] states
-- KEYS[3] due
-- KEYS[4] index
-- ARGV[1] name
-- returns: 'OK' or 'NONE'
-- cost: ZREM twice, HDEL twice
redis.call('ZREM', KEYS[3], ARGV[1])
local known = redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1], missed_field(ARGV[1]))
return known == 1 and 'OK' or 'NONE'
