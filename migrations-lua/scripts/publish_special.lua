-- @include budget
-- @include entry
-- @include expire
-- @include fair
-- @include grant
-- @include group
-- @include message
-- @include partition
-- @include room
-- @include sweep
-- @include time
-- @include waiting
-- publish_special: store messages with a priority, a key, a policy, a group or an idempotency key of their own, or that a
-- full topic may refuse. They are stored one after another, so that each sees the effects of those before it.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] n: messages, at most 64, no key twice
-- ARGV[3] large: 1 if a body is above 1 KiB, so that leases check sizes from now on; as they do once an extra is above 512 bytes
-- ARGV[4..] for each message member, delay in ms ('@' before an instant), body, priority, ttl ms or '', key or '',
--   on_duplicate ('copy' for a dead letter, which the topic's limit does not refuse; a number: debounced, due no later than so
--   many ms after its first publish; 'throttle': the idempotency key names what is throttled), extra or '', idempotency key or
--   '', its fingerprint, how long it answers, ms, group or ''. In a group the extra ends before the message's order
-- returns: {now, wake 0|1, messages that expired, then for each code, member, state, due or deadline}: code 0 stored,
--   1 a message answers for it, 2 replaced, 3 duplicate_key, 4 message_leased, 5 idempotency_key_reused, 6 topic_full,
--   7 not looked at, because there is too much to write or to free, 8 the message has another group, 9 the message of an
--   earlier publish with this idempotency key, in its present state ('gone' if it is no more), with the due time that was
--   answered first or 0; or 'STALE'
-- cost: 2 HMGET, TIME, HSET, up to 7 writes a group; 2 to 13 calls for each message that meets another of its key or has
--   an idempotency key, and as many for the message that a repeated key names; 3 more for each that takes the key of a leased one; 8 more for each if the topic has a limit; if it is full, a sweep of 32 steps, a range for
--   each priority among the ready and a few calls for each of 40 to 72 messages that are dropped; an HSTRLEN for each that leaves where bodies are large; 4 to 6
--   for each group, and 2 for each of its heads if it has a rate; an HGET for each that is dropped where there are groups
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'sleep', 'large', 'rules', 'max_attempts', 'bytes')
if meta[1] ~= ARGV[1] then return 'STALE' end
-- At maxmemory Redis refuses this first write, and with it the whole group.
local probe = redis.pcall('HSET', k.meta, 'topic', ARGV[1])
if type(probe) == 'table' and probe.err then return probe end
local now, up = now_ms()
local rules = parse_rules(meta[4])
local n = tonumber(ARGV[2])
local published, replaced, expired, earliest, swept, room = 0, 0, 0, math.huge, false, nil
local large = ARGV[3] == '1'
-- The functions that choose what a full topic drops: see `queue_of`.
local doom_oldest, drop_doomed, note_waiting, forget
-- The drops beyond one per message, so that a topic shrinks to a lowered limit step by step.
local more_drops = math.max(40 - n, 8)
local reply = { now, 0, 0 }

-- No key occurs twice in the call, so one HMGET reads all holders.
local wanted = {}
for i = 1, n do wanted[i] = ARGV[12 * i - 3] end
local holders = redis.call('HMGET', k.keys, unpack(wanted))
-- New messages are written together at the end, or before something counts or drops them.
local lists = {}
-- Each group of the call: its ID, and how many heads it has; `line_of` says what else. `members` holds the ID for each of
-- their new messages, `doomed` for each ID how many messages of it are to be dropped and still there.
local groups, orders, most, interval, fair = {}, false, nil, nil, false
-- In a fair topic: when a message of a group is due first, by the group's ID.
local dues = {}
local grouped, members, doomed = false, {}, {}
local function flush()
  if meta[6] and lists[k.messages] then weigh(k, lists[k.messages]) end
  write_lists(k, lists)
  if next(dues) then offer(k, dues, now) end
  if drop_doomed then drop_doomed() end
  lists, groups, doomed, dues = {}, {}, {}, {}
end

-- Adds a group of the call: its ID, how many heads it has, how many messages behind them (0 if that makes no difference),
-- and whether a new message has to wait in any case.
local function line_of(group)
  local id = group_id(group)
  local most, interval, burst = rules_of(k, id)
  -- To look for the only one costs a third of counting it. A lowered concurrency leaves more, which may be dropped.
  local from, upto = bounds_of(id)
  local heads = (most > 1 or rules.drops_oldest) and entries_of(k.heads, id) or #redis.call('ZRANGEBYLEX', k.heads, from, upto, 'LIMIT', 0, 1)
  -- A new message waits, however many do, unless the call drops some of them.
  local behind = (heads < most or rules.drops_oldest) and entries_of(k.queued, id) or 0
  local its = { id, heads, behind, heads < most and behind > 0 or most == 0, most, interval, burst }
  groups[group] = its
  return its
end

-- Counts a message that is to be dropped. Its group's next message does not wait for it.
local function count_doomed(member)
  local id = members[member]
  if not id then
    local _, _, _, _, rest = parse_extra(redis.call('HGET', k.extra, member))
    id = entry_of(member, rest)
  end
  if id then doomed[id] = (doomed[id] or 0) + 1 end
