-- @include waiting
-- hold_leases: note which leases of a topic are held that may only have so many at once.
-- KEYS[1] meta
-- KEYS[2] held
-- ARGV[1] topic: number, revision and version of the schema; '' if nothing is added
-- ARGV[2] how many are given back
-- ARGV[3..] those: what they were called; then until when (ms) and member for each lease that is held from now on
-- returns: 'OK' or 'STALE'
-- cost: ZREM; HGET and ZADD if there are any; HDEL and maybe PUBLISH if fewer are held than before
local back = tonumber(ARGV[2])
local added = (#ARGV - 2 - back) / 2
if added > 0 and redis.call('HGET', KEYS[1], 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', KEYS[2], '')
if added > 0 then redis.call('ZADD', KEYS[2], unpack(ARGV, 3 + back)) end
if back > 0 and redis.call('ZREM', KEYS[2], unpack(ARGV, 3, 2 + back)) > added then
  if redis.call('HDEL', KEYS[1], 'short') == 1 then announce(KEYS[1]) end
end
return 'OK'
