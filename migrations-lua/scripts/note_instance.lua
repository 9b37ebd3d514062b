-- @include time
-- note_instance: record that an instance runs, and forget those that were not heard of for too long.
-- KEYS[1] alive
-- ARGV[1] instance: 'id started_at version'
-- ARGV[2] how long an instance is remembered, ms
-- ARGV[3] limit: instances that are remembered
-- returns: 'OK'
-- cost: ZREM, TIME, ZADD, 2 ZREMRANGEBYSCORE, ZREMRANGEBYRANK, PEXPIRE
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[1], '')
local now = now_ms()
local life = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], int(now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', int(now - life))
-- The clock was set back since.
redis.call('ZREMRANGEBYSCORE', KEYS[1], int(now + life), '+inf')
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[3]))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'OK'
