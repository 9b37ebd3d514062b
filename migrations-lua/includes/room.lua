-- @include remove
-- @include sweep
-- @include waiting
-- The limit of a topic (`max_messages`), and what a full topic drops.

-- The number of messages that count against the limit: delayed, ready, blocked and leased ones. `ended`: a sweep has ended expired
-- leases. Only then do the expired leases that are left in `last` count as dead: before, their messages may come back, if
-- more attempts are allowed since the grant.
local function count_live(k, now, ended)
  local count = 0
  for _, key in ipairs({ k.delayed, k.delayed_prio, k.ready, k.blocked, k.unack, k.last }) do count = count + redis.call('ZCARD', key) end
  if ended then count = count - redis.call('ZCOUNT', k.last, '-inf', string.format('%d', now * 2048 + 2047)) end
  return count
end

-- How many more messages may become live here. If there seems to be no room for `wanted`, what has ended by now makes some.
local function room_of(k, now, rules, wanted)
  if not rules.max_messages then return math.huge end
  local room = rules.max_messages - count_live(k, now, false)
  if room >= wanted then return room end
  sweep(k, now, 32, rules)
  return math.max(rules.max_messages - count_live(k, now, true), 0)
end

-- A queue of the waiting messages by due time, to drop the earliest. The earliest message of each set and priority is read
-- once and kept in a heap, so that a call costs a lookup per priority and not per drop. Returns four functions:
-- - doom_oldest() chooses the earliest message to be dropped, and returns it, or false if there is none;
-- - drop_doomed() drops all that were chosen, at once;
-- - note(member, due, priority, waits) adds a message that the same call stores;
-- - forget(member) removes one that has left meanwhile.
local function queue_of(k)
  -- Entries are { member, due, order, source }: the first of each source (a set or a priority), and those that this call
  -- stored. `order` sorts messages that are due together: no priority first, then higher priorities, then as published.
  local heap, size, noted = {}, 0, 0
  local function before(a, b) return a[2] < b[2] or (a[2] == b[2] and a[3] < b[3]) end
  local function sift_down(entry)
    local at = 1
    while 2 * at <= size do
      local child = 2 * at
      if child < size and before(heap[child + 1], heap[child]) then child = child + 1 end
      if not before(heap[child], entry) then break end
      heap[at], at = heap[child], child
    end
    heap[at] = entry
  end
  local function push(entry)
    size = size + 1
    local at = size
    while at > 1 do
      local parent = math.floor(at / 2)
      if not before(entry, heap[parent]) then break end
      heap[at], at = heap[parent], parent
    end
    heap[at] = entry
  end

  for class, key in ipairs({ k.delayed, k.delayed_prio, k.blocked }) do
    local list = redis.call('ZRANGE', key, 0, 3, 'WITHSCORES')
    if list[1] then
      local source = { key = key, list = list, at = 1, seen = #list / 2, round = 0 }
      push({ list[1], tonumber(list[2]), math.min(class, 2) * 1000, source })
    end
  end
  local first = firsts(k.ready)
  for i = 1, #first, 2 do
    local due = rank_due(first[i + 1])
    local lowest = tonumber(first[i + 1]) - due
    local source = { key = k.ready, lowest = lowest, list = { first[i], first[i + 1] }, at = 1, seen = 1, round = 0 }
    push({ first[i], due, (3 + lowest / 35184372088832) * 1000, source })
  end

  local due_of, gone, doomed, round = {}, {}, {}, 0
  local function drop_doomed()
    drop_all(k, doomed, 'expired')
    doomed, round = {}, round + 1
  end
  -- The next entry of this source, or false if there is none.
  local function advance(zset, source, order)
    source.at = source.at + 2
    if not source.list[source.at] then
      -- Drops since the last read have shifted the indexes.
      if source.round ~= round then source.round, source.seen = round, 0 end
      local from, upto = '-inf', '+inf'
      if source.lowest then
        from = string.format('%d', source.lowest)
        upto = string.format('(%d', source.lowest + 35184372088832)
      end
      source.list = redis.call('ZRANGEBYSCORE', zset, from, upto, 'WITHSCORES', 'LIMIT', source.seen, 4)
      source.at, source.seen = 1, source.seen + #source.list / 2
    end
    local member, score = source.list[source.at], source.list[source.at + 1]
    if not member then return false end
    return { member, source.lowest and rank_due(score) or tonumber(score), order, source }
  end
  local function doom_oldest()
    while size > 0 do
      local member, due, order, source = unpack(heap[1])
      local entry = source and advance(source.key, source, order)
      if not entry then
        entry, heap[size], size = heap[size], nil, size - 1
      end
      if size > 0 then sift_down(entry) end
      if not gone[member] and (due_of[member] or due) == due then
        gone[member] = true
        doomed[#doomed + 1] = member
        return member
      end
    end
    return false
  end
  local function note(member, due, priority, waits)
    due_of[member], noted = due, noted + 1
    local class = priority == 0 and 1 or (waits and 2 or 3 + 255 - priority)
    push({ member, due, class * 1000 + noted, false })
  end

  local function forget(member) gone[member] = true end

  return doom_oldest, drop_doomed, note, forget
end
