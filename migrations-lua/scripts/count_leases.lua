-- @include time
-- @include waiting
-- count_leases: how many messages of a partition are leased.
-- KEYS[1] meta
-- KEYS[2] unack
-- KEYS[3] last
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] short: 1 if consumers wait until a lease ends; what ends one wakes them
-- returns: {now, leases, when the next one ends (ms; 0: there is none)} or 'STALE'
-- cost: HGET, ZREM, TIME, 2 ZCOUNT; HSET and 2 ZRANGE if consumers wait
if redis.call('HGET', KEYS[1], 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', KEYS[2], '')
local now, held = now_ms(), nil
held = string.format('(%d', now * 2048 + 2047)
local leases, ends = redis.call('ZCOUNT', KEYS[2], held, '+inf') + redis.call('ZCOUNT', KEYS[3], held, '+inf'), math.huge
if ARGV[2] == '1' then
  redis.call('HSET', KEYS[1], 'short', '1')
  ends = next_end(KEYS[2], KEYS[3])
end
return { now, leases, ends < math.huge and ends or 0 }
