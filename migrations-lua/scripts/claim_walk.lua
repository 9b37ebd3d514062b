-- @include time
-- claim_walk: claim the next few topics of a slow walk over all topics, which finds work that no note announced. Each step
-- belongs to one instance, however many instances walk.
-- KEYS[1] index
-- KEYS[2] names
-- ARGV[1] every: ms between two steps
-- ARGV[2] limit: topics in a step
-- returns: {name, …}
-- cost: HDEL, TIME, HMGET; ZRANGEBYLEX and HSET a step
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('HDEL', KEYS[2], '')
local now = now_ms()
local walk = redis.call('HMGET', KEYS[2], 'walk_at', 'walked')
local ahead = tonumber(walk[1] or 0) - now
-- If it is ahead by more than a step, the clock was set back in the meantime.
if ahead > 0 and ahead <= tonumber(ARGV[1]) then return {} end
local from = walk[2] and table.concat({ '(', walk[2] }) or '-'
local names = redis.call('ZRANGEBYLEX', KEYS[1], from, '+', 'LIMIT', 0, ARGV[2])
redis.call('HSET', KEYS[2], 'walk_at', int(now + tonumber(ARGV[1])))
if #names == 0 then
  redis.call('HDEL', KEYS[2], 'walked')
else
  redis.call('HSET', KEYS[2], 'walked', names[#names])
end
return names
