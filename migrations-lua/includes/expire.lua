-- @include budget
-- @include entry
-- @include fair
-- @include group
-- @include lease
-- @include message
-- @include remove
-- @include waiting
-- The effects of time on a message: its lease, its TTL or its retention ends.

-- Ends a lease whose deadline has passed. The message is gone if its TTL has ended, dead if its attempts are used up, and
-- otherwise waits again, due since the deadline. Returns 'gone', 'dead' or 'back'.
-- The caller counts the lease. `zset` is the set that holds it: `unack` or `last`.
local function end_lease(k, member, zset, deadline, now, ttl)
  local attempts, counted, max_attempts, priority, rest = parse_extra(redis.call('HGET', k.extra, member))
  local attempt = attempts + 1
  local dead = counted + 1 >= (tonumber(max_attempts) or tonumber(redis.call('HGET', k.meta, 'max_attempts')))
  local over = expiry(k, member, rest, deadline, ttl)
  -- Nothing fails from here on.
  redis.call('ZREM', zset, member)
  -- A message that died at its deadline has no TTL after that, even if this runs later.
  if over and over <= (dead and deadline or now) then
    drop_all(k, { member }, 'expired')
    return 'gone'
  end
  local lines = event('x', deadline, attempt, '')
  if attempts == 0 then
    -- The first grant wrote no event.
    lines = table.concat({ event('G', granted_by(k, member, deadline), attempt, ''), lines })
  end
  if dead then lines = table.concat({ lines, event('d', deadline, attempt, '') }) end
  redis.call('HSET', k.extra, member, format_extra(attempt, counted + 1, max_attempts, priority, rest))
  add_events(k, member, lines)
  if dead then
    bury(k, member, rest, deadline)
    return 'dead'
  end
  local _, _, _, _, _, group, order = parse_rest(rest)
  wait_again(k, member, priority, deadline, now, group, order)
  return 'back'
end

-- Ends up to `limit` leases whose deadline has passed. Returns how many ended, how many of their messages died, how many
-- are gone, and whether more may be left.
local function end_leases(k, now, limit, ttl)
  local over = string.format('%d', now * 2048 + 2047)
  local ended, died, gone = 0, 0, 0
  for _, key in ipairs({ k.unack, k.last }) do
    local list = redis.call('ZRANGEBYSCORE', key, '-inf', over, 'WITHSCORES', 'LIMIT', 0, limit - ended)
    for i = 1, #list, 2 do
      if not has_room(k) then break end
      spend_on(k, list[i])
      local became = end_lease(k, list[i], key, unpack_lease(list[i + 1]), now, ttl)
      ended = ended + 1
      if became == 'dead' then died = died + 1 end
      if became == 'gone' then gone = gone + 1 end
    end
  end
  if ended > 0 then redis.call('HINCRBY', k.meta, 'lease_expired', ended) end
  return ended, died, gone, ended == limit or not has_room(k)
end

