-- @include expire
-- @include partition
-- @include remove
-- @include time
-- @include waiting
-- list_messages: a page of the messages of one state, in the order of that state.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] state
-- ARGV[3] limit: at most 256
-- ARGV[4] part of the list that has the last message of the page before, 0 or 1; '' for the first page
-- ARGV[5] its score; for the first page '', or how many of the last messages of the list to begin before
-- ARGV[6] its member
-- ARGV[7] bytes of bodies to return at most, but one message at least; 0: no bodies
-- returns: {now, more 0|1, topic's max_attempts, {part, score, member, …}, extras, bodies, events, ttl or 0} or 'STALE'
-- cost: HMGET, TIME, 1 to 4 ZRANGE, HMGET, EXISTS; about 20 calls where the last message is gone; one HGET a message with
-- bodies; one HMGET for eight messages if some message of the topic has events

-- Returns whether `a` comes before `b` in byte order. Lua's own order of strings depends on the locale.
local function bytes_before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- Up to `limit` members with scores between `low` and `high`, after (`score`, `member`) unless `score` is false; of the last
-- `newest` unless that is false; and whether more are left. A binary search finds the place of that member, even if it is gone: nothing is skipped or repeated.
local function page_after(zset, low, high, score, member, limit, newest)
  local from = redis.call('ZCARD', zset) - redis.call('ZCOUNT', zset, low, '+inf')
  if score then
    local lowest = from
    from = redis.call('ZCOUNT', zset, '-inf', table.concat({ '(', score }))
    local upto = from + redis.call('ZCOUNT', zset, score, score)
    while from < upto do
      local middle = math.floor((from + upto) / 2)
      local there = redis.call('ZRANGE', zset, middle, middle)[1]
      if bytes_before(member, there) then upto = middle else from = middle + 1 end
    end
    from = math.max(from, lowest)
  end
  local upto = redis.call('ZCOUNT', zset, '-inf', high)
  if newest then from = math.max(from, upto - newest) end
  local last = math.min(from + limit, upto)
  if from >= last then return {}, false end
  return redis.call('ZRANGE', zset, from, last - 1, 'WITHSCORES'), last < upto
end

-- Merges two pages by score and then member, up to `limit` entries.
local function merge_pages(a, b, limit)
  local merged, i, j = {}, 1, 1
  while #merged < 2 * limit and (i <= #a or j <= #b) do
    local x, y = tonumber(a[i + 1]), tonumber(b[j + 1])
    local from_a = x and (not y or x < y or (x == y and bytes_before(a[i], b[j])))
    local list, at = a, i
    if not from_a then list, at = b, j end
    merged[#merged + 1] = list[at]
    merged[#merged + 1] = list[at + 1]
    if from_a then i = i + 2 else j = j + 2 end
  end
  return merged
end

-- Shortens a list.
local function cut(list, length)
  for i = #list, length + 1, -1 do list[i] = nil end
end

local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'max_attempts', 'rules')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now = now_ms()
end_leases(k, now, 32, parse_rules(meta[3]).ttl, new_budget())
promote(now, 128, k.delayed_prio, k.ready, k.extra)
local state, limit = ARGV[2], tonumber(ARGV[3])
local due, later = int(now), string.format('(%d', now)
local leased = string.format('(%d', now * 2048 + 2047)
-- Each part is one or two sets in one order.
local parts
if state == 'delayed' then
  parts = { { k.delayed, k.delayed_prio, later, '+inf' } }
elseif state == 'ready' then
  parts = { { k.ready, false, '-inf', '+inf' }, { k.delayed, false, '-inf', due } }
elseif state == 'blocked' then
  parts = { { k.blocked, false, '-inf', '+inf' } }
elseif state == 'leased' then
  parts = { { k.unack, k.last, leased, '+inf' } }
elseif state == 'dead' then
  parts = { { k.dead, false, '-inf', '+inf' } }
else
  parts = { { k.acked, false, '-inf', '+inf' } }
end
local function count(zset, low, high)
  return redis.call('ZCOUNT', zset, low, high)
end
local found, more = {}, false
local first = ARGV[4] == '' and 0 or tonumber(ARGV[4])
for number = first, #parts - 1 do
  local part = parts[number + 1]
  local left = limit - #found / 3
  if left <= 0 then
    more = more or count(part[1], part[3], part[4]) > 0
  else
    local at = ARGV[4] ~= '' and number == first
    local newest = ARGV[4] == '' and tonumber(ARGV[5])
    local page, rest = page_after(part[1], part[3], part[4], at and ARGV[5], ARGV[6], left, newest)
    if part[2] and count(part[2], part[3], part[4]) > 0 then
      local other, other_rest = page_after(part[2], part[3], part[4], at and ARGV[5], ARGV[6], left)
      page, rest = merge_pages(page, other, left), rest or other_rest or #page + #other > 2 * left
    end
    for i = 1, #page, 2 do
      found[#found + 1] = number
      found[#found + 1] = page[i + 1]
      found[#found + 1] = page[i]
    end
    more = more or rest
  end
end
local members, extras, bodies, events = {}, {}, {}, {}
for i = 3, #found, 3 do members[#members + 1] = found[i] end
if #members > 0 then extras = redis.call('HMGET', k.extra, unpack(members)) end
-- The events of a message can take 120 KiB, and its body 1 MiB. Both are read eight messages at a time, and the page ends
-- with what was read when one of them is enough for one call: hardly anything is read in vain.
local room, body_bytes, event_bytes, done, full = tonumber(ARGV[7]), 0, 0, 0, false
local some_events = #members > 0 and redis.call('EXISTS', k.events) == 1
while done < #members and not full do
  local some, upto = {}, math.min(done + 8, #members)
  if some_events then some = redis.call('HMGET', k.events, unpack(members, done + 1, upto)) end
  for i = 1, upto - done do
    if room > 0 then
      local body = redis.call('HGET', k.messages, members[done + 1]) or ''
      full = body_bytes + #body > room
      if full and done > 0 then break end
      body_bytes = body_bytes + #body
      bodies[#bodies + 1] = body
    end
    if some_events then
      events[#events + 1] = some[i] or ''
      event_bytes = event_bytes + #events[#events]
    end
    done = done + 1
    if full then break end
  end
  full = full or event_bytes >= 131072
end
more = more or done < #members
cut(members, done)
cut(found, 3 * #members)
cut(extras, #members)
for i = 1, #extras do extras[i] = extras[i] or '' end
return { now, more and 1 or 0, tonumber(meta[2]), found, extras, bodies, events, parse_rules(meta[3]).ttl or 0 }
