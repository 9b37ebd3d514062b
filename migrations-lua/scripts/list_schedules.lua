-- @include config
-- @include time
-- list_schedules: a page of schedules in the order of their names.
-- KEYS[1] entries
-- KEYS[2] states
-- KEYS[3] index
-- ARGV[1] where the page begins: '-', or '(' and the name that precedes it
-- ARGV[2] limit
-- ARGV[3] bytes of definitions to return, about; one at least
-- returns: {now, more 0|1, name, state, definition, missed ticks as they are kept or '', …}
-- cost: TIME, ZRANGEBYLEX, HMGET; HSTRLEN and 2 HGET for each
local limit, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local names = redis.call('ZRANGEBYLEX', KEYS[3], ARGV[1], '+', 'LIMIT', 0, limit + 1)
local states = #names > 0 and redis.call('HMGET', KEYS[2], unpack(names))
local reply, bytes = { now_ms(), #names > limit and 1 or 0 }, 0
for i = 1, math.min(#names, limit) do
  -- A definition that does not fit is not read: 1 MiB takes a millisecond.
  bytes = bytes + redis.call('HSTRLEN', KEYS[1], names[i])
  if bytes > most and #reply > 2 then
    reply[2] = 1
    break
  end
  local state, entry = states[i], redis.call('HGET', KEYS[1], names[i])
  if state and entry then
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = names[i], state, entry
    reply[n + 4] = redis.call('HGET', KEYS[2], missed_field(names[i])) or ''
  end
end
return reply