end

-- Gives a message its place in the line of its group, in a fair topic.
local function line_up_fair(id, member, priority, due)
  add_to(lists, k.queued, '0', fair_entry(id, priority, due, member))
  dues[id] = math.min(dues[id] or due, due)
end

-- Gives a new message its place in its group. Returns its order, its due time, and whether it is blocked.
local function join(member, group, priority, due)
  orders = orders or next_orders(k, n)
  orders = orders + 1
  local order = string.format('%012x', orders)
  if fair then
    line_up_fair(group_id(group), member, priority, due)
    return order, due, false
  end
  local its = groups[group] or line_of(group)
  local entry = table.concat({ its[1], order, member })
  members[member] = its[1]
  local waits = its[4] or its[2] + its[3] - (doomed[its[1]] or 0) >= its[5]
  if not waits and its[3] > 0 then
    -- Those before it go first.
    flush()
    its = line_of(group)
    waits = its[2] + its[3] >= its[5]
  end
  if waits then
    its[3] = its[3] + 1
    add_to(lists, k.queued, '0', entry)
    return order, due, true
  end
  its[2] = its[2] + 1
  add_to(lists, k.heads, '0', entry)
  return order, head_due(k, its[1], member, now, due, its[6], its[7]), false
end

-- Notes a message for what a full topic drops: what is blocked has no priority there.
local function note(member, at, priority, is_blocked)
  if note_waiting then note_waiting(member, at, is_blocked and 1 or priority, is_blocked or at > now) end
end

-- Brings a message that answers up to date. Returns its state, due time and `extra`, as `settle` does, and whether it waits.
local function meet(member)
  spend_on(k, member)
  local where, when, known = settle(k, member, now, rules)
  local waits = where == 'delayed' or where == 'ready' or where == 'blocked'
  if not waits and where ~= 'leased' then
    room = nil
    -- A message that `settle` dropped does not make room a second time.
    if forget then forget(member) end
  end
  return where, when, known, waits
end

