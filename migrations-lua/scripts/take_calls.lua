-- @include time
-- take_calls: take calls from the rate limit that all instances share in a topic, or give some back.
-- KEYS[1] meta
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] most: how many calls to take; negative: how many to give back
-- ARGV[3] interval: microseconds between two calls
-- returns: {calls taken, ms until one more may be made} or 'STALE'
-- cost: HMGET, HDEL, TIME, HSET
local meta = redis.call('HMGET', KEYS[1], 'topic', 'call_at')
if meta[1] ~= ARGV[1] then return 'STALE' end
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('HDEL', KEYS[1], '')
local now = now_ms() * 1000
local most, interval = tonumber(ARGV[2]), tonumber(ARGV[3])
-- The generic cell rate algorithm: call_at is where the calls so far end at this rate. Unused calls are lost, except for
-- those of a twentieth of a second, which bridge the time between two requests. call_at is never ahead, unless the clock
-- was set back.
local call_at = math.min(math.max(tonumber(meta[2] or 0), now - math.max(50000, interval)), now)
local taken
if most < 0 then
  taken = most
else
  taken = math.max(math.min(most, math.floor((now - call_at) / interval)), 0)
end
call_at = call_at + taken * interval
redis.call('HSET', KEYS[1], 'call_at', int(call_at))
return { taken, math.max(math.ceil((call_at + interval - now) / 1000), 1) }
