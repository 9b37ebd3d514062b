-- @include expire
-- @include message
-- @include partition
-- @include reason
-- @include time
-- @include waiting
-- list_messages: a page of the messages in one sorted set, in its order.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] the set, as `partition` calls it
-- ARGV[3] which of its messages: 'all', those that are 'due' by now or 'later', or 'held': leases that have not ended
-- ARGV[4] limit: at most 256; of `blocked` 64 are returned at most
-- ARGV[5] the score of the last message of the page before; '' for the first page
-- ARGV[6] its member; for the first page '', or how many of the last messages of the set to begin before
-- ARGV[7] bytes of bodies to read at most, but one message at least; 0: no bodies
-- ARGV[8] '1': without payloads, where a body can be cut
-- returns: {now, more 0|1, topic's max_attempts, {score, member, …}, extras, bodies, events, ttl or 0,
--   what `topic_reasons` and `group_reasons` return if they wait} or 'STALE'
-- cost: HMGET, TIME, 3 ZCOUNT, ZRANGE, HMGET, EXISTS; about 20 calls where the last message is gone; one HGET a message with
-- bodies; one HMGET for eight messages if some message of the topic has events; 6 calls, and one or two for
-- each that is in a group, if they wait

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

local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'max_attempts', 'rules')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now = now_ms()
end_leases(k, now, 32, parse_rules(meta[3]).ttl)
promote(now, 128, k.delayed_prio, k.ready, k.extra)
local low, high = '-inf', '+inf'
if ARGV[3] == 'due' then high = int(now) end
if ARGV[3] == 'later' then low = string.format('(%d', now) end
if ARGV[3] == 'held' then low = string.format('(%d', now * 2048 + 2047) end
local score = ARGV[5] ~= '' and ARGV[5]
local zset, limit = k[ARGV[2]], tonumber(ARGV[4])
-- Each of those in groups is counted among the others.
if zset == k.blocked then limit = math.min(limit, 64) end
local found, more = page_after(zset, low, high, score, ARGV[6], limit, not score and tonumber(ARGV[6]))
local members, extras, bodies, events = {}, {}, {}, {}
for i = 1, #found, 2 do members[#members + 1] = found[i] end
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
      if ARGV[8] == '1' and string.byte(body) == 1 then
        local head = #body - payload_bytes(body)
        if head > 0 then body = string.sub(body, 1, head) end
      end
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
local places, theirs = {}, {}
for i = 1, done do places[2 * i - 1], places[2 * i], theirs[i] = found[2 * i], members[i], extras[i] or '' end
local rules = parse_rules(meta[3])
local reply = { now, more and 1 or 0, tonumber(meta[2]), places, theirs, bodies, events, rules.ttl or 0 }
if zset == k.ready or zset == k.delayed or zset == k.delayed_prio or zset == k.blocked then
  local _, dues = waiting_of(found, zset == k.ready)
  reply[9] = topic_reasons(k, now, rules)
  reply[10] = group_reasons(k, now, { unpack(members, 1, done) }, dues, extras, zset == k.blocked)
end
return reply
