-- A message gives up its key, if it still holds it.
local function free_key(k, member, rest)
  local _, _, _, _, key = parse_rest(rest)
  if key ~= '' and redis.call('HGET', k.keys, key) == member then redis.call('HDEL', k.keys, key) end
end

-- Of these messages those whose death is not still to be told of elsewhere.
local function but_untold(k, members)
  if redis.call('EXISTS', k.dead_out) == 0 then return members end
  local free, untold = {}, redis.call('ZMSCORE', k.dead_out, unpack(members))
  for i = 1, #members do
    if not untold[i] then free[#free + 1] = members[i] end
  end
  return free
end

-- As many of these messages, from the first on, as the call's budget lets it forget; the first of a call always.
local function freeable(k, members, budget)
  for i = 1, #members do
    local bytes = redis.call('HSTRLEN', k.messages, members[i])
    if bytes > budget.bytes and budget.freed then
      budget.bytes, budget.short = 0, true
      return { unpack(members, 1, i - 1) }
    end
    budget.bytes, budget.freed = budget.bytes - bytes, true
  end
  return members
end

-- Everything of these messages (at most 256) but their places is gone. `extras` holds their `extra`, by index. What is
-- told of a death outlives the message until then, though it has no place any more: finish_dead forgets it.
local function forget_all(k, members, extras)
  local died = false
  for i = 1, #members do
    if extras[i] then
      died = true
      local _, _, _, _, rest = parse_extra(extras[i])
      free_key(k, members[i], rest)
    end
  end
  redis.call('ZREM', k.expires, unpack(members))
  redis.call('ZREM', k.first_due, unpack(members))
  -- What has died has an `extra`.
  if died then members = but_untold(k, members) end
  if #members == 0 then return end
  redis.call('HDEL', k.messages, unpack(members))
  redis.call('HDEL', k.extra, unpack(members))
  redis.call('HDEL', k.events, unpack(members))
end

-- Messages that wait or are dead (at most 256) leave, and are counted as `total`.
local function drop_all(k, members, total)
  if #members == 0 then return end
  local extras = redis.call('HMGET', k.extra, unpack(members))
  for _, key in ipairs({ k.delayed, k.delayed_prio, k.ready, k.dead }) do redis.call('ZREM', key, unpack(members)) end
  forget_all(k, members, extras)
  redis.call('HINCRBY', k.meta, total, #members)
end

-- Beyond as many acked messages as the topic retains the oldest are forgotten, at most `limit` (256). Returns whether more
-- may be left, and how many there were.
local function trim_acked(k, limit, budget)
  local held = redis.call('ZCARD', k.acked)
  if held == 0 then return false, 0 end
  local excess = held - tonumber(redis.call('HGET', k.meta, 'acked_max') or 100000)
  if excess <= 0 or limit <= 0 then return excess > 0, 0 end
  local oldest = freeable(k, redis.call('ZRANGE', k.acked, 0, math.min(excess, limit) - 1), budget)
  if #oldest == 0 then return true, 0 end
  redis.call('ZREM', k.acked, unpack(oldest))
  forget_all(k, oldest, redis.call('HMGET', k.extra, unpack(oldest)))
  return excess > #oldest, #oldest
end

-- A message dies: no key, no TTL, no place but among the dead; and it is noted where what dies is told of elsewhere.
local function bury(k, member, rest, at)
  free_key(k, member, rest)
  redis.call('ZREM', k.expires, member)
  redis.call('ZREM', k.first_due, member)
  redis.call('ZADD', k.dead, at, member)
  redis.call('HINCRBY', k.meta, 'dead', 1)
  if redis.call('HEXISTS', k.meta, 'dead_topic') == 1 then redis.call('ZADD', k.dead_out, at, member) end
end
