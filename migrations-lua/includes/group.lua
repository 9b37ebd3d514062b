-- @include budget
-- @include entry
-- @include fair
-- @include message
-- @include time
-- @include waiting
-- Groups. Of the messages of a group only the first few, its heads, are where leases look. The others are blocked, until a
-- head is done. A message becomes a head once, in the order of publishing, and never goes back. All that is of strict topics; where
-- a topic is fair, `fair` does it.
--
-- `heads` and `queued` hold an entry for each message of a group: the group's ID, a number that grows with every message,
-- and the member. All scores are 0, so the messages of a group are together, in their order. A head is otherwise like any
-- message; one that is queued is in `blocked`, by due time.

-- The numbers of the next `count` messages in groups come after the one that this returns.
local function next_orders(k, count)
  return redis.call('HINCRBY', k.meta, 'group_order', count) - count
end

-- The topic's TTL as far as it counts for a blocked message: where groups have a rate, it begins when the message could go.
local function blocked_ttl(k, ttl)
  local _, interval, _, fair = group_rules(k)
  return (fair == '1' or not interval) and ttl or nil
end

-- When a message that is due at `due` (ms) by itself may go, after turns of its group that end at `ahead` (µs); and where the
-- turns end with its own. A turn that has come delays nothing. Sweeps forget those of long ago, so it must not matter whether one has.
local function next_turn(ahead, now, due, interval, burst)
  local turn = math.ceil((ahead - (burst - 1) * interval) / 1000)
  return turn > now and math.max(due, turn) or due, math.max(ahead, now * 1000) + interval
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

