-- @include remove
-- @include time
-- @include waiting
-- complete: publish completions of acks in a partition that this script reaches, and forget what was kept for them, all in one: so each
-- is published once, without a key.
-- KEYS[1] dead_out
-- KEYS[2] messages
-- KEYS[3] extra
-- KEYS[4] events
-- KEYS[5] acked
-- KEYS[6] meta
-- KEYS[7] messages, of the partition where they are published
-- KEYS[8] delayed, of that one
-- KEYS[9] meta, of that one
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] the same of the topic where they are published
-- ARGV[3] large: 1 if a body is above 1 KiB, so that leases check sizes from now on
-- ARGV[4] n: completions, at most 128
-- ARGV[5..] n entries of dead_out; n pairs member, body of what is published
-- returns: {now, wake 0|1, how many were still noted}; 'STALE', or 'OTHER' if the topic where they are published has changed
-- cost: HGET, HMGET, TIME, ZMSCORE, HSET, ZADD, HINCRBY, ZREM, 3 EXISTS, HEXISTS, 3 HDEL; a ZMSCORE more where acked messages are retained,
--   and three where more is to be published
if redis.call('HGET', KEYS[6], 'topic') ~= ARGV[1] then return 'STALE' end
local meta = redis.call('HMGET', KEYS[9], 'topic', 'sleep', 'large', 'bytes')
if meta[1] ~= ARGV[2] then return 'OTHER' end
local n, now = tonumber(ARGV[4]), now_ms()
local noted = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 5, n + 4))
local members, dues, count, bytes, due = {}, {}, 0, 0, int(now)
for i = 1, n do
  if noted[i] then
    -- Those that are left move to the front, so that commands need no tables of their own for them.
    count = count + 1
    local at, to = n + 3 + 2 * i, n + 3 + 2 * count
    ARGV[count + 4], ARGV[to], ARGV[to + 1] = ARGV[i + 4], ARGV[at], ARGV[at + 1]
    members[count], dues[2 * count - 1], dues[2 * count] = string.sub(ARGV[i + 4], 1, 11), due, ARGV[at]
    bytes = bytes + #ARGV[at + 1] - 1
  end
end
if count == 0 then return { now, 0, 0 } end
-- At maxmemory Redis refuses this first write, and with it the whole group.
local stored = redis.pcall('HSET', KEYS[7], unpack(ARGV, n + 5, n + 4 + 2 * count))
if type(stored) == 'table' and stored.err then return stored end
redis.call('ZADD', KEYS[8], unpack(dues))
redis.call('HINCRBY', KEYS[9], 'published', count)
if meta[4] then redis.call('HINCRBY', KEYS[9], 'bytes', int(bytes)) end
if ARGV[3] == '1' and not meta[3] then redis.call('HSET', KEYS[9], 'large', '1') end
redis.call('ZREM', KEYS[1], unpack(ARGV, 5, count + 4))
local k = { messages = KEYS[2], extra = KEYS[3], events = KEYS[4], meta = KEYS[6], dead_out = KEYS[1] }
local left = members
if redis.call('EXISTS', KEYS[5]) == 1 then
  local kept = redis.call('ZMSCORE', KEYS[5], unpack(members))
  left = {}
  for i = 1, count do
    if not kept[i] then left[#left + 1] = members[i] end
  end
end
-- What has died before and was redriven may have a death that is still to be published.
erase(k, but_untold(k, left))
return { now, wake(KEYS[9], meta[2], now), count }
