-- @include time
-- @include waiting
-- hold_leases: note which leases of a topic are held that may only have so many at once.
-- KEYS[1] meta
-- KEYS[2] held
-- ARGV[1] topic: number, revision and version of the schema; '' if leases have ended
-- ARGV[2] max_leased, if all that were reserved are held from now on, and more are waited for; otherwise ''
-- ARGV[3] how many entries go: reservations, or leases that have ended
-- ARGV[4..] those; then until when (ms) and entry for each lease that is held from now on
-- returns: 'OK', 'STALE', or 'LATE' and nothing is held, if the reservations have ended
-- cost: 2 ZREM; HGET and ZADD if there are any; TIME and ZCOUNT if more are waited for; HDEL and maybe PUBLISH if leases have ended
local back = tonumber(ARGV[3])
local added = (#ARGV - 3 - back) / 2
if added > 0 and redis.call('HGET', KEYS[1], 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', KEYS[2], '')
local gone = back > 0 and redis.call('ZREM', KEYS[2], unpack(ARGV, 4, 3 + back)) or 0
if gone < added then return 'LATE' end
if added > 0 then redis.call('ZADD', KEYS[2], unpack(ARGV, 4 + back)) end
if ARGV[1] == '' then
  if gone > 0 and redis.call('HDEL', KEYS[1], 'short') == 1 then announce(KEYS[1]) end
elseif ARGV[2] ~= '' then
  -- A lease may have ended since they were reserved.
  if redis.call('ZCOUNT', KEYS[2], string.format('(%d', now_ms()), '+inf') < tonumber(ARGV[2]) then
    announce(KEYS[1])
  else
    redis.call('HSET', KEYS[1], 'short', '1')
  end
end
return 'OK'
