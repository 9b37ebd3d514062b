-- @include budget
-- @include entry
-- @include message
-- @include waiting
-- Fair topics: the messages of a group do not wait for each other, but groups take turns, so that none waits for all messages of
-- another.
--
-- A message of a group that is not leased is in `blocked`, by due time, and in `queued`, whose entries have those of a group in
-- the order in which they are granted. It does not move when it falls due. One that is leased is in `heads`. `offers` says when a
-- lease looks at a group: in the order of virtual turns (start-time fair queueing), or, for the group's ID and 'p', at an instant.
-- A grant moves its group one turn on. A group that comes takes the first of the present turns. One that has nothing to
-- grant when its turn comes is forgotten: then its turn is past, and it may as well come again as a new one. So `offers` needs no
-- care: every group with a message that could go has an entry there, and one that is there in vain costs a lookup.

-- By how much a grant moves a group of weight 1 on.
local TURN = 10000
-- What is added to an instant (ms) in `offers`, so that instants come before turns.
local INSTANT = -4503599627370496

-- The first turn of those that groups wait for.
local function present_turn(k)
  return redis.call('ZRANGEBYSCORE', k.offers, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or '0'
end

-- Has leases look at groups once these messages of theirs are due. `dues` holds instants (ms) by ID.
local function offer(k, dues, now)
  local turns, instants, present = {}, {}, nil
  for id, due in pairs(dues) do
    if due > now then
      instants[#instants + 1], instants[#instants + 2] = string.format('%d', INSTANT + due), id .. 'p'
    else
      present = present or present_turn(k)
      turns[#turns + 1], turns[#turns + 2] = present, id
    end
  end
  if #turns > 0 then redis.call('ZADD', k.offers, 'NX', unpack(turns)) end
  if #instants > 0 then redis.call('ZADD', k.offers, 'LT', unpack(instants)) end
end

-- Whether a message of a group waits.
local function has_line(k, id)
  local from, upto = bounds_of(id)
  return #redis.call('ZRANGEBYLEX', k.queued, from, upto, 'LIMIT', 0, 1) > 0
end

-- Adds a message that is in no other set to the line of its group.
local function enter_line(k, id, member, priority, due, now)
  redis.call('ZADD', k.blocked, due, member)
  redis.call('ZADD', k.queued, 0, fair_entry(id, priority, due, member))
  offer(k, { [id] = due }, now)
end

-- Takes those of these messages out of their groups' lines that wait there, before their `extra` changes. `ids` and `orders` hold
-- those of each, by index.
local function leave_line(k, members, ids, orders)
  local dues, entries, left, extras = redis.call('ZMSCORE', k.blocked, unpack(members)), {}, {}, nil
  for i = 1, #members do
    if dues[i] and ids[i] then
      extras = extras or redis.call('HMGET', k.extra, unpack(members))
      local _, _, _, priority = parse_extra(extras[i])
      entries[#entries + 1] = fair_entry(ids[i], priority, tonumber(dues[i]), members[i])
      -- As long as the topic has been fair for a short time only, or is no longer.
      entries[#entries + 1] = table.concat({ ids[i], orders[i], members[i] })
      left[ids[i]] = true
    end
  end
  if #entries == 0 then return end
  redis.call('ZREM', k.queued, unpack(entries))
  redis.call('ZREM', k.blocked, unpack(members))
  local present = tonumber(present_turn(k))
  for id in pairs(left) do
    if not has_line(k, id) then
      redis.call('ZREM', k.offers, id .. 'p')
      -- One that had more turns than others waits for its next turn, even if it comes again.
      if tonumber(redis.call('ZSCORE', k.offers, id) or math.huge) <= present then redis.call('ZREM', k.offers, id) end
    end
  end
end

-- The same for a message that is about to change: `wait_again`, or `reschedule`, puts it back.
local function step_out(k, member, group, order)
  if group == '' then return end
  local _, _, _, fair = group_rules(k)
  if fair then leave_line(k, { member }, { group_id(group) }, { order }) end
end

-- Leases of these groups have ended: where their number is limited, others of the group may go.
local function free_leases(k, ids, now)
  local dues = {}
  for id in pairs(ids) do
    local most = rules_of(k, id)
    if most > 0 and most < math.huge and has_line(k, id) then dues[id] = now end
  end
  if not next(dues) then return end
  offer(k, dues, now)
  wake(k.meta, redis.call('HGET', k.meta, 'sleep'), now)
end

-- Puts a head that is in no other set back behind those that its group may have by now, if the group has more; or behind earlier
-- ones that were granted with it. Returns whether it did.
local function step_back(k, member, due, id, order)
  local entry, most = id .. order .. member, (rules_of(k, id))
  if heads_upto(k, id, most, entry) <= most then return false end
  redis.call('ZREM', k.heads, entry)
  redis.call('ZADD', k.queued, 0, entry)
  redis.call('ZADD', k.blocked, due, member)
  return true
end

-- Adds a message that is not leased any more to where it waits. `group` and `order` are '' for one that is in no group. Returns
-- whether it is blocked there.
local function wait_again(k, member, priority, due, now, group, order)
  local fair = group ~= '' and select(4, group_rules(k))
  if fair ~= '1' then
    if group ~= '' and step_back(k, member, due, group_id(group), order) then return true end
    place(member, priority, due, now, k.delayed, k.delayed_prio, k.ready)
    return
  end
  local id = group_id(group)
  enter_line(k, id, member, priority, due, now)
  if redis.call('ZREM', k.heads, id .. order .. member) > 0 then free_leases(k, { [id] = true }, now) end
end

-- Gives up to 64 entries of a group the order of a fair topic, which have that of publishing, since the topic was strict or they
-- were loaded; or the other way round (not `fair`). Returns whether more are left.
local function order_line(k, id, fair, now)
  local from, upto = bounds_of(id .. 'f')
  if fair then from, upto = '[' .. id, '(' .. id .. 'f' end
  local entries, members, ordered = redis.call('ZRANGEBYLEX', k.queued, from, upto, 'LIMIT', 0, 64), {}, {}
  if #entries == 0 then return false end
  for i = 1, #entries do members[i] = entry_member(entries[i]) end
  local dues, extras = redis.call('ZMSCORE', k.blocked, unpack(members)), redis.call('HMGET', k.extra, unpack(members))
  for i = 1, #members do
    local _, _, _, priority, rest = parse_extra(extras[i])
    local _, entry = entry_of(members[i], rest)
    if fair then entry = dues[i] and fair_entry(id, priority, tonumber(dues[i]), members[i]) end
    local _, ttl = parse_rest(rest)
    -- Blocked at a rate, it had all of its TTL to come.
    if fair and entry and ttl ~= '' and tonumber(redis.call('ZSCORE', k.expires, members[i]) or 0) == NEVER then
      redis.call('ZADD', k.expires, string.format('%d', math.max(tonumber(dues[i]), now) + tonumber(ttl)), members[i])
    end
    if entry then ordered[#ordered + 1], ordered[#ordered + 2] = '0', entry end
  end
  spend(k, 5 * #members)
  redis.call('ZREM', k.queued, unpack(entries))
  if #ordered > 0 then redis.call('ZADD', k.queued, unpack(ordered)) end
  return #entries == 64
end

-- The next message of a group in `fair_front` that may go now: its entry, its due time, and where the turns at the group's rate end
-- with it; false if there is none. Reads `step` entries at a time.
local function next_in_line(k, group, now, step)
  local id = group.id
  local most, interval, burst, _, weight = rules_of(k, id)
  group.weight = weight
  if most < math.huge then
    if not group.free then
      group.free = most - entries_of(k.heads, id)
      spend(k, 5)
    end
    group.free = group.free - 1
    if group.free < 0 then return false end
  end
  while true do
    local list = group.list
    local entry = list and list[group.at]
    if not entry then
      if list and #list < step then return false end
      local from = group.from or '[' .. id
      list = redis.call('ZRANGEBYLEX', k.queued, from, '(' .. id .. 'g', 'LIMIT', 0, step)
      spend(k, 4 + #list / 4)
      group.list, group.at, entry = list, 1, list[1]
      if not entry then return false end
    end
    if string.byte(entry, 17) ~= 102 then
      order_line(k, id, true, now)
      group.from, group.list = '[' .. id .. 'f', false
    else
      local due = tonumber(string.sub(entry, 20, 31), 16)
      if due <= now then
        if interval and parse_extra(redis.call('HGET', k.extra, entry_member(entry))) == 0 then
          group.ahead = group.ahead or tonumber(redis.call('ZSCORE', k.rates, granted_turns(id)) or 0)
          local ahead = take_turn(group.ahead, now, due, interval, burst)
          if not ahead then
            group.coming = math.min(group.coming, math.ceil((group.ahead - (burst - 1) * interval) / 1000))
            return false
          end
          group.ahead = ahead
        end
        group.at = group.at + 1
        if group.at > step then group.from = '(' .. entry end
        return entry, due, group.ahead
      end
      -- Those behind it are due later, as far as they have its priority.
      group.coming = math.min(group.coming, due)
      local below = tonumber(string.sub(entry, 18, 19), 16) + 1
      if below > 255 then return false end
      group.from, group.list = '[' .. id .. string.format('f%02x', below), false
    end
  end
end

-- Adds a group to the line of those that have turns, which begins at `first`, behind others with the same turn.
local function join_round(line, first, group)
  local place, turn = #line + 1, group.turn
  while place > first and line[place - 1].turn > turn do
    line[place] = line[place - 1]
    place = place - 1
  end
  line[place] = group
end

-- The next `most` messages in line of a fair topic, as `front`: one group after another. Messages without a group are those of one group,
-- whose ID is ''. Notes in `k` what `take_line` needs to know of each; whether more may be there (`more`), and whether the call
-- has no room to look for them (`cut`).
local function fair_front(k, now, most)
  local plain, plain_dues = {}, {}
  if not k.unpromoted then plain, plain_dues = plain_front(k, now, most) end
  if #plain > 0 then offer(k, { [''] = now }, now) end
  -- How many groups have been read, and the turn of the last one; false once all have been.
  local line, first, step, count, last = {}, 1, nil, 0, -1
  local members, dues, ids, entries, turns, ends, taken, gone, coming = {}, {}, {}, {}, {}, {}, {}, {}, {}
  while #members < most and (first == 1 or has_room(k)) do
    -- Before a group has a further turn, those come that had theirs with it.
    if last and not (line[first] and line[first].turn <= last) then
      local offered = redis.call('ZRANGEBYSCORE', k.offers, 0, '+inf', 'WITHSCORES', 'LIMIT', count, most)
      step, count = step or math.ceil(2 * most / #offered), count + #offered / 2
      last = #offered == 2 * most and tonumber(offered[#offered])
      for i = 1, #offered, 2 do
        -- All fields at once: a table that grows costs more.
        local group = { id = offered[i], turn = tonumber(offered[i + 1]), at = 1, list = false, from = false, coming = math.huge, weight = 1 }
        join_round(line, first, group)
      end
    end
    if not line[first] then break end
    local group, member, entry, due, ahead = line[first], nil, false, nil, nil
    local id = group.id
    first = first + 1
    if id == '' then
      member, due, group.at = plain[group.at], plain_dues[group.at], group.at + 1
    else
      entry, due, ahead = next_in_line(k, group, now, step)
      member = entry and entry_member(entry)
    end
    if member then
      local n, turn = #members + 1, group.turn + TURN / group.weight
      group.turn, taken[id] = turn, n
      members[n], dues[n], ids[n], entries[n], turns[n], ends[n] = member, due, id, entry, turn, ahead or false
      join_round(line, first, group)
    else
      -- Its turn is past, whatever it was granted before.
      if taken[id] then turns[taken[id]] = false else gone[#gone + 1] = id end
      if group.coming < math.huge then coming[id] = group.coming end
    end
  end
  if #gone > 0 then redis.call('ZREM', k.offers, unpack(gone)) end
  if next(coming) then offer(k, coming, now) end
  k.ids, k.entries, k.group_turns, k.ends = ids, entries, turns, ends
  k.more = line[first] ~= nil or last ~= false
  k.cut = #members < most and k.more
  -- An entry of a message that does not wait is the audit's; nothing is granted twice. Mostly there are as many of one as of the other.
  local damaged = redis.call('ZCARD', k.queued) ~= redis.call('ZCARD', k.blocked)
  local there = damaged and #members > 0 and redis.call('ZMSCORE', k.blocked, unpack(members))
  for i = there and #members or 0, 1, -1 do
    if entries[i] and tonumber(there[i]) ~= dues[i] then
      redis.call('ZREM', k.queued, entries[i])
      for _, list in ipairs({ members, dues, ids, entries, turns, ends }) do table.remove(list, i) end
      k.cut = true
    end
  end
  return members, dues
end

-- Takes the first of the messages in line, these, which are granted. Returns their extras.
local function take_line(k, members)
  local extras, entries, heads, turns, ends = redis.call('HMGET', k.extra, unpack(members)), {}, {}, {}, {}
  local n = 0
  for i = 1, #members do
    local id, entry, member = k.ids[i], k.entries[i], members[i]
    turns[id] = k.group_turns[i]
    if entry then
      local _, _, _, _, rest = parse_extra(extras[i])
      local _, _, _, _, _, _, order = parse_rest(rest)
      n = n + 1
      entries[n], heads[2 * n - 1], heads[2 * n] = entry, '0', id .. order .. member
      if k.ends[i] then ends[granted_turns(id)] = k.ends[i] end
    end
  end
  local offers, rates, over, before, text = {}, {}, {}, nil, nil
  for id, turn in pairs(turns) do
    if turn then
      if turn ~= before then before, text = turn, string.format('%d', turn) end
      offers[#offers + 1], offers[#offers + 2] = text, id
    else
      over[#over + 1] = id
    end
  end
  for id, ahead in pairs(ends) do rates[#rates + 1], rates[#rates + 2] = string.format('%d', ahead), id end
  if #over > 0 then redis.call('ZREM', k.offers, unpack(over)) end
  if #offers > 0 then redis.call('ZADD', k.offers, unpack(offers)) end
  if #rates > 0 then redis.call('ZADD', k.rates, unpack(rates)) end
  if n > 0 then
    redis.call('ZREM', k.queued, unpack(entries))
    redis.call('ZREM', k.blocked, unpack(members))
    redis.call('ZADD', k.heads, unpack(heads))
  end
  if n < #members then
    redis.call('ZREM', k.ready, unpack(members))
    redis.call('ZREM', k.delayed, unpack(members))
  end
  return extras
end

-- Gives groups a turn whose instant has come. Returns whether there may be more.
local function wake_groups(k, now)
  local come = redis.call('ZRANGEBYSCORE', k.offers, '-inf', string.format('%d', INSTANT + now), 'LIMIT', 0, 256)
  if #come == 0 then return false end
  redis.call('ZREM', k.offers, unpack(come))
  local dues = {}
  for i = 1, #come do dues[string.sub(come[i], 1, 16)] = now end
  offer(k, dues, now)
  spend(k, 2 * #come)
  return #come == 256
end

-- When a lease is to look at a group next, in ms; infinite if there is none.
local function next_instant(k)
  local first = tonumber(redis.call('ZRANGE', k.offers, 0, 0, 'WITHSCORES')[2] or 0)
  return first < 0 and first - INSTANT or math.huge
end

-- When that message of a group is due (ms) which waits and is due first, or nearly so; and its member.
local function earliest_of(k, id)
  local earliest, member, below = math.huge, nil, 0
  while below <= 255 do
    local from = table.concat({ '[', id, below > 0 and string.format('f%02x', below) or '' })
    local entry = redis.call('ZRANGEBYLEX', k.queued, from, '(' .. id .. 'g', 'LIMIT', 0, 1)[1]
    if not entry then break end
    local due = tonumber(redis.call('ZSCORE', k.blocked, entry_member(entry)) or math.huge)
    if not member or due < earliest then earliest, member = due, entry_member(entry) end
    below = string.byte(entry, 17) == 102 and tonumber(string.sub(entry, 18, 19), 16) + 1 or 1
    spend(k, 4)
  end
  return earliest, member
end

-- After a topic has become fair, or its limits have changed: moves heads that wait into the lines of their groups, then has leases
-- look at all groups. `from` says after which entry of `heads` to continue, behind an 'h', or after which group, behind a 'q'.
-- Returns whether more are left.
local function free_groups(k, from, now)
  while from and has_room(k) do
    if string.byte(from) ~= 113 then
      local after = from == '' and '-' or table.concat({ '(', string.sub(from, 2) })
      local page, members = redis.call('ZRANGEBYLEX', k.heads, after, '+', 'LIMIT', 0, 16), {}
      for i = 1, #page do members[i] = entry_member(page[i]) end
      from = #page == 16 and table.concat({ 'h', page[16] }) or 'q'
      -- There has to be one to ask for.
      members[#page + 1] = ''
      for _, zset in ipairs({ k.delayed, k.delayed_prio, k.ready }) do
        local dues, own = redis.call('ZMSCORE', zset, unpack(members)), redis.call('ZMSCORE', k.turns, unpack(members))
        for i = 1, #page do
          if dues[i] then
            local _, _, _, priority = parse_extra(redis.call('HGET', k.extra, members[i]))
            redis.call('ZREM', zset, members[i])
            redis.call('ZREM', k.heads, page[i])
            redis.call('ZREM', k.turns, members[i])
            local due = tonumber(own[i]) or (zset == k.ready and rank_due(dues[i]) or tonumber(dues[i]))
            enter_line(k, string.sub(page[i], 1, 16), members[i], priority, due, now)
            spend(k, 45)
          end
        end
      end
      spend(k, 40)
    else
      local last, dues, count = string.sub(from, 2), {}, 0
      from = false
      for _ = 1, 64 do
        local after = last == '' and '-' or table.concat({ '(', last, 'g' })
        local entry = redis.call('ZRANGEBYLEX', k.queued, after, '+', 'LIMIT', 0, 1)[1]
        if not entry then break end
        local id = string.sub(entry, 1, 16)
        dues[id], count = now, count + 1
        spend(k, 14)
        -- TTLs that the rate of a strict topic held back begin, whether a lease looks at the group or not.
        local more = order_line(k, id, true, now)
        if not more then last = id end
        if more or count == 64 or not has_room(k) then
          from = table.concat({ 'q', last })
          break
        end
      end
      offer(k, dues, now)
    end
  end
  wake(k.meta, redis.call('HGET', k.meta, 'sleep'), now)
  if not from then
    redis.call('HDEL', k.meta, 'raised')
    return false
  end
  redis.call('HSET', k.meta, 'raised', from)
  return true
end
