-- @include time
-- note_instance: record that an instance runs, and forget those that were not heard of for too long. An instance that
-- cannot read the data is not recorded.
-- KEYS[1] alive
-- KEYS[2] schema
-- KEYS[3] min_reader
-- ARGV[1] instance: 'id started_at version+load.lanes.waiters.memory_bytes.clock_offset_ms.tzdata+schema.n'
-- ARGV[2] how long an instance is remembered, ms
-- ARGV[3] limit: instances that are remembered
-- ARGV[4] schema version: the newest that the instance reads
-- ARGV[5..] what the instance may have recorded before
-- returns: min_reader
-- cost: ZREM, 2 GET, TIME, ZADD, 2 ZREMRANGEBYSCORE, ZREMRANGEBYRANK, PEXPIRE
local need = tonumber(redis.call('GET', KEYS[3]) or redis.call('GET', KEYS[2])) or 0
-- A first write that adds nothing: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[1], '', unpack(ARGV, 5))
if need > tonumber(ARGV[4]) then return need end
local now = now_ms()
local life = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], int(now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', int(now - life))
-- The clock was set back since.
redis.call('ZREMRANGEBYSCORE', KEYS[1], int(now + life), '+inf')
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[3]))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return need
