-- @include budget
-- @include group
-- @include message
-- Removal and death of messages.

-- Frees the key of a message if the message still holds it.
local function free_key(k, member, key)
  if key ~= '' and redis.call('HGET', k.keys, key) == member then redis.call('HDEL', k.keys, key) end
end

-- Frees the keys of messages that are done, and takes them out of their groups. `extras` holds their `extra`, by index.
-- Returns whether any of them has one.
local function let_names_go(k, members, extras)
  local any, groups, orders = false, {}, {}
  for i = 1, #members do
    if extras[i] then
      any = true
      local _, _, _, _, rest = parse_extra(extras[i])
      local _, _, _, _, key, group, order = parse_rest(rest)
      free_key(k, members[i], key)
      groups[i], orders[i] = group, order
    end
  end
  if any then leave_groups(k, members, groups, orders) end
  return any
end

-- Returns those of these messages that have no end left to publish: no death to a dead topic, and no completion.
local function but_untold(k, members)
  if #members == 0 or redis.call('EXISTS', k.dead_out) == 0 then return members end
  local free, entries = {}, {}
  for i = 1, #members do
    local n, member = 3 * i, members[i]
    entries[n - 2], entries[n - 1], entries[n] = member, member .. 'a', member .. 'd'
  end
  local untold = redis.call('ZMSCORE', k.dead_out, unpack(entries))
  for i = 1, #members do
    if not (untold[3 * i - 2] or untold[3 * i - 1] or untold[3 * i]) then free[#free + 1] = members[i] end
  end
  return free
end

-- Whether this end of a message is to be published as a completion: 'a' its ack, 'd' its death.
local function is_reported(rest, letter)
  return string.find(parse_rest(rest), letter, 1, true) ~= nil
end

-- Deletes all that is stored of these messages, whose names are free.
local function erase(k, members)
  if #members == 0 then return end
  weigh(k, members, true)
  redis.call('HDEL', k.messages, unpack(members))
  redis.call('HDEL', k.extra, unpack(members))
  if redis.call('EXISTS', k.events) == 1 then redis.call('HDEL', k.events, unpack(members)) end
end

-- Deletes these messages (at most 256), which are no longer in any set. `extras` holds their `extra`, by index. A message
-- whose end is still to be published keeps its data until finish_dead deletes it.
local function forget_all(k, members, extras)
  local died = let_names_go(k, members, extras)
  redis.call('ZREM', k.expires, unpack(members))
  redis.call('ZREM', k.first_due, unpack(members))
  -- A message that died has an `extra`, and so has one whose ends are published.
  if died then members = but_untold(k, members) end
  erase(k, members)
end

-- Removes messages that wait or are dead (at most 256), and adds them to the total of this name.
local function drop_all(k, members, total)
  if #members == 0 then return end
  local extras = redis.call('HMGET', k.extra, unpack(members))
  for _, key in ipairs({ k.delayed, k.delayed_prio, k.ready, k.dead }) do redis.call('ZREM', key, unpack(members)) end
  forget_all(k, members, extras)
  if k.blocked then redis.call('ZREM', k.blocked, unpack(members)) end
  redis.call('HINCRBY', k.meta, total, #members)
end

-- Drops dead messages (at most 256) whose retention has ended. A death that is still to be published keeps half a ms as a mark:
-- such a message still moves to the dead topic, unlike one that was deleted.
local function retire(k, members)
  if #members == 0 then return end
  if redis.call('EXISTS', k.dead_out) == 1 then
    local untold = redis.call('ZMSCORE', k.dead_out, unpack(members))
    for i = 1, #members do
      if untold[i] then redis.call('ZADD', k.dead_out, tonumber(untold[i]) + 0.5, members[i]) end
    end
  end
  drop_all(k, members, 'expired')
end

-- Deletes the oldest acked messages beyond the topic's `acked_max`, at most `limit` (256). Returns whether more may be
-- left, and how many it deleted.
local function trim_acked(k, limit)
  local held = redis.call('ZCARD', k.acked)
  if held == 0 then return false, 0 end
  local excess = held - tonumber(redis.call('HGET', k.meta, 'acked_max') or 100000)
  if excess <= 0 or limit <= 0 then return excess > 0, 0 end
  local oldest = freeable(k, redis.call('ZRANGE', k.acked, 0, math.min(excess, limit) - 1))
  if #oldest == 0 then return true, 0 end
  redis.call('ZREM', k.acked, unpack(oldest))
  forget_all(k, oldest, redis.call('HMGET', k.extra, unpack(oldest)))
  return excess > #oldest, #oldest
end

-- Adds a message that is in no other set to the dead ones. It loses its key and TTL. If the topic has a dead topic, or the
-- message asks for it, its death is recorded to be published.
local function bury(k, member, rest, at)
  local _, _, _, _, key, group, order = parse_rest(rest)
  free_key(k, member, key)
  redis.call('ZREM', k.expires, member)
  redis.call('ZREM', k.first_due, member)
  redis.call('ZADD', k.dead, at, member)
  redis.call('HINCRBY', k.meta, 'dead', 1)
  if redis.call('HEXISTS', k.meta, 'dead_topic') == 1 then redis.call('ZADD', k.dead_out, at, member) end
  if is_reported(rest, 'd') then redis.call('ZADD', k.dead_out, at, member .. 'd') end
  leave_groups(k, { member }, { group }, { order })
end
