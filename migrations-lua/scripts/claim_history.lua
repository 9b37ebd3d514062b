-- @include time
-- claim_history: claim partitions in which something happened in the step that is over. If they are few, a step is 10 s,
-- otherwise a minute.
-- KEYS[1] active
-- KEYS[2] lateness
-- ARGV[1] limit
-- ARGV[2] how long the claim lasts, ms
-- ARGV[3] few: up to so many
-- returns: {when the step ended, score that the claim wrote, name, lateness, …}
-- cost: ZREM, TIME, ZCARD, ZRANGEBYSCORE; ZADD, HMGET, HDEL
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[1], '')
local now = now_ms()
local step = redis.call('ZCARD', KEYS[1]) <= tonumber(ARGV[3]) and 10000 or 60000
local ended, held = now - now % step, int(now + tonumber(ARGV[2]))
local names = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', int(ended), 'LIMIT', 0, ARGV[1])
local reply = { ended, tonumber(held) }
if #names == 0 then return reply end
local late, claimed = redis.call('HMGET', KEYS[2], unpack(names)), {}
for i = 1, #names do
  claimed[2 * i - 1], claimed[2 * i] = held, names[i]
  reply[2 * i + 1], reply[2 * i + 2] = names[i], late[i] or ''
end
redis.call('ZADD', KEYS[1], unpack(claimed))
redis.call('HDEL', KEYS[2], unpack(names))
return reply
