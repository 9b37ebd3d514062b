-- @include lease
-- @include message
-- Waiting messages, and how waiting consumers are woken.

-- The score of a ready message with a priority: higher priorities come first, then earlier due times. 45 bits of ms reach
-- the year 3084.
local function rank(priority, due)
  return string.format('%d', (255 - priority) * 35184372088832 + due)
end

-- The due time (ms) in a rank.
local function rank_due(score)
  return tonumber(score) % 35184372088832
end

-- The members and due times (ms) of waiting messages, from a list of member, score, …. `ranked`: the scores are ranks. Adds
-- to `members` and `dues` if they are given.
local function waiting_of(list, ranked, members, dues)
  members, dues = members or {}, dues or {}
  for i = 1, #list, 2 do
    local due = ranked and rank_due(list[i + 1]) or tonumber(list[i + 1])
    members[#members + 1], dues[#dues + 1] = list[i], due
  end
  return members, dues
end

-- The next `most` messages in line: those with a priority, then those without. Returns members and due times.
local function plain_front(k, now, most)
  local members, dues = waiting_of(redis.call('ZRANGE', k.ready, 0, most - 1, 'WITHSCORES'), true)
  if most == #members then return members, dues end
  local plain = redis.call('ZRANGEBYSCORE', k.delayed, '-inf', now, 'WITHSCORES', 'LIMIT', 0, most - #members)
  return waiting_of(plain, false, members, dues)
end

-- The same in any topic: `k.front` is how a fair one does it.
local function front(k, now, most)
  return (k.front or plain_front)(k, now, most)
end

-- The first message of each priority in `ready`, which is its oldest: member, score, ….
local function firsts(ready)
  local found, first = {}, redis.call('ZRANGE', ready, 0, 0, 'WITHSCORES')
  while first[1] do
    found[#found + 1], found[#found + 2] = first[1], first[2]
    local next_priority = string.format('%d', tonumber(first[2]) - rank_due(first[2]) + 35184372088832)
    first = redis.call('ZRANGEBYSCORE', ready, next_priority, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  end
  return found
end

-- Adds a message that is not leased to the set where it waits, according to its priority and due time.
local function place(member, priority, due, now, delayed, delayed_prio, ready)
  if priority == 0 then
    redis.call('ZADD', delayed, due, member)
  elseif due > now then
    redis.call('ZADD', delayed_prio, due, member)
  else
    redis.call('ZADD', ready, rank(priority, due), member)
  end
end

-- Adds a pair to what a call is to write to a key at its end. `lists` holds field, value, … or score, member, … by key.
local function add_to(lists, key, a, b)
  local list = lists[key] or {}
  list[#list + 1], list[#list + 2], lists[key] = a, b, list
end

-- As `place`, for a message that the call writes at its end.
local function line_up(k, lists, member, priority, due, now)
  if priority == 0 then
    add_to(lists, k.delayed, due, member)
  elseif due > now then
    add_to(lists, k.delayed_prio, due, member)
  else
    add_to(lists, k.ready, rank(priority, due), member)
  end
end

-- Writes all of it, bodies first.
local function write_lists(k, lists)
  for _, key in ipairs({ k.messages, k.extra, k.events, k.keys }) do
    if lists[key] then redis.call('HSET', key, unpack(lists[key])) end
  end
  for _, key in ipairs({ k.delayed, k.delayed_prio, k.ready, k.blocked, k.unack, k.last, k.dead, k.acked, k.dead_out, k.expires, k.first_due, k.heads, k.queued }) do
    if lists[key] then redis.call('ZADD', key, unpack(lists[key])) end
  end
end

-- Moves up to `limit` due messages with a priority into `ready`. Returns how many.
local function promote(now, limit, delayed_prio, ready, extra_key)
  local due = redis.call('ZRANGEBYSCORE', delayed_prio, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  if #due == 0 then return 0 end
  local members, ranked = {}, {}
  for i = 1, #due, 2 do members[#members + 1] = due[i] end
  local extras = redis.call('HMGET', extra_key, unpack(members))
  for i = 1, #members do
    local _, _, _, priority = parse_extra(extras[i])
    ranked[2 * i - 1] = rank(priority, tonumber(due[2 * i]))
    ranked[2 * i] = members[i]
  end
  redis.call('ZREM', delayed_prio, unpack(members))
  redis.call('ZADD', ready, unpack(ranked))
  return #members
end

-- The sets that hold these messages (at most 256): for each message a list of set, score, … The sets have numbers: 1 unack,
-- 2 last, 3 ready, 4 delayed_prio, 5 delayed, 6 blocked, 7 dead, 8 acked. A message in several is best kept in the first. In
-- 1 to 6 a message is live.
local function stands_of(k, members)
  local stands = {}
  for i = 1, #members do stands[i] = {} end
  for number, key in ipairs({ k.unack, k.last, k.ready, k.delayed_prio, k.delayed, k.blocked, k.dead, k.acked }) do
    local scores = redis.call('ZMSCORE', key, unpack(members))
    for i = 1, #members do
      if scores[i] then
        local found = stands[i]
        found[#found + 1], found[#found + 2] = number, tonumber(scores[i])
      end
    end
  end
  return stands
end

-- The state of a message in the set of this number, and its due time, deadline or instant (ms). A lease may have ended.
local function state_in(number, score, now)
  if number == 7 then return 'dead', score end
  if number == 6 then return 'blocked', score end
  if number <= 2 or number == 8 then return number == 8 and 'acked' or 'leased', (unpack_lease(score)) end
  local due = number == 3 and rank_due(score) or score
  return due > now and 'delayed' or 'ready', due
end

-- When the next lease ends, in ms; infinite if there is none.
local function next_end(unack, last)
  local earliest = math.huge
  for _, key in ipairs({ unack, last }) do
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    if first then earliest = math.min(earliest, math.floor(tonumber(first) / 2048)) end
  end
  return earliest
end

-- When the next message falls due or the next lease ends, in ms; 0 if there is neither.
local function next_event(unack, last, delayed, delayed_prio)
  local earliest = next_end(unack, last)
  for _, key in ipairs({ delayed, delayed_prio }) do
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    if first then earliest = math.min(earliest, tonumber(first)) end
  end
  return earliest == math.huge and 0 or earliest
end

-- Wakes the consumers of every instance that wait for this topic, and names the partition of the key, unless it is the
-- first. The script itself publishes the wake-up, so neither a
-- lost answer nor the death of an instance can come between a change and its wake-up. If Redis forbids the channel,
-- instances cannot subscribe to it either, and consumers poll twice a second instead.
local function announce(key, topic)
  local prefix, name, number = string.match(key, '^([^{]*){([^:}]*):?(%d*)')
  if not topic then topic = (number == '' or number == '0') and name or table.concat({ name, ' ', number }) end
  redis.pcall('PUBLISH', table.concat({ prefix, 'wake' }), table.concat({ '- ', topic }))
end

-- Wakes sleeping consumers if a message is due before they wake by themselves. `sleep` is until when they sleep. It
-- moves to `due`, so that one message causes one wake-up. Returns 1 if they were woken, or 0.
local function wake(meta_key, sleep, due)
  if not sleep or due >= tonumber(sleep) then return 0 end
  redis.call('HSET', meta_key, 'sleep', string.format('%d', due))
  announce(meta_key)
  return 1
end

-- Wakes consumers that `max_leased` kept waiting (`short`), since a lease has ended, or ends sooner.
local function wake_refused(meta_key, short)
  if short and redis.call('HDEL', meta_key, 'short') == 1 then announce(meta_key) end
end
