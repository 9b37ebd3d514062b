-- @include partition
-- @include remove
-- @include waiting
-- finish_dead: record that these deaths have been published, unless a message has died again since. Messages that have left
-- are deleted.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2..] for each, at most 64: member, instant of its death, ms
-- returns: how many of them were still noted, or 'STALE'
-- cost: HGET, a ZSCORE for each, ZREM, 8 ZMSCORE; up to 7 calls where some had left
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
local told = {}
for i = 2, #ARGV, 2 do
  if redis.call('ZSCORE', k.dead_out, ARGV[i]) == ARGV[i + 1] then told[#told + 1] = ARGV[i] end
end
if #told == 0 then return 0 end
redis.call('ZREM', k.dead_out, unpack(told))
local stands, left = stands_of(k, told), {}
for i = 1, #told do
  if not stands[i][1] then left[#left + 1] = told[i] end
end
if #left > 0 then forget_all(k, left, redis.call('HMGET', k.extra, unpack(left))) end
return #told
