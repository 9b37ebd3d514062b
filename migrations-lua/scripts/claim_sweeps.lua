-- @include time
-- claim_sweeps: claim topics that are due to be swept, or whose move tasks go on.
-- KEYS[1] sweeps or moves
-- ARGV[1] limit
-- ARGV[2] how long the claim lasts, ms
-- returns: {now, when the next one is due (ms; 0: none), name, score that the claim wrote, …}
-- cost: ZREM, TIME, 2 ZRANGEBYSCORE, one ZADD
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[1], '')
local now = now_ms()
local names = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
local claimed, held = {}, int(now + tonumber(ARGV[2]))
for i = 1, #names do
  claimed[2 * i - 1], claimed[2 * i] = held, names[i]
end
if #names > 0 then redis.call('ZADD', KEYS[1], unpack(claimed)) end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local reply = { now, tonumber(first[2] or 0) }
for i = 1, #names do
  reply[2 * i + 1], reply[2 * i + 2] = names[i], tonumber(held)
end
return reply
