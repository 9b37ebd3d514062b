-- @include time
-- @include waiting
-- count_leases: how many messages of a partition are leased, in a topic of several partitions that may only have so many; and
-- note that leases of it are about to be asked for.
-- KEYS[1] meta
-- KEYS[2] unack
-- KEYS[3] last
-- KEYS[4] held
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] short: 1 if consumers wait until a lease ends; what ends one wakes them
-- ARGV[3] how many will be asked for
-- ARGV[4] how long this is noted, ms, unless it is removed before
-- ARGV[5] its name
-- returns: {now, leases, when the next one ends (ms; 0: there is none), how many others are about to ask for} or 'STALE'
-- cost: HGET, ZREM, TIME, 2 ZCOUNT, 2 ZREMRANGEBYSCORE, ZRANGEBYSCORE, ZADD; HSET and 2 ZRANGE if consumers wait
if redis.call('HGET', KEYS[1], 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', KEYS[2], '')
local now, up = now_ms()
local held = string.format('(%d', now * 2048 + 2047)
local leases, ends = redis.call('ZCOUNT', KEYS[2], held, '+inf') + redis.call('ZCOUNT', KEYS[3], held, '+inf'), math.huge
-- What an older dueq counts here is in `unack` too. Its entries are below these.
local BEGIN = 2 ^ 50
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[4], int(BEGIN), int(BEGIN + now))
local own, others = table.concat({ ARGV[3], ' ', ARGV[5] }), 0
for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], int(BEGIN), '+inf')) do
  if entry ~= own then others = others + tonumber(string.match(entry, '^%d+')) end
end
redis.call('ZADD', KEYS[4], int(BEGIN + up + ARGV[4]), own)
if ARGV[2] == '1' then
  redis.call('HSET', KEYS[1], 'short', '1')
  ends = next_end(KEYS[2], KEYS[3])
end
return { now, leases, ends < math.huge and ends or 0, others }