-- Drops those of these waiting messages, with their due times, whose TTL has ended. Returns how many it dropped.
-- `k.short` says whether any are left.
local function drop_expired(k, now, members, dues, ttl)
  if #members == 0 or k.short then return 0 end
  local over, extras = {}, redis.call('HMGET', k.extra, unpack(members))
  for i = 1, #members do
    local _, _, _, _, rest = parse_extra(extras[i])
    local expires = expiry(k, members[i], rest, dues[i], ttl)
    if expires and expires <= now then over[#over + 1] = members[i] end
  end
  over = freeable(k, over)
  drop_all(k, over, 'expired')
  return #over
end

-- Carries out the end of the TTL of these messages. Those that wait are dropped. Those that are leased get a note, and are
-- dropped when their lease ends. Returns how many messages there were.
local function note_over(k, now, members)
  if #members == 0 or k.short then return 0 end
  local extras = redis.call('HMGET', k.extra, unpack(members))
  local leased, last = redis.call('ZMSCORE', k.unack, unpack(members)), redis.call('ZMSCORE', k.last, unpack(members))
  local gone = {}
  for i = 1, #members do
    local attempts, counted, max_attempts, priority, rest = parse_extra(extras[i])
    if leased[i] or last[i] then
      local flags, own, policy, hold, key, group, order = parse_rest(rest)
      rest = format_rest(with_over(flags, true), own, policy, hold, key, group, order)
      redis.call('HSET', k.extra, members[i], format_extra(attempts, counted, max_attempts, priority, rest))
      redis.call('ZREM', k.expires, members[i])
      redis.call('ZREM', k.first_due, members[i])
    else
      gone[#gone + 1] = members[i]
    end
  end
  -- The next call drops those for which this one has no room.
  drop_all(k, freeable(k, gone), 'expired')
  return #members
end

-- Returns whether a message has used up its attempts. A waiting one has if max_attempts was lowered since it last failed.
local function is_spent(counted, max_attempts, topic_max)
  return counted > 0 and counted >= (tonumber(max_attempts) or topic_max)
end

-- Buries those of the first `most` of these waiting messages that have used up their attempts. Returns how many it buried.
-- `k.short` says whether any are left.
local function bury_spent(k, at, members, most, topic_max)
  if #members == 0 then return 0 end
  local died, extras = 0, redis.call('HMGET', k.extra, unpack(members))
  for i = 1, math.min(#members, most) do
    local attempts, counted, max_attempts, _, rest = parse_extra(extras[i])
    if is_spent(counted, max_attempts, topic_max) then
      if not has_room(k) then
        k.short = true
        break
      end
      spend(k, 20)
      spend_on(k, members[i])
      for _, zset in ipairs({ k.delayed, k.delayed_prio, k.ready }) do redis.call('ZREM', zset, members[i]) end
      add_events(k, members[i], event('d', at, attempts, ''))
      bury(k, members[i], rest, at)
      died = died + 1
    end
  end
  return died
end

-- Brings a message up to date: ends its lease, and carries out the end of its TTL or retention. Returns its state
-- ('delayed', 'ready', 'blocked', 'leased', 'dead' or 'acked'), the due time, deadline or instant of that (ms), and its `extra`.
-- Returns false if the message does not exist, or ends here.
local function settle(k, member, now, rules)
  local extra, number, score = redis.call('HGET', k.extra, member), unpack(stands_of(k, { member })[1])
  if not number then return false end
  -- In a fair topic nothing is blocked.
  if number == 6 and is_fair(k) then number = 5 end
  local state, at = state_in(number, score, now)
  if state == 'leased' then
    if at > now then return state, at, extra end
    end_lease(k, member, number == 1 and k.unack or k.last, at, now, rules.ttl)
    redis.call('HINCRBY', k.meta, 'lease_expired', 1)
    return settle(k, member, now, rules)
  elseif state == 'dead' then
    if at + rules.dead_ms <= now then
      retire(k, { member })
      return false
    end
  elseif state == 'acked' then
    if at + rules.acked_ms <= now then
      redis.call('ZREM', k.acked, member)
      forget_all(k, { member }, { extra })
      return false
    end
  else
    local _, _, _, _, rest = parse_extra(extra)
    local ttl = rules.ttl
    if state == 'blocked' then ttl = blocked_ttl(k, ttl) end
    local over = expiry(k, member, rest, at, ttl)
    if over and over <= now then
      drop_all(k, { member }, 'expired')
      return false
    end
  end
  return state, at, extra
end

-- Makes a dead message live again, due at `due`, with all its attempts and its whole TTL, and as the last of its group.
-- Returns its new `extra`, or false if another live message holds its key; its due time; and whether it is blocked.
local function revive(k, member, due, now, up, extra, rules)
  local attempts, _, max_attempts, priority, rest = parse_extra(extra)
  local flags, ttl, policy, hold, key, group, order = parse_rest(rest)
  local blocked = false
  if key ~= '' and hold ~= 'f' then
    local holder = redis.call('HGET', k.keys, key)
    if holder and holder ~= member then
      spend_on(k, holder)
      local state = settle(k, holder, now, rules)
      if state and state ~= 'dead' and state ~= 'acked' then return false end
    end
    redis.call('HSET', k.keys, key, member)
  end
  redis.call('ZREM', k.dead, member)
  local begins = true
  if group ~= '' then
    local head, rated
    order, head, rated = join_group(k, member, group, due)
    due, blocked, begins = head or due, not head, head or not rated
  end
  if ttl ~= '' then redis.call('ZADD', k.expires, begins and string.format('%d', due + tonumber(ttl)) or NEVER, member) end
  local fresh = format_extra(attempts, 0, max_attempts, priority, format_rest(with_over(flags), ttl, policy, hold, key, group, order))
  redis.call('HSET', k.extra, member, fresh)
  if not blocked then wait_again(k, member, priority, due, now, group, order) end
  add_events(k, member, event('v', up, 0, ''))
  return fresh, due, blocked
end
