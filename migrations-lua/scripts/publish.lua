-- @include time
-- @include waiting
-- publish: store a group of new messages without options other than their due time.
-- KEYS[1] messages
-- KEYS[2] delayed
-- KEYS[3] meta
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] n: messages, at most 128
-- ARGV[3] large: 1 if a body is above 1 KiB, so that leases check sizes from now on
-- ARGV[4..] n pairs delay in ms ('@' before an instant), member; n pairs member, body
-- returns: {now ms, wake 0|1, now rounded up} or 'STALE'
-- cost: HMGET, TIME, HSET, ZADD, HINCRBY a group
local meta = redis.call('HMGET', KEYS[3], 'topic', 'sleep', 'large', 'bytes')
if meta[1] ~= ARGV[1] then return 'STALE' end
local now, up = now_ms()
local n = tonumber(ARGV[2])

local formatted, earliest = {}, math.huge
for i = 4, 2 * n + 2, 2 do
  local asked = ARGV[i]
  local score = formatted[asked]
  if not score then
    local due = due_at(asked, now, up)
    if due < earliest then earliest = due end
    score = int(due)
    formatted[asked] = score
  end
  -- In place, so that ZADD needs no table of its own for these pairs.
  ARGV[i] = score
end

-- At maxmemory Redis refuses this first write, and with it the whole group.
local stored = redis.pcall('HSET', KEYS[1], unpack(ARGV, 2 * n + 4, 4 * n + 3))
if type(stored) == 'table' and stored.err then return stored end
redis.call('ZADD', KEYS[2], unpack(ARGV, 4, 2 * n + 3))
redis.call('HINCRBY', KEYS[3], 'published', n)
if meta[4] then
  local bytes = -n
  for i = 2 * n + 5, 4 * n + 3, 2 do bytes = bytes + #ARGV[i] end
  redis.call('HINCRBY', KEYS[3], 'bytes', string.format('%d', bytes))
end
if ARGV[3] == '1' and not meta[3] then redis.call('HSET', KEYS[3], 'large', '1') end
return { now, wake(KEYS[3], meta[2], earliest), up }
