-- @include partition
-- @include remove
-- @include waiting
-- finish_dead: record that these deaths have been published, unless a message has died again since. Messages that have left
-- are deleted, and so are dead ones that were published in their own form.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2..] for each, at most 64: member, instant of its death, ms; 1 if it was published in its own form, or 0
-- returns: how many of them were still noted, or 'STALE'
-- cost: HGET, a ZSCORE for each, ZREM, 8 ZMSCORE; up to 7 calls where some had left, up to 14 where some are deleted; one HGET
--   for each key, 6 calls for each group
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
local told, moved = {}, {}
for i = 2, #ARGV, 3 do
  if redis.call('ZSCORE', k.dead_out, ARGV[i]) == ARGV[i + 1] then
    told[#told + 1] = ARGV[i]
    moved[#told] = ARGV[i + 2] == '1'
  end
end
if #told == 0 then return 0 end
redis.call('ZREM', k.dead_out, unpack(told))
local stands, left, dropped = stands_of(k, told), {}, {}
for i = 1, #told do
  if not stands[i][1] then left[#left + 1] = told[i] end
  if stands[i][1] == 7 and moved[i] then dropped[#dropped + 1] = told[i] end
end
drop_all(k, dropped, 'deleted')
if #left > 0 then forget_all(k, left, redis.call('HMGET', k.extra, unpack(left))) end
return #told
