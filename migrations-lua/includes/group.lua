-- @include message
-- @include time
-- @include waiting
-- Groups. Of the messages of a group only the first few, its heads, are where leases look. The others are blocked, until a
-- head is done. A message becomes a head once, in the order of publishing, and never goes back.
--
-- `heads` and `queued` hold an entry for each message of a group: the group's ID, a number that grows with every message,
-- and the member. All scores are 0, so the messages of a group stand together, in their order. A head is otherwise like any
-- message; one that is queued is in `blocked`, by due time.

-- What the entries of a group begin with: 16 hex digits. Two groups of the same ID would only wait for each other.
local function group_id(group)
  return string.sub(redis.sha1hex(group), 1, 16)
end

-- The group of a message and its entry, or false if it is in none.
local function entry_of(member, rest)
  local _, _, _, _, _, group, order = parse_rest(rest)
  if group == '' then return false end
  local id = group_id(group)
  return id, table.concat({ id, order, member })
end

-- The numbers of the next `count` messages in groups come after the one that this returns.
local function next_orders(k, count)
  return redis.call('HINCRBY', k.meta, 'group_order', count) - count
end

-- How many heads a group may have, the time between two of them in µs (nil: any), and how many may come at once.
local function group_rules(k)
  local rules = redis.call('HGET', k.meta, 'group_rules')
  local most, interval, burst = string.match(rules or '', '^(%d+),(%d*),(%d+)$')
  return tonumber(most or 1), tonumber(interval or ''), tonumber(burst or 1)
end

-- The topic's TTL as far as it counts for a blocked message: where groups have a rate, it begins when the message could go.
local function blocked_ttl(k, ttl)
  local _, interval = group_rules(k)
  return not interval and ttl or nil
end

-- Where the entries of a group begin and end.
local function bounds_of(id)
  return table.concat({ '[', id }), table.concat({ '(', id, 'g' })
end

-- How many entries of a group are in `heads` or `queued`.
local function entries_of(zset, id)
  return redis.call('ZLEXCOUNT', zset, bounds_of(id))
end

-- When a message that is due at `due` (ms) by itself may go, after turns of its group that end at `ahead` (µs); and where the
-- turns end with its own. A turn that has come delays nothing. Sweeps forget those of long ago, so it must not matter whether one has.
local function next_turn(ahead, now, due, interval, burst)
  local turn = math.ceil((ahead - (burst - 1) * interval) / 1000)
  return turn > now and math.max(due, turn) or due, math.max(ahead, now * 1000) + interval
end

-- What `rates` calls the turns of a group that were taken by grants. Its ID alone stands for these and those of its heads so far.
local function granted_turns(id)
  return table.concat({ id, 'g' })
end

-- When a message that becomes a head now is due (ms): no sooner than the rate of its group allows. `turns` keeps its own due
-- time until it is granted. All that is only planned: grants alone take turns, and `plan` plans again when a head has left.
local function head_due(k, id, member, now, due, interval, burst)
  if not interval then return due end
  local ends = redis.call('ZMSCORE', k.rates, id, granted_turns(id))
  local at, ahead = next_turn(math.max(tonumber(ends[1] or 0), tonumber(ends[2] or 0)), now, due, interval, burst)
  redis.call('ZADD', k.rates, string.format('%d', ahead), id)
  redis.call('ZADD', k.turns, due, member)
  return at
end

