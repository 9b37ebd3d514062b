-- @include message
-- @include partition
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

-- Where the entries of a group begin and end.
local function bounds_of(id)
  return table.concat({ '[', id }), table.concat({ '(', id, 'g' })
end

-- How many entries of a group are in `heads` or `queued`.
local function entries_of(zset, id)
  return redis.call('ZLEXCOUNT', zset, bounds_of(id))
end

-- When a message that becomes a head now is due (ms): no sooner than the rate of its group allows. `rates` holds when the
-- heads so far end at this rate, µs. `heads`: how many there may be with this one.
local function head_due(k, id, now, due, interval, burst, heads)
  if not interval then return due end
  local ahead = tonumber(redis.call('ZSCORE', k.rates, id) or 0)
  -- A head may have been due much later than now, and be gone, or due sooner, since.
  ahead = math.min(ahead, now * 1000 + (burst + heads) * interval)
  local turn = math.ceil((ahead - (burst - 1) * interval) / 1000)
  -- A turn that has come delays nothing. Sweeps forget those of long ago, so it must not matter whether one has.
  local at = turn > now and math.max(due, turn) or due
  redis.call('ZADD', k.rates, string.format('%d', math.max(ahead, at * 1000, now * 1000) + interval), id)
  return at
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
  local earliest, now, plain, late = math.huge, now_ms(), {}, {}
  local ttl = interval and parse_rules(redis.call('HGET', k.meta, 'rules')).ttl
  for i = 1, #members do
    -- A message without a place is the audit's.
    if dues[i] then
      local due = tonumber(dues[i])
      local _, _, _, priority, rest = parse_extra(extras[i])
      -- As many as may be: then it does not matter how many leave in one call. One whose TTL has ended takes nothing of the
      -- rate, whether it is dropped before or after this.
      local at, over = due, interval and expiry(k, members[i], rest, due, ttl)
      if not over or over > now then at = head_due(k, string.sub(entries[i], 1, 16), now, due, interval, burst, most) end
      if priority == 0 then
        plain[#plain + 1], plain[#plain + 2] = at == due and dues[i] or at, members[i]
      else
        place(members[i], priority, at, now, k.delayed, k.delayed_prio, k.ready)
      end
      -- The topic's TTL counts from its own due time.
      if at > due then
        local _, own = parse_rest(rest)
        if own == '' then late[#late + 1], late[#late + 2] = due, members[i] end
      end
      earliest = math.min(earliest, at)
    end
  end
  if #plain > 0 then redis.call('ZADD', k.delayed, unpack(plain)) end
  if #late > 0 then redis.call('ZADD', k.first_due, 'NX', unpack(late)) end
  wake(k.meta, redis.call('HGET', k.meta, 'sleep'), earliest)
  return #members
end

-- Takes messages that are done out of their groups: `groups` and `orders` hold those of each, by index, '' for none. For each
-- head that leaves the next message goes; two more if there may be more heads by now.
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
  if any then let_go(k, left) end
end

-- Adds a message that is in no other set to its group. Returns the order for its `extra`, and its due time if it is a head
-- or false if it is blocked.
local function join_group(k, member, group, due)
  local id, order = group_id(group), string.format('%012x', next_orders(k, 1) + 1)
  let_go(k, { [id] = 16 })
  local entry = table.concat({ id, order, member })
  local most, interval, burst = group_rules(k)
  local heads = entries_of(k.heads, id)
  if heads < most and entries_of(k.queued, id) == 0 then
    redis.call('ZADD', k.heads, 0, entry)
    return order, head_due(k, id, now_ms(), due, interval, burst, heads + 1)
  end
  redis.call('ZADD', k.queued, 0, entry)
  redis.call('ZADD', k.blocked, due, member)
  return order, false
end

-- After group_concurrency was raised, lets more messages go, group by group: some 64, or those of 16 groups. `raised` in meta
-- says after which group to continue. Returns whether more are left.
local function raise_groups(k)
  local from = redis.call('HGET', k.meta, 'raised')
  if not from then return false end
  local left = 64
  while left > 0 do
    local after = from == '' and '-' or table.concat({ '(', from, 'g' })
    local entry = redis.call('ZRANGEBYLEX', k.queued, after, '+', 'LIMIT', 0, 1)[1]
    if not entry then
      redis.call('HDEL', k.meta, 'raised')
      return false
    end
    local id = string.sub(entry, 1, 16)
    local went = let_go(k, { [id] = 16 })
    -- A group that let that many go may have more.
    if went < 16 then from = id end
    left = left - math.max(went, 4)
  end
  redis.call('HSET', k.meta, 'raised', from)
  return true
end
