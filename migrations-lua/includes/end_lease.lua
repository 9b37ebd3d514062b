-- When a message was published (ms): the first six bytes of its member.
local function published_at(member)
  local at = 0
  for i = 1, 6 do at = at * 256 + string.byte(member, i) end
  return at
end

-- Ends one lease whose deadline has passed: the message is gone when its time to live is over, dead when its attempts are
-- used up, and otherwise back where it waits, due since the deadline. Returns 'gone', 'dead' or 'back', and the bytes
-- freed of a body; its caller counts the lease. `zset` is where it stands: among the last grants, or not.
local function end_lease(k, member, zset, deadline, now, ttl)
  local attempts, counted, max_attempts, priority, rest = parse_extra(redis.call('HGET', k.extra, member))
  local attempt = attempts + 1
  local meta = redis.call('HMGET', k.meta, 'max_attempts', 'lease_ms')
  local dead = counted + 1 >= (tonumber(max_attempts) or tonumber(meta[1]))
  local over = expiry(k, member, rest, deadline, ttl)
  -- Nothing fails from here on.
  redis.call('ZREM', zset, member)
  -- What died at its deadline has no time to live any more, however late anybody looks.
  if over and over <= (dead and deadline or now) then
    local bytes = redis.call('HSTRLEN', k.messages, member)
    drop_all(k, { member }, 'expired')
    return 'gone', bytes
  end
  local lines = event('x', deadline, attempt, '')
  if attempts == 0 then
    -- Nothing was written at the first grant; the topic's lease tells when it was, unless another was asked for.
    local granted = math.max(deadline - tonumber(meta[2] or 30000), published_at(member))
    lines = table.concat({ event('G', granted, attempt, ''), lines })
  end
  if dead then lines = table.concat({ lines, event('d', deadline, attempt, '') }) end
  redis.call('HSET', k.extra, member, format_extra(attempt, counted + 1, max_attempts, priority, rest))
  add_events(k, member, lines)
  if dead then
    bury(k, member, rest, deadline)
    return 'dead', 0
  end
  place(member, priority, deadline, now, k.delayed, k.delayed_prio, k.ready)
  return 'back', 0
end

-- Ends up to `limit` leases whose deadline has passed. Returns how many ended, how many of them are dead and gone now, and
-- whether more may be left.
local function end_leases(k, now, limit, ttl, budget)
  local over = string.format('%d', now * 2048 + 2047)
  local ended, died, gone = 0, 0, 0
  for _, key in ipairs({ k.unack, k.last }) do
    local list = redis.call('ZRANGEBYSCORE', key, '-inf', over, 'WITHSCORES', 'LIMIT', 0, limit - ended)
    for i = 1, #list, 2 do
      if budget.events <= 0 or budget.bytes <= 0 then break end
      budget.events = room_after(k, list[i], budget.events)
      local deadline = unpack_lease(list[i + 1])
      local became, bytes = end_lease(k, list[i], key, deadline, now, ttl)
      ended, budget.bytes = ended + 1, budget.bytes - bytes
      if became == 'dead' then died = died + 1 end
      if became == 'gone' then gone = gone + 1 end
    end
  end
  if ended > 0 then redis.call('HINCRBY', k.meta, 'lease_expired', ended) end
  return ended, died, gone, ended == limit or budget.events <= 0 or budget.bytes <= 0
end
