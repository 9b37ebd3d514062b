-- @include history
-- @include oldest
-- @include partition
-- @include time
-- note_history: add what happened in a partition since it was last noted to the points of a step.
-- KEYS[1..] all of the partition's, and those of its history
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] at: instant (ms) in the step; '' for now
-- ARGV[3] lateness of what was granted, as `merge_lateness` reads it
-- returns: {how many messages died} or 'STALE'
-- cost: HGET, TIME, HMGET, 2 ZCOUNT; if anything happened HSET, 4 ZRANGE, one more for each distinct priority among the
--   ready, and twice LINDEX, RPUSH or LSET, LTRIM, PEXPIRE
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
local now = now_ms()
local totals, added, any = since_noted(k, now)
if not any and ARGV[3] == '' then return { 0 } end
-- The first write: at maxmemory the script is refused whole, and what happened is noted later.
redis.call('HSET', k.meta, 'noted', totals)
local at, oldest = tonumber(ARGV[2]) or now, oldest_ready(k, now)
local age = oldest > 0 and int(now - oldest) or ''
add_point(k.history, math.floor(at / 60000), added, age, ARGV[3], 1440, 86400000)
add_point(k.recent, math.floor(at / 10000), added, age, ARGV[3], 360, 3600000)
return { added[5] }
