-- @include time
-- claim_walk: the next few topics of a slow walk over all of them, which finds what no hint told of. However many
-- instances walk, each step is one instance's.
-- KEYS[1] index
-- KEYS[2] names
-- ARGV[1] every: ms between two steps
-- ARGV[2] limit: topics in a step
-- returns: {name, …}
-- cost: HDEL, TIME, HMGET; ZRANGEBYLEX and HSET a step
-- A first write that removes, and misses: at maxmemory everything after it is let through.
redis.call('HDEL', KEYS[2], '')
local now = now_ms()
local walk = redis.call('HMGET', KEYS[2], 'walk_at', 'walked')
local ahead = tonumber(walk[1] or 0) - now
-- By more than a step: the clock was set back since.
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
