-- @include history
-- @include oldest
-- @include partition
-- @include time
-- read_history: return the newest points of a partition, and what happened since it was last noted.
-- KEYS[1..] all of the partition's, and those of its history
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] step of the points, ms: 10000 or 60000
-- ARGV[3] limit: points
-- returns: {now, when the oldest ready message fell due (0: none), published, granted, acked, nacked, dead, lease_expired,
--   {point, …}} or 'STALE'
-- cost: HGET, TIME, HMGET, 2 ZCOUNT, 4 ZRANGE, one more for each distinct priority among the ready, LRANGE
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
local now = now_ms()
local _, added = since_noted(k, now)
local reply = { now, oldest_ready(k, now), unpack(added) }
local key = ARGV[2] == '10000' and k.recent or k.history
reply[#reply + 1] = redis.call('LRANGE', key, -tonumber(ARGV[3]), -1)
return reply
