-- @include budget
-- @include entry
-- @include expire
-- @include fair
-- @include group
-- @include message
-- @include remove
-- @include time
-- @include waiting
-- Grants of messages that are not plain.

-- Clears the next `most` messages in line of those that must not be granted: drops those whose TTL has ended, and buries
-- those that have used up their attempts (`spent_by` is the topic's max_attempts, or false). Returns how many it dropped,
-- how many it buried, and whether the next `most` are clear now. It continues until the call has no room, so that a small
-- request does not need a call for each of many expired messages.
local function clear_head(k, now, up, most, ttl, spent_by)
  local dropped, died = 0, 0
  for _, look in ipairs({ most, 64, 64, most }) do
    local members, dues = front(k, now, math.max(look, most))
    local gone = drop_expired(k, now, members, dues, ttl)
    dropped = dropped + gone
    if gone == 0 and not k.short then
      local dead = spent_by and bury_spent(k, up, members, most, spent_by) or 0
      died = died + dead
      if dead == 0 and not k.short then return dropped, died, true end
    end
    if not has_room(k) or k.short then break end
  end
  return dropped, died, false
end

-- What `rates` calls the turns of a message's group, and the group's ID, if the message is in a group and takes a turn there:
-- `planned`, or never granted.
local function turns_of(extra, planned)
  local attempts, _, _, _, rest = parse_extra(extra)
  local _, _, _, _, _, group = parse_rest(rest)
  if group == '' or (attempts > 0 and not planned) then return false end
  local id = group_id(group)
  return granted_turns(id), id
end

-- Has those of the next `most` messages in line wait whose turn at the rate of their group has not come: they were planned
-- when it seemed that those before them would go sooner, or before there was a rate. Returns how many of the next `most`, from
-- the first on, are clear after at most so many rounds of that.
local function hold_early(k, now, most, rounds)
  local look = most
  for round = 0, rounds do
    local members, dues = front(k, now, look)
    if #members == 0 then return most end
    local ends, early, first = {}, {}, nil
    local extras, planned = redis.call('HMGET', k.extra, unpack(members)), redis.call('ZMSCORE', k.turns, unpack(members))
    for i = 1, #members do
      spend(k, 4 + #(extras[i] or '') / 200)
      local turns, id = turns_of(extras[i], planned[i])
      local _, interval, burst
      if turns then _, interval, burst = rules_of(k, id) end
      if interval then
        ends[turns] = ends[turns] or tonumber(redis.call('ZSCORE', k.rates, turns) or 0)
        local after = take_turn(ends[turns], now, dues[i], interval, burst)
        if after then
          ends[turns] = after
        else
          early[id], first = early[id] or {}, first or i
          early[id][members[i]] = true
        end
        if not planned[i] then redis.call('ZADD', k.turns, dues[i], members[i]) end
      end
    end
    if not first or first > most then return most end
    if round == rounds then return first - 1 end
    -- Where one is early, many may be: they are put off together, however few are asked for.
    for id, met in pairs(look >= 64 and early or {}) do
      if plan(k, id, now, nil, met) == false or not has_room(k) then return first - 1 end
    end
    look = math.max(look, 64)
  end
end

-- Takes the turns of messages that are granted: `found` is member, due, ….
local function take_turns(k, now, found, extras)
  local ends, members = {}, {}
  for i = 1, #found / 2 do members[i] = found[2 * i - 1] end
  local planned = redis.call('ZMSCORE', k.turns, unpack(members))
  for i = 1, #members do
    local turns, id = turns_of(extras[i], planned[i])
    local _, interval, burst
    if turns then _, interval, burst = rules_of(k, id) end
    if interval then
      local ahead = ends[turns] or tonumber(redis.call('ZSCORE', k.rates, turns) or 0)
      ends[turns] = take_turn(ahead, now, tonumber(found[2 * i]), interval, burst) or ahead + interval
    end
  end
  for turns, ahead in pairs(ends) do redis.call('ZADD', k.rates, string.format('%d', ahead), turns) end
  redis.call('ZREM', k.turns, unpack(members))
end

-- Takes due messages one by one, as long as they fit the wants and, with their events and, if they have any (`special`), their
-- `extra`, `reply_bytes`. `wants` holds, from index 7 on and `step` apart, max_messages, lease_ms and, if step is 4, max_bytes
-- and begun. Returns what it took as member, due, …; the bodies; how many for each want; how many came from `ready`; whether
-- the reply is full.
local function take_by_size(k, now, most, wants, step, reply_bytes, special)
  local seen, dues = front(k, now, most)
  local found, bodies, granted, members = {}, {}, {}, {}
  local want, total, full = 7, 0, false
  local retried = redis.call('EXISTS', k.events) == 1
  local count, used = 0, 0
  local at = 1
  while at <= #seen and want <= #wants do
    if #members > 0 and total >= reply_bytes then
      full = true
      break
    end
    local max_bytes = step == 4 and tonumber(wants[want + 2]) or math.huge
    local begun = count > 0 or (step == 4 and wants[want + 3] == '1')
    local body = redis.call('HGET', k.messages, seen[at])
    local size = payload_bytes(body)
    local whole = size + (retried and redis.call('HSTRLEN', k.events, seen[at]) or 0)
    if special then whole = whole + 3 * redis.call('HSTRLEN', k.extra, seen[at]) end
    if #members > 0 and total + whole > reply_bytes then
      full = true
      break
    end
    if count == tonumber(wants[want]) or (begun and used + size > max_bytes) then
      granted[#granted + 1] = count
      want, count, used = want + step, 0, 0
    else
      members[at], bodies[at] = seen[at], body
      found[2 * at - 1], found[2 * at] = seen[at], int(dues[at])
      count, used, total, at = count + 1, used + size, total + whole, at + 1
    end
  end
  granted[#granted + 1] = count
  if k.front and #members > 0 then
    take_line(k, members)
    return found, bodies, granted, 0, full
  end
  local popped = #members > 0 and redis.call('ZREM', k.ready, unpack(members)) or 0
  if #members > popped then redis.call('ZREM', k.delayed, unpack(members, popped + 1)) end
  return found, bodies, granted, popped, full
end

-- Takes up to `most` due messages for one consumer, as long as they fit `reply_bytes`: of each group with one head at a time also those
-- that wait behind it, in order, as far as they are due and nothing else has to be done with them. All of them are heads then. Returns
-- what `take_by_size` does.
local function take_groups(k, now, most, reply_bytes, ttl, topic_max)
  local seen, dues = front(k, now, most)
  local found, bodies, members, entries, heads = {}, {}, {}, {}, {}
  local retried, total, full = redis.call('EXISTS', k.events) == 1, 0, false
  local function take(member, due, extra)
    local n, body = #members + 1, redis.call('HGET', k.messages, member)
    total = total + payload_bytes(body) + (retried and redis.call('HSTRLEN', k.events, member) or 0) + 3 * #(extra or '')
    full = n > 1 and total > reply_bytes
    if full then return false end
    members[n], bodies[n], found[2 * n - 1], found[2 * n] = member, body, member, int(due)
    return true
  end
  local extras = redis.call('HMGET', k.extra, unpack(seen))
  for i = 1, #seen do
    if #members == most or not take(seen[i], dues[i], extras[i]) then break end
    local _, _, _, _, rest = parse_extra(extras[i])
    local id, entry = entry_of(seen[i], rest)
    local line = {}
    if id and #members < most and rules_of(k, id) == 1 then
      local from, upto = bounds_of(id)
      -- Up to the next one that is leased.
      local first, second = unpack(redis.call('ZRANGEBYLEX', k.heads, from, upto, 'LIMIT', 0, 2))
      if second then upto = table.concat({ '(', second }) end
      if first == entry then line = redis.call('ZRANGEBYLEX', k.queued, table.concat({ '(', entry }), upto, 'LIMIT', 0, most - #members) end
    end
    for j = 1, #line do
      local member = entry_member(line[j])
      local due, extra = tonumber(redis.call('ZSCORE', k.blocked, member) or math.huge), redis.call('HGET', k.extra, member)
      local _, counted, own_max, _, its = parse_extra(extra)
      local over = due <= now and expiry(k, member, its, due, ttl)
      if due > now or (over and (over <= now or over == NEVER)) or is_spent(counted, own_max, topic_max) then break end
      if not take(member, due, extra) then break end
      entries[#entries + 1], heads[#heads + 1], heads[#heads + 2] = line[j], '0', line[j]
    end
  end
  for _, zset in ipairs({ k.ready, k.delayed, k.blocked }) do redis.call('ZREM', zset, unpack(members)) end
  if #entries > 0 then
    redis.call('ZREM', k.queued, unpack(entries))
    redis.call('ZADD', k.heads, unpack(heads))
    redis.call('HSET', k.meta, 'several', '1')
  end
  return found, bodies, { #members }, 0, full
end

-- Records when granted messages first fell due, if they have no TTL of their own: the topic's TTL counts from then. `found`
-- is member, due, ….
local function remember_first_due(k, found, extras)
  local firsts = {}
  for i = 1, #found / 2 do
    local _, _, _, _, rest = parse_extra(extras[i])
    local _, own = parse_rest(rest)
    if own == '' then
      firsts[#firsts + 1] = found[2 * i]
      firsts[#firsts + 1] = found[2 * i - 1]
    end
  end
  if #firsts > 0 then redis.call('ZADD', k.first_due, 'NX', unpack(firsts)) end
end

-- The key of a message that is granted now, or '', and its group or ''. If the message holds the key until granted, it gives it up for good.
-- `rest` is that of its `extra`.
local function grant_key(k, member, extra, rest)
  local over, ttl, policy, hold, key, group, order = parse_rest(rest)
  if hold == 'g' and key ~= '' then
    free_key(k, member, key)
    local attempts, counted, max_attempts, priority = parse_extra(extra)
    rest = format_rest(over, ttl, policy, 'f', key, group, order)
    redis.call('HSET', k.extra, member, format_extra(attempts, counted, max_attempts, priority, rest))
  end
  return key, group
end

-- The key of a message or '', and its group or ''. A message of a pushed topic may have to wait after its lease begins, so it counts as
-- granted when its call begins (start_call): a 'g' before the key says that the message holds it until then, a 'd' that it does not.
local function call_key(rest)
  local _, _, _, hold, key, group = parse_rest(rest)
  return key ~= '' and table.concat({ hold == 'g' and 'g' or 'd', key }) or '', group
end