-- Has the TTLs of these heads begin at their due times (ms), or now if those have passed.
local function begin_ttls(k, members, dues, extras, now)
  local expiring, firsts = {}, {}
  for i = 1, #members do
    local _, _, _, _, rest = parse_extra(extras[i])
    local _, own = parse_rest(rest)
    if own ~= '' then
      expiring[#expiring + 1], expiring[#expiring + 2] = string.format('%d', math.max(dues[i], now) + tonumber(own)), members[i]
    elseif dues[i] < now then
      firsts[#firsts + 1], firsts[#firsts + 2] = now, members[i]
    end
  end
  if #expiring > 0 then redis.call('ZADD', k.expires, unpack(expiring)) end
  local lives = #firsts > 0 and string.find(redis.call('HGET', k.meta, 'rules') or '', '^%d,%d')
  if lives then redis.call('ZADD', k.first_due, 'NX', unpack(firsts)) end
end

-- What is added to the instant of a mark (µs) in `rates`, so that marks come before everything else.
local MARK = -4503599627370496

-- Marks a group: the first lease or sweep at this instant (ms) or later plans its turns.
local function mark(k, id, at)
  redis.call('ZADD', k.rates, string.format('%d', MARK + at * 1000), id .. 'p')
end

-- Plans the next 64 turns of a group's heads that were never granted, in the order in which they would go: a head that has left
-- has taken none. If it has more such heads, marks it for when half of these turns will have come. If the call has no room,
-- marks it for now instead. `met`: heads further behind whose turns are planned, too. Returns when `wanted` is due if it
-- has a turn, and false if the call had no room.
local function plan(k, id, now, wanted, met)
  local _, interval, burst, fair = rules_of(k, id)
  if not interval or fair == '1' then return end
  local cost = math.min(entries_of(k.heads, id), 1000)
  cost = 20 + cost + 12 * math.min(cost, 64)
  -- Where heads are met too early, a call plans one group at least.
  if (k.planned and k.planned + cost > 1000) or not (met or has_room(k)) then
    mark(k, id, 0)
    wake(k.meta, redis.call('HGET', k.meta, 'sleep'), now)
    return false
  end
  k.planned = (k.planned or 0) + cost
  spend(k, cost)
  local from, upto = bounds_of(id)
  local heads, own, line, members = redis.call('ZRANGEBYLEX', k.heads, from, upto, 'LIMIT', 0, 1000), {}, {}, {}
  for i = 1, #heads do heads[i] = string.sub(heads[i], 29) end
  if #heads > 0 then own = redis.call('ZMSCORE', k.turns, unpack(heads)) end
  for i = 1, #heads do
    -- By due time, then in the order of publishing.
    if own[i] then line[#line + 1] = math.max(own[i] - now, 0) * 1024 + i end
  end
  table.sort(line)
  local ahead, half = tonumber(redis.call('ZSCORE', k.rates, granted_turns(id)) or 0), now
  redis.call('ZADD', k.rates, string.format('%d', #line > 0 and math.max(ahead, now * 1000) + #line * interval or ahead), id)
  redis.call('ZREM', k.rates, id .. 'p')
  if #line == 0 then return end
  local dues, places = {}, {}
  for n = 1, #line do
    local i = line[n] % 1024
    if n <= 64 or (met and met[heads[i]]) then
      members[#members + 1], dues[#dues + 1], places[#places + 1] = heads[i], tonumber(own[i]), n
    end
  end
  local plain, later = redis.call('ZMSCORE', k.delayed, unpack(members)), redis.call('ZMSCORE', k.delayed_prio, unpack(members))
  local ready, found = redis.call('ZMSCORE', k.ready, unpack(members)), nil
  local moved, ats, left, delayed, prio, earliest = {}, {}, {}, {}, {}, math.huge
  for n = 1, #members do
    local before = tonumber(plain[n] or later[n]) or (ready[n] and rank_due(ready[n]))
    if before then
      -- Those between two of them go before the second.
      if n > 64 then ahead = ahead + (places[n] - places[n - 1] - 1) * interval end
      local at = next_turn(ahead, now, dues[n], interval, burst)
      -- Its turn has come before.
      if at <= now and before <= now then at = before end
      ahead = math.max(ahead, at * 1000, now * 1000) + interval
      if n <= 32 then half = math.max(half, at) end
      if members[n] == wanted then found = at end
      if at ~= before then
        local list = plain[n] and delayed or prio
        list[#list + 1], list[#list + 2] = at, members[n]
        if ready[n] then left[#left + 1] = members[n] end
        moved[#moved + 1], ats[#ats + 1], earliest = members[n], at, math.min(earliest, at)
      end
    end
  end
  if #line > 64 then mark(k, id, half) end
  if #moved == 0 then return found end
  if #left > 0 then redis.call('ZREM', k.ready, unpack(left)) end
  if #delayed > 0 then redis.call('ZADD', k.delayed, unpack(delayed)) end
  -- `promote` brings those to `ready` that are due.
  if #prio > 0 then redis.call('ZADD', k.delayed_prio, unpack(prio)) end
  -- Their TTLs count from then.
  redis.call('ZREM', k.first_due, unpack(moved))
  if earliest < now or redis.call('EXISTS', k.expires) == 1 then
    begin_ttls(k, moved, ats, redis.call('HMGET', k.extra, unpack(moved)), now)
  end
  wake(k.meta, redis.call('HGET', k.meta, 'sleep'), earliest)
  return found
end

-- Plans the groups that are marked for this instant (ms; 0: at once) or before, as many as the call may. Returns whether there
-- were any.
local function plan_marked(k, now, upto)
  local marks = redis.call('ZRANGEBYSCORE', k.rates, '-inf', string.format('%d', MARK + upto * 1000), 'LIMIT', 0, 64)
  for _, name in ipairs(marks) do
    if plan(k, string.sub(name, 1, 16), now) == false then break end
  end
  return #marks > 0
end

-- Moves a waiting message in this state to where its due time and its priority want it. `ttl` is its own (ms or ''), as its
-- `extra` has it by now, and counts from `began`, as the topic's does. `moved`: the due time is another than before. In a fair
-- topic it has left its line (`step_out`). Returns when it is due in its group.
local function reschedule(k, member, state, priority, due, began, ttl, group, order, now, moved)
  local _, interval, fair, own_rates
  if group ~= '' then _, interval, _, fair, _, own_rates = group_rules(k) end
  if fair == '1' then interval = nil end
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
    if fair then redis.call('ZADD', k.queued, 0, table.concat({ group_id(group), order, member })) end
    return due
  end
  if fair == '1' then
    wait_again(k, member, priority, due, now, group, order)
  else
    place(member, priority, due, now, k.delayed, k.delayed_prio, k.ready)
  end
  if group == '' or fair == '1' then return due end
  -- One that was granted before waits for no turn.
  if moved and redis.call('ZSCORE', k.turns, member) then redis.call('ZADD', k.turns, due, member) end
  if not (interval or own_rates) then return due end
  return plan(k, group_id(group), now, member) or due
end

-- Makes the next messages of these groups heads, as far as they may have more. `ids` holds for each how many at most. Returns
-- how many there were.
local function let_go(k, ids)
  if not k.queued or redis.call('EXISTS', k.queued) == 0 then return 0 end
  local _, interval, _, fair, _, _, several = group_rules(k)
  if fair == '1' then return 0 end
  local entries, heads, members = {}, {}, {}
  for id, limit in pairs(ids) do
    local from, upto = bounds_of(id)
    -- Mostly none: then this costs a third of looking for one. Entries with an 'f' are not in the order of publishing yet.
    local most, first = (rules_of(k, id)), several and redis.call('ZRANGEBYLEX', k.queued, from, upto, 'LIMIT', 0, 1)[1]
    local free = math.min(limit, most - heads_upto(k, id, most, first))
    if free > 0 and not (fair and has_line(k, id .. 'f')) then
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
  local earliest, now, plain, begin, ats, their = math.huge, now_ms(), {}, {}, {}, {}
  for i = 1, #members do
    -- A message without a place is the audit's.
    if dues[i] then
      local due = tonumber(dues[i])
      local _, counted, _, priority, rest = parse_extra(extras[i])
      local id, at = string.sub(entries[i], 1, 16), due
      local _, its_interval, burst = rules_of(k, id)
      -- One that has failed was a head before, and waits for no turn.
      if counted == 0 then at = head_due(k, id, members[i], now, due, its_interval, burst) end
      if priority == 0 then
        plain[#plain + 1], plain[#plain + 2] = at == due and dues[i] or at, members[i]
      else
        place(members[i], priority, at, now, k.delayed, k.delayed_prio, k.ready)
      end
      local _, own = parse_rest(rest)
      -- Where there is a rate, or was, its TTL begins, unless it has.
      if own == '' and interval or own ~= '' and tonumber(redis.call('ZSCORE', k.expires, members[i]) or 0) == NEVER then
        begin[#begin + 1], ats[#ats + 1], their[#their + 1] = members[i], at, extras[i]
      end
      earliest = math.min(earliest, at)
    end
  end
  if #plain > 0 then redis.call('ZADD', k.delayed, unpack(plain)) end
  begin_ttls(k, begin, ats, their, now)
  wake(k.meta, redis.call('HGET', k.meta, 'sleep'), earliest)
  return #members
end

-- Takes messages that are done out of their groups: `groups` and `orders` hold those of each, by index, '' for none. For each
-- head that leaves the next message goes; two more if there may be more heads by now. Before they leave `blocked`.
local function leave_groups(k, members, groups, orders)
  local entries, ids, left, any, by_index = {}, {}, {}, false, {}
  for i = 1, #members do
    if groups[i] and groups[i] ~= '' then
      local n, id = #ids + 1, group_id(groups[i])
      ids[n], entries[n], by_index[i] = id, table.concat({ id, orders[i], members[i] }), id
    end
  end
  if #entries == 0 then return end
  -- Mostly all were heads, or none.
  local heads, queued = redis.call('ZREM', k.heads, unpack(entries)), {}
  local most, _, _, fair, own = group_rules(k)
  if fair and heads < #entries then leave_line(k, members, by_index, orders) end
  if fair == '1' then
    redis.call('ZREM', k.turns, unpack(members))
    if heads == 0 or (most == math.huge and not own) then return end
    for i = 1, #ids do left[ids[i]] = true end
    free_leases(k, left, now_ms())
    return
  end
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
    for id in pairs(left) do plan(k, id, now_ms()) end
  end
end

-- Adds a message that is in no other set to its group. Returns the order for its `extra`, and its due time if it is a head
-- or false if it is blocked; and whether the group has a rate. In a fair topic it is not in its line yet.
local function join_group(k, member, group, due)
  local id, order = group_id(group), string.format('%012x', next_orders(k, 1) + 1)
  if is_fair(k) then return order, due end
  let_go(k, { [id] = 16 })
  local entry = id .. order .. member
  local most, interval, burst = rules_of(k, id)
  local _, rated = group_rules(k)
  if entries_of(k.heads, id) < most and entries_of(k.queued, id) == 0 then
    redis.call('ZADD', k.heads, 0, entry)
    return order, head_due(k, id, member, now_ms(), due, interval, burst), rated
  end
  redis.call('ZADD', k.queued, 0, entry)
  redis.call('ZADD', k.blocked, due, member)
  return order, false, rated
end

-- After the limits of a group were changed, puts heads that wait back behind the others: those that were planned at a rate, and of
-- the rest as many as it has too many, the last ones first. Returns whether more are left.
local function put_back(k, id, now)
  local from, upto = bounds_of(id)
  local heads, members = redis.call('ZRANGEBYLEX', k.heads, from, upto, 'LIMIT', 0, 1000), {}
  local surplus = #heads - rules_of(k, id)
  if #heads == 0 then return false end
  for i = 1, #heads do members[i] = entry_member(heads[i]) end
  local delayed, prio = redis.call('ZMSCORE', k.delayed, unpack(members)), redis.call('ZMSCORE', k.delayed_prio, unpack(members))
  local ready, own = redis.call('ZMSCORE', k.ready, unpack(members)), redis.call('ZMSCORE', k.turns, unpack(members))
  local gone, entries, queued, blocked, unbegun = {}, {}, {}, {}, {}
  for i = #heads, 1, -1 do
    local due = delayed[i] or prio[i] or (ready[i] and rank_due(ready[i]))
    if due and (surplus > 0 or own[i]) then
      if #gone == 256 then break end
      local n = #gone + 1
      surplus, gone[n], entries[n] = surplus - 1, members[i], heads[i]
      queued[2 * n - 1], queued[2 * n], blocked[2 * n - 1], blocked[2 * n] = 0, heads[i], own[i] or due, members[i]
      if own[i] and tonumber(due) > now then unbegun[#unbegun + 1] = members[i] end
    end
  end
  spend(k, 20 + 2 * #heads + 6 * #gone)
  -- What was planned counts no more, as what was granted does.
  redis.call('ZREM', k.rates, id, id .. 'p')
  if #gone == 0 then return false end
  -- The TTLs of those whose turn has not come begin with another one.
  if #unbegun > 0 then
    redis.call('ZREM', k.first_due, unpack(unbegun))
    for _, member in ipairs(unbegun) do redis.call('ZADD', k.expires, 'XX', string.format('%d', NEVER), member) end
  end
  for _, zset in ipairs({ k.delayed, k.delayed_prio, k.ready, k.turns }) do redis.call('ZREM', zset, unpack(gone)) end
  redis.call('ZREM', k.heads, unpack(entries))
  redis.call('ZADD', k.queued, unpack(queued))
  redis.call('ZADD', k.blocked, unpack(blocked))
  return #gone == 256
end

-- A step of having the limits of one group in force: puts back what it has too many of, then lets others go. `step`: what the one
-- before returned. Returns that, 0 if there is no more. A sweep does the rest if no other call does: `raised` has an 'o', the step
-- and the group. Where it says that more groups are to be gone through, that begins again.
local function refit(k, id, step, now)
  -- What has been let go is not put back again.
  local more = step ~= '2' and put_back(k, id, now) and 1 or let_go(k, { [id] = 64 }) == 64 and 2 or 0
  local raised = redis.call('HGET', k.meta, 'raised')
  if not raised or string.byte(raised) == 111 and string.sub(raised, 3) == id then
    if more > 0 then
      redis.call('HSET', k.meta, 'raised', table.concat({ 'o', more, id }))
    elseif raised then
      redis.call('HDEL', k.meta, 'raised')
    end
  elseif more > 0 and string.byte(raised) ~= 104 then
    redis.call('HSET', k.meta, 'raised', more == 1 and 'h' or '')
  end
  return more
end

-- After the limits of all groups were changed, puts back heads that wait, group by group, and plans others. `from`: an 'h', and after
-- which group to continue. Returns that, or '' once all groups are done.
local function replan_groups(k, from, now)
  while has_room(k) do
    local id = string.sub(from, 2)
    local entry = redis.call('ZRANGEBYLEX', k.heads, id == '' and '-' or table.concat({ '(', id, 'g' }), '+', 'LIMIT', 0, 1)[1]
    if not entry then return '' end
    id = string.sub(entry, 1, 16)
    spend(k, 10)
    if not put_back(k, id, now) then
      spend(k, 30 * let_go(k, { [id] = 16 }))
      from = 'h' .. id
    end
  end
  return from
end

-- After group_concurrency was raised, lets more messages go, eight groups at a time: of some 192 groups, or as many messages.
-- `raised` in meta says after which group to continue. Returns whether more are left. The same after other changes of what holds
-- for groups.
local function raise_groups(k, now)
  local from = redis.call('HGET', k.meta, 'raised')
  if not from then return false end
  local _, _, _, fair = group_rules(k)
  if fair == '1' then return free_groups(k, from, now) end
  if string.byte(from) == 111 then return refit(k, string.sub(from, 3), string.sub(from, 2, 2), now) > 0 end
  if string.byte(from) == 104 then from = replan_groups(k, from, now) end
  local left = string.byte(from) == 104 and 0 or 192
  while left > 0 and has_room(k) do
    local ids, last, unordered = {}, from, false
    for _ = 1, 8 do
      local after = last == '' and '-' or table.concat({ '(', last, 'g' })
      local entry = redis.call('ZRANGEBYLEX', k.queued, after, '+', 'LIMIT', 0, 1)[1]
      if not entry then break end
      last = string.sub(entry, 1, 16)
      ids[last] = 16
      if fair then
        spend(k, 40)
        unordered = order_line(k, last, false)
        if unordered then break end
      end
    end
    if last == from and not unordered then
      redis.call('HDEL', k.meta, 'raised', 'fair')
      if fair then redis.call('UNLINK', k.offers) end
      return false
    end
    local went = let_go(k, ids)
    -- A group that let that many go may have more.
    if went < 16 and not unordered then from = last end
    left = left - math.max(went, 8)
  end
  redis.call('HSET', k.meta, 'raised', from)
  return true
end