for i = 1, n do
  local at = 12 * i - 9
  local member, body, priority, ttl = ARGV[at + 1], ARGV[at + 3], tonumber(ARGV[at + 4]), ARGV[at + 5]
  local key, on_duplicate, extra, idem, fingerprint = ARGV[at + 6], ARGV[at + 7], ARGV[at + 8], ARGV[at + 9], ARGV[at + 10]
  local group, waits = ARGV[at + 12], false
  local max_wait, throttled = tonumber(on_duplicate), on_duplicate == 'throttle'
  if group ~= '' and not most then
    local _, order
    most, interval, _, order = group_rules(k)
    fair = order == '1'
    if fair then interval = nil end
  end
  local due = due_at(ARGV[at + 2], now, up)
  if max_wait then due = math.min(due, up + max_wait) end
  local holder = key ~= '' and holders[i]
  local code, state, repeated, begins, begun, trails
  if not has_room(k) then code, state, due = 7, '', 0 end

  local first = not code and idem ~= '' and redis.call('HGET', k.idem, idem)
  if first then
    local until_ms, before, word, when, answered = string.match(first, '^(%d+),(%x+),(%a+),(%d+),(.*)$')
    if throttled then
      -- Within an interval, one message waits for its end, and stays the only one until it is granted.
      if tonumber(until_ms) > now then
        begun, trails = tonumber(when), before == '1'
        due, holder = begun > now and begun or tonumber(until_ms), trails and answered
      end
    elseif tonumber(until_ms) > now then
      repeated = true
      if before == fingerprint then
        -- What this call has changed, or is about to drop, has its place by then.
        flush()
        code, due, member = 9, word == 'leased' and 0 or tonumber(when), answered
        local where, since, known, waits_now = meet(answered)
        state = where or 'gone'
        local _, _, _, its_priority = parse_extra(known)
        if waits_now then note(answered, since, its_priority, where == 'blocked') end
      else
        code, state, due = 5, '', 0
      end
    end
  end

  if holder and not code then
    -- What this lets go has its place by then.
    if drop_doomed or next(groups) or lists[k.blocked] then flush() end
    local where, when, known, waiting_now = meet(holder)
    local attempts, counted, _, its_priority, its_rest = parse_extra(known)
    local _, _, _, its_hold, _, its_group, its_order = parse_rest(its_rest)
    if throttled and (where == 'leased' or attempts > 0) or where == 'leased' and max_wait and its_hold == 'g' then
      -- It has been granted, so a new message begins.
      grant_key(k, holder, known, its_rest)
    elseif waiting_now or where == 'leased' then
      if on_duplicate == 'return' then
        code, state, due, member = 1, where, when, holder
      elseif on_duplicate == 'reject' then
        code, state, due = 3, '', 0
      elseif where == 'leased' then
        code, state, due = 4, '', 0
      elseif its_group ~= group then
        code, state, due = 8, '', 0
      else
        if max_wait then due = math.min(due, published_at(holder) + max_wait) end
        if throttled then
          begins = math.max(begun, now)
          due = math.min(begins, when)
        end
        if group ~= '' then extra = table.concat({ extra, its_order, ',', group, key }) end
        waits = where == 'blocked'
        step_out(k, holder, group, its_order)
        local id = group ~= '' and group_id(group)
        if id and fair then
          redis.call('ZREM', k.heads, table.concat({ id, its_order, holder }))
          line_up_fair(id, holder, priority, due)
        elseif waits then
          add_to(lists, k.queued, '0', table.concat({ id, its_order, holder }))
        end
        local _, _, max_attempts, _, rest = parse_extra(extra)
        for _, zset in ipairs({ k.delayed, k.delayed_prio, k.ready }) do redis.call('ZREM', zset, holder) end
        redis.call('ZREM', k.expires, holder)
        redis.call('ZREM', k.first_due, holder)
        redis.call('HSET', k.extra, holder, format_extra(attempts, counted, max_attempts, priority, rest))
        add_change(k, holder, up, true)
        code, state, member = 2, waits and 'blocked' or (due > now and 'delayed' or 'ready'), holder
        -- It may have failed more often than is allowed now, so leases check that from now on.
        if is_spent(counted, max_attempts, tonumber(meta[5])) then redis.call('HSET', k.meta, 'lowered', '1') end
        replaced = replaced + 1
      end
    end
    -- Its due time has changed, or it waits again.
    if waiting_now then note(holder, code == 2 and due or when, code == 2 and priority or its_priority, where == 'blocked' or (fair and group ~= '')) end
  end

  -- Where the interval of a new message begins, whatever a group makes of it.
  if throttled and not begins then begins, trails = due, due > now end

  if on_duplicate == 'copy' then
    -- The next message counts again.
    room = nil
  elseif not code and rules.max_messages then
    if not room then flush() end
    room = room or rules.max_messages - count_live(k, now, swept)
    if room <= 0 and not swept then
      flush()
      sweep(k, now, 32, rules)
      swept, room = true, rules.max_messages - count_live(k, now, true)
    end
    local drops = 0
    if room <= 0 and rules.drops_oldest then
      if not doom_oldest then
        -- Write the messages of this call first, so that the queue has them.
        flush()
        doom_oldest, drop_doomed, note_waiting, forget = queue_of(k)
        grouped = redis.call('EXISTS', k.heads) == 1
      end
      while room <= 0 and (drops == 0 or (more_drops > 0 and has_room(k))) do
        local oldest = doom_oldest()
        if not oldest then break end
        if drops > 0 then more_drops = more_drops - 1 end
        room, drops, expired = room + 1, drops + 1, expired + 1
        if grouped or members[oldest] then count_doomed(oldest) end
        spend_on(k, oldest)
      end
    end
    -- A message that made room with a drop is stored.
    if room <= 0 and drops == 0 then
      code, state, due = 6, '', 0
    else
      room = room - 1
    end
  end

  if not code then
    if group ~= '' then
      local order
      order, due, waits = join(member, group, priority, due)
      extra = table.concat({ extra, order, ',', group, key })
    end
    code, state = 0, waits and 'blocked' or (due > now and 'delayed' or 'ready')
    published = published + 1
    if extra ~= '' then add_to(lists, k.extra, member, extra) end
    large = large or #extra > 512
    if key ~= '' then add_to(lists, k.keys, key, member) end
  end
  if code == 0 or code == 2 then
    add_to(lists, k.messages, member, body)
    if waits or (fair and group ~= '') then
      add_to(lists, k.blocked, due, member)
    else
      line_up(k, lists, member, priority, due, now)
    end
    -- A debounced message may have been due before. Its TTL begins again, as after any replace.
    if ttl ~= '' then
      add_to(lists, k.expires, int(waits and interval and NEVER or math.max(due, now) + tonumber(ttl)), member)
    elseif due < now and rules.ttl and not (waits and interval) then
      add_to(lists, k.first_due, int(now), member)
    end
    if code == 2 and group ~= '' and not (waits or fair) then
      flush()
      if redis.call('ZSCORE', k.turns, member) then redis.call('ZADD', k.turns, due, member) end
      due = plan(k, group_id(group), now, member) or due
      state = due > now and 'delayed' or 'ready'
    end
    if due < earliest and not waits then earliest = due end
    if code == 0 then note(member, due, priority, waits or (fair and group ~= '')) end
  end
  if idem ~= '' and code <= 2 and not repeated then
    if throttled then fingerprint = trails and '1' or '0' end
    local over = int((begins or up) + tonumber(ARGV[at + 11]))
    redis.call('HSET', k.idem, idem, table.concat({ over, ',', fingerprint, ',', state, ',', int(begins or due), ',', member }))
    redis.call('ZADD', k.idem_due, over, idem)
  end
  reply[4 * i], reply[4 * i + 1], reply[4 * i + 2], reply[4 * i + 3] = code, member, state, due
end

flush()
if published > 0 then redis.call('HINCRBY', k.meta, 'published', published) end
if replaced > 0 then redis.call('HINCRBY', k.meta, 'replaced', replaced) end
if large and not meta[3] then redis.call('HSET', k.meta, 'large', '1') end
reply[2], reply[3] = wake(k.meta, meta[2], earliest), expired
return reply
