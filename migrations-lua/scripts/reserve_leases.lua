-- @include time
-- reserve_leases: reserve leases of a topic that may only have so many at once, over all of its partitions.
-- KEYS[1] meta
-- KEYS[2] held
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] most: how many to reserve
-- ARGV[3] max_leased: how many the topic may have
-- ARGV[4] how long they are reserved, ms, unless `hold_leases` says what has become of them
-- ARGV[5] what they are called until then; numbers are added, from 1
-- returns: {now, reserved, when to look again if that is less than asked for, ms (else 0)} or 'STALE'
-- cost: HGET, TIME, ZRANGEBYSCORE, ZREM, ZCOUNT, ZADD; ZRANGEBYSCORE if it is less than asked for, HSET if it is none
if redis.call('HGET', KEYS[1], 'topic') ~= ARGV[1] then return 'STALE' end
local now, up = now_ms()
-- Many may have ended at once.
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 512)
-- A first write that mostly removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[2], '', unpack(over))
local later = string.format('(%d', now)
local most, next_end = tonumber(ARGV[2]), 0
local reserved = math.max(math.min(most, tonumber(ARGV[3]) - redis.call('ZCOUNT', KEYS[2], later, '+inf')), 0)
if reserved > 0 then
  local held = {}
  for i = 1, reserved do
    held[2 * i - 1], held[2 * i] = int(up + tonumber(ARGV[4])), table.concat({ ARGV[5], int(i) })
  end
  redis.call('ZADD', KEYS[2], unpack(held))
end
if reserved < most then
  -- Whoever ends a lease wakes those who wait for it. Whoever gives back what was only reserved does not: two consumers
  -- that find no messages would wake each other for ever. So one who got nothing for that looks again soon.
  if reserved == 0 then redis.call('HSET', KEYS[1], 'short', '1') end
  local first_end = tonumber(redis.call('ZRANGEBYSCORE', KEYS[2], later, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or math.huge)
  next_end = math.min(first_end, up + 250)
end
return { now, reserved, next_end }