-- Plans the turns of a group's heads that were never granted, in the order in which they would go: a head that has left has
-- taken none. A call looks at some 1000 heads. Returns when `wanted` of them is due, if it is named.
local function plan(k, id, now, wanted)
  local _, interval, burst = group_rules(k)
  if not interval then return end
  k.planned = k.planned or 0
  local from, upto = bounds_of(id)
  local members = redis.call('ZRANGEBYLEX', k.heads, from, upto, 'LIMIT', 0, math.max(1000 - k.planned, 16))
  k.planned = k.planned + #members
  local ahead = tonumber(redis.call('ZSCORE', k.rates, granted_turns(id)) or 0)
  local planned, found, waiting, sorted = ahead, nil, {}, true
  for i = 1, #members do members[i] = string.sub(members[i], 29) end
  if #members > 0 then
    local own, ready = redis.call('ZMSCORE', k.turns, unpack(members)), redis.call('ZMSCORE', k.ready, unpack(members))
    local plain, later = redis.call('ZMSCORE', k.delayed, unpack(members)), redis.call('ZMSCORE', k.delayed_prio, unpack(members))
    for i = 1, #members do
      local at = tonumber(plain[i] or later[i]) or (ready[i] and rank_due(ready[i]))
      if at and own[i] then
        local due, last = tonumber(own[i]), waiting[#waiting]
        local head = { members[i], at, due, math.max(due, now), i, not plain[i] and k.delayed_prio or k.delayed, ready[i] }
        sorted = sorted and (not last or last[4] <= head[4])
        waiting[#waiting + 1] = head
      end
    end
  end
  if not sorted then table.sort(waiting, function(a, b) return a[4] < b[4] or (a[4] == b[4] and a[5] < b[5]) end) end
  local moved, plain, later, left, expires, earliest = {}, {}, {}, {}, {}, math.huge
  for _, head in ipairs(waiting) do
    local at = next_turn(ahead, now, head[3], interval, burst)
    -- Its turn has come, maybe before.
    if at <= now then at = head[2] <= now and head[2] or math.max(head[3], now) end
    ahead = math.max(ahead, at * 1000, now * 1000) + interval
    planned = math.max(planned, now * 1000) + interval
    if head[1] == wanted then found = at end
    if at ~= head[2] then
      local list = head[6] == k.delayed and plain or later
      list[#list + 1], list[#list + 2] = at, head[1]
      if head[7] then left[#left + 1] = head[1] end
      moved[#moved + 1], expires[#expires + 1] = head[1], at - head[2]
      earliest = math.min(earliest, at)
    end
  end
  redis.call('ZADD', k.rates, string.format('%d', planned), id)
  if #moved == 0 then return found end
  if #left > 0 then redis.call('ZREM', k.ready, unpack(left)) end
  if #plain > 0 then redis.call('ZADD', k.delayed, unpack(plain)) end
  -- `promote` brings those to `ready` that are due.
  if #later > 0 then redis.call('ZADD', k.delayed_prio, unpack(later)) end
  if redis.call('EXISTS', k.expires) == 1 then
    local ends = redis.call('ZMSCORE', k.expires, unpack(moved))
    for i = 1, #moved do
      if ends[i] then redis.call('ZADD', k.expires, string.format('%d', ends[i] + expires[i]), moved[i]) end
    end
  end
  wake(k.meta, redis.call('HGET', k.meta, 'sleep'), earliest)
  return found
end

-- Moves a waiting message in this state to where its due time and its priority want it. `ttl` is its own (ms or '') and counts
-- from `began`, as the topic's does. `moved`: the due time is another than before. Returns when it is due in its group.
local function reschedule(k, member, state, priority, due, began, ttl, group, now, moved)
  local _, interval
  if group ~= '' then _, interval = group_rules(k) end
  if interval and state == 'blocked' then began = ttl ~= '' and NEVER - tonumber(ttl) or due end
  redis.call('ZREM', k.expires, member)
  redis.call('ZREM', k.first_due, member)
  if ttl ~= '' then
    redis.call('ZADD', k.expires, string.format('%d', began + tonumber(ttl)), member)
  elseif began ~= due then
    redis.call('ZADD', k.first_due, string.format('%d', began), member)
  end
  for _, zset in ipairs({ k.delayed, k.delayed_prio, k.ready, k.blocked }) do redis.call('ZREM', zset, member) end
  if state == 'blocked' then
    redis.call('ZADD', k.blocked, due, member)
    return due
  end
  place(member, priority, due, now, k.delayed, k.delayed_prio, k.ready)
  -- One that was granted before waits for no turn.
  if interval and moved and redis.call('ZSCORE', k.turns, member) then redis.call('ZADD', k.turns, due, member) end
  return interval and plan(k, group_id(group), now, member) or due
end

-- Makes the next messages of these groups heads, as far as they may have more. `ids` holds for each how many at most. Returns
-- how many there were.
local function let_go(k, ids)
  if not k.queued or redis.call('EXISTS', k.queued) == 0 then return 0 end
  local most, interval, burst = group_rules(k)
  local entries, heads, members = {}, {}, {}
  for id, limit in pairs(ids) do
    local from, upto = bounds_of(id)
    -- Mostly none: then this costs a third of looking for one.
    local free = math.min(limit, most - redis.call('ZLEXCOUNT', k.heads, from, upto))
    if free > 0 then
      for _, entry in ipairs(redis.call('ZRANGEBYLEX', k.queued, from, upto, 'LIMIT', 0, free)) do
        local n = #members + 1
        entries[n], heads[2 * n - 1], heads[2 * n], members[n] = entry, '0', entry, string.sub(entry, 29)
      end
    end
  end
  if #members == 0 then return 0 end
  local dues, extras = redis.call('ZMSCORE', k.blocked, unpack(members)), redis.call('HMGET', k.extra, unpack(members))
  redis.call('ZREM', k.queued, unpack(entries))
  redis.call('ZREM', k.blocked, unpack(members))
  redis.call('ZADD', k.heads, unpack(heads))
  local earliest, now, plain, expiring = math.huge, now_ms(), {}, {}
  for i = 1, #members do
    -- A message without a place is the audit's.
    if dues[i] then
      local due = tonumber(dues[i])
      local _, _, _, priority, rest = parse_extra(extras[i])
      local at = head_due(k, string.sub(entries[i], 1, 16), members[i], now, due, interval, burst)
      if priority == 0 then
        plain[#plain + 1], plain[#plain + 2] = at == due and dues[i] or at, members[i]
      else
        place(members[i], priority, at, now, k.delayed, k.delayed_prio, k.ready)
      end
      local _, own = parse_rest(rest)
      if own ~= '' then
        -- Its TTL begins, or would have.
        local rated = interval or tonumber(redis.call('ZSCORE', k.expires, members[i]) or 0) == NEVER
        if rated then expiring[#expiring + 1], expiring[#expiring + 2] = string.format('%d', at + tonumber(own)), members[i] end
      end
      earliest = math.min(earliest, at)
    end
  end
  if #plain > 0 then redis.call('ZADD', k.delayed, unpack(plain)) end
  if #expiring > 0 then redis.call('ZADD', k.expires, unpack(expiring)) end
  wake(k.meta, redis.call('HGET', k.meta, 'sleep'), earliest)
  return #members
end

-- Takes messages that are done out of their groups: `groups` and `orders` hold those of each, by index, '' for none. For each
-- head that leaves the next message goes; two more if there may be more heads by now. A caller that takes out one message
-- after another sets `k.unplanned`, and calls `plan_left` at its end: so each group is planned once.
local function leave_groups(k, members, groups, orders)
  local entries, ids, left, any = {}, {}, {}, false
  for i = 1, #members do
    if groups[i] and groups[i] ~= '' then
      local n, id = #ids + 1, group_id(groups[i])
      ids[n], entries[n] = id, table.concat({ id, orders[i], members[i] })
    end
  end
  if #entries == 0 then return end
  -- Mostly all were heads, or none.
  local heads, queued = redis.call('ZREM', k.heads, unpack(entries)), {}
  if heads < #entries then
    if heads > 0 then queued = redis.call('ZMSCORE', k.queued, unpack(entries)) end
    redis.call('ZREM', k.queued, unpack(entries))
    if heads == 0 then return end
  end
  for i = 1, #entries do
    if not queued[i] then left[ids[i]], any = (left[ids[i]] or 2) + 1, true end
  end
  if not any then return end
  let_go(k, left)
  -- Some were never granted.
  if redis.call('ZREM', k.turns, unpack(members)) > 0 then
    for id in pairs(left) do
      if not k.unplanned then
        plan(k, id, now_ms())
      elseif not k.unplanned[id] then
        k.unplanned[id], k.planned = true, (k.planned or 0) + entries_of(k.heads, id)
      end
    end
  end
end

-- Plans the groups that heads have left, each as a whole: the caller stops once `k.planned`, their heads, are some 1000.
local function plan_left(k, now)
  for id in pairs(k.unplanned) do
    k.planned = 0
    plan(k, id, now)
  end
end

-- Adds a message that is in no other set to its group. Returns the order for its `extra`, and its due time if it is a head
-- or false if it is blocked; and whether the group has a rate.
local function join_group(k, member, group, due)
  local id, order = group_id(group), string.format('%012x', next_orders(k, 1) + 1)
  let_go(k, { [id] = 16 })
  local entry = table.concat({ id, order, member })
  local most, interval, burst = group_rules(k)
  if entries_of(k.heads, id) < most and entries_of(k.queued, id) == 0 then
    redis.call('ZADD', k.heads, 0, entry)
    return order, head_due(k, id, member, now_ms(), due, interval, burst), interval
  end
  redis.call('ZADD', k.queued, 0, entry)
  redis.call('ZADD', k.blocked, due, member)
  return order, false, interval
end

-- After group_concurrency was raised, lets more messages go, eight groups at a time: of some 192 groups, or as many messages.
-- `raised` in meta says after which group to continue. Returns whether more are left.
local function raise_groups(k)
  local from = redis.call('HGET', k.meta, 'raised')
  if not from then return false end
  local left = 192
  while left > 0 do
    local ids, last = {}, from
    for _ = 1, 8 do
      local after = last == '' and '-' or table.concat({ '(', last, 'g' })
      local entry = redis.call('ZRANGEBYLEX', k.queued, after, '+', 'LIMIT', 0, 1)[1]
      if not entry then break end
      last = string.sub(entry, 1, 16)
      ids[last] = 16
    end
    if last == from then
      redis.call('HDEL', k.meta, 'raised')
      return false
    end
    local went = let_go(k, ids)
    -- A group that let that many go may have more.
    if went < 16 then from = last end
    left = left - math.max(went, 8)
  end
  redis.call('HSET', k.meta, 'raised', from)
  return true
end
