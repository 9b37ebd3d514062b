-- @include expire
-- @include partition
-- @include remove
-- @include room
-- @include sweep
-- @include time
-- @include waiting
-- redrive_topic: make dead messages live again, longest dead first, at once or spread over time, as many as the topic has room
-- for.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] limit: at most 128
-- ARGV[3] skip: how many earlier dead messages stay, because their key is taken
-- ARGV[4] base: instant from which they fall due, ms, as the first call returned it; '' in the first call
-- ARGV[5] index of the first of them among all of the request
-- ARGV[6] of: how many messages the request redrives; '' for all dead ones that there is room for, at most ARGV[8]
-- ARGV[7] spread, ms: the i-th falls due at base + spread * i / of, rounded up
-- ARGV[8] most: messages that the request redrives
-- returns: {now, wake 0|1, redriven, skipped, dead left, of, base} or 'STALE'
-- cost: HMGET, ZREM, TIME, ZRANGE, HMGET; up to 10 calls a message, 15 more if it is in a group; 7 calls if
--   the topic has a limit, and a sweep of 32 steps if it is full
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'sleep', 'rules')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now, up = now_ms()
local rules = parse_rules(meta[3])
if ARGV[6] == '' then sweep(k, now, 64, rules) end
local free = room_of(k, now, rules, 1)
local of = tonumber(ARGV[6]) or math.min(redis.call('ZCARD', k.dead), tonumber(ARGV[8]), free)
local base = ARGV[4] == '' and up or tonumber(ARGV[4])
local index, skip, spread = tonumber(ARGV[5]), tonumber(ARGV[3]), tonumber(ARGV[7])
local want = math.min(tonumber(ARGV[2]), of - index, free)
local redriven, skipped, earliest, room = 0, 0, math.huge, EVENT_BYTES
if want > 0 then
  local members = redis.call('ZRANGE', k.dead, skip, skip + want - 1)
  local extras = #members > 0 and redis.call('HMGET', k.extra, unpack(members)) or {}
  for i = 1, #members do
    if room <= 0 then break end
    room = room_after(k, members[i], room)
    local delay = math.ceil(spread * (index + redriven) / of)
    local due = delay > 0 and math.max(now, base + delay) or now
    local fresh, seen, its, blocked = revive(k, members[i], due, now, up, extras[i], rules)
    room = room - seen
    if fresh then
      redriven = redriven + 1
      if not blocked and its < earliest then earliest = its end
    else
      skipped = skipped + 1
    end
  end
end
if redriven > 0 then redis.call('HINCRBY', k.meta, 'redriven', redriven) end
return { now, wake(k.meta, meta[2], earliest), redriven, skipped, redis.call('ZCARD', k.dead), of, base }
