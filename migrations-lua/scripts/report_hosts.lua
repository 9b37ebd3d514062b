-- @include time
-- report_hosts: record how an instance's calls to hosts go, and forget instances that were not heard of for too long.
-- KEYS[1] reported
-- KEYS[2] reports
-- ARGV[1] instance
-- ARGV[2] report (JSON); empty: the instance has none any more
-- ARGV[3] how long a report counts, ms
-- ARGV[4] limit: instances whose reports are kept
-- returns: 'OK' or 'FULL'
-- cost: ZREM, HDEL, TIME, 2 ZRANGEBYSCORE, ZCARD, ZADD, HSET, 2 PEXPIRE; ZREM and HDEL for each that is forgotten
-- The first write removes: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
local now, life = now_ms(), tonumber(ARGV[3])
-- Those with a later time are from before the clock was set back.
for _, range in ipairs({ { '-inf', int(now - life) }, { int(now + life), '+inf' } }) do
  local gone = redis.call('ZRANGEBYSCORE', KEYS[1], range[1], range[2], 'LIMIT', 0, 1000)
  for _, instance in ipairs(gone) do
    redis.call('ZREM', KEYS[1], instance)
    redis.call('HDEL', KEYS[2], instance)
  end
end
if ARGV[2] == '' then return 'OK' end
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) then return 'FULL' end
redis.call('ZADD', KEYS[1], int(now), ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 'OK'
