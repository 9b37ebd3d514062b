-- @include history
-- @include time
-- note_active: record that something happened in partitions, and how late messages were granted there.
-- KEYS[1] active
-- KEYS[2] lateness
-- ARGV[1] how long ago it was, at least, ms
-- ARGV[2..] pairs name, lateness as `merge_lateness` reads it
-- returns: 'OK'
-- cost: ZREM, TIME, ZADD, HMGET, HSET
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[1], '')
local now = now_ms()
local at, names, scored, late = int(now - tonumber(ARGV[1])), {}, {}, {}
for i = 2, #ARGV, 2 do
  names[#names + 1] = ARGV[i]
  scored[#scored + 1], scored[#scored + 2] = at, ARGV[i]
end
redis.call('ZADD', KEYS[1], 'LT', unpack(scored))
local before = redis.call('HMGET', KEYS[2], unpack(names))
for i = 1, #names do
  local own = ARGV[2 * i + 1]
  if own ~= '' then
    late[#late + 1], late[#late + 2] = names[i], merge_lateness(before[i] or '', own)
  end
end
if #late > 0 then redis.call('HSET', KEYS[2], unpack(late)) end
return 'OK'
