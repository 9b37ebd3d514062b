-- publish: store a group of new messages, each where it waits until it is leased.
-- KEYS[1] messages
-- KEYS[2] delayed
-- KEYS[3] meta
-- KEYS[4] extra
-- KEYS[5] delayed_prio
-- KEYS[6] ready
-- ARGV[1] number: the topic's
-- ARGV[2] n: messages, at most 256
-- ARGV[3] special: how many of the last of them have a priority or a max_attempts of their own
-- ARGV[4] large: 1 when a body is above 1 KiB, so that leases look at sizes from now on
-- ARGV[5..] n pairs delay in ms ('@' before an instant), member; n pairs member, body; special pairs priority,
--   max_attempts or ''
-- returns: {now ms, wake 0|1} or 'STALE'
-- cost: HMGET, TIME, HSET, ZADD, HINCRBY a group; two more calls for each special message
local meta = redis.call('HMGET', KEYS[3], 'topic', 'sleep', 'large')
if meta[1] ~= ARGV[1] then return 'STALE' end
local now = now_ms()
local n, special = tonumber(ARGV[2]), tonumber(ARGV[3])
local plain = n - special

local due_of, formatted, earliest = {}, {}, math.huge
for i = 5, 2 * n + 3, 2 do
  local delay = ARGV[i]
  local score = formatted[delay]
  if not score then
    local due = string.byte(delay) == 64 and math.max(now, tonumber(string.sub(delay, 2))) or now + tonumber(delay)
    if due < earliest then earliest = due end
    score = int(due)
    formatted[delay], due_of[score] = score, due
  end
  -- In place: the pairs are what ZADD takes, without a table of their own.
  ARGV[i] = score
end

-- At maxmemory this first write is refused, and with it the whole group.
local stored = redis.pcall('HSET', KEYS[1], unpack(ARGV, 2 * n + 5, 4 * n + 4))
if type(stored) == 'table' and stored.err then return stored end
if plain > 0 then redis.call('ZADD', KEYS[2], unpack(ARGV, 5, 2 * plain + 4)) end
for i = plain + 1, n do
  local due, member = due_of[ARGV[2 * i + 3]], ARGV[2 * i + 4]
  local options = 4 * n + 3 + 2 * (i - plain)
  local priority = tonumber(ARGV[options])
  redis.call('HSET', KEYS[4], member, format_extra(0, 0, ARGV[options + 1], priority))
  place(member, priority, due, now, KEYS[2], KEYS[5], KEYS[6])
end
redis.call('HINCRBY', KEYS[3], 'published', n)
if ARGV[4] == '1' and not meta[3] then redis.call('HSET', KEYS[3], 'large', '1') end
return { now, wake(KEYS[3], meta[2], earliest) }
