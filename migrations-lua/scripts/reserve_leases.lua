-- @include time
-- reserve_leases: say that somebody is about to ask for leases of a topic of several partitions that may only have so many.
-- KEYS[1] meta
-- KEYS[2] held
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] how many
-- ARGV[3] how long this is noted, ms, unless it is removed before
-- ARGV[4] its name
-- returns: {now, how many others are asking for} or 'STALE'
-- cost: HGET, TIME, 2 ZREMRANGEBYSCORE, ZRANGEBYSCORE, ZADD
if redis.call('HGET', KEYS[1], 'topic') ~= ARGV[1] then return 'STALE' end
local now, up = now_ms()
-- What an older dueq counts here is in `unack` too. Its entries are below these.
local BEGIN = 2 ^ 50
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZREMRANGEBYSCORE', KEYS[2], int(BEGIN), int(BEGIN + now))
local others = 0
for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], int(BEGIN), '+inf')) do others = others + tonumber(string.match(entry, '^%d+')) end
redis.call('ZADD', KEYS[2], int(BEGIN + up + ARGV[3]), table.concat({ ARGV[2], ' ', ARGV[4] }))
return { now, others }
