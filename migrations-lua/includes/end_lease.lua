-- Ends one lease whose deadline has passed: back to where the message waits, due since the deadline; dead when the
-- grant was the last; gone when its time to live is over. Returns 'back', 'dead' or 'gone'; its caller counts the lease.
local function end_lease(k, member, final, deadline, now, ttl)
  local attempts, counted, max_attempts, priority, rest = parse_extra(redis.call('HGET', k.extra, member))
  local attempt = attempts + 1
  redis.call('ZREM', final and k.last or k.unack, member)
  if not final then
    local over = expiry(k, member, rest, deadline, ttl)
    if over and over <= now then
      drop_all(k, { member }, 'expired')
      return 'gone'
    end
  end
  local lines = event('x', deadline, attempt, '')
  if attempts == 0 then
    -- Nothing was written at the first grant; the topic's lease tells when it was, unless another was asked for.
    local lease_ms = tonumber(redis.call('HGET', k.meta, 'lease_ms') or 30000)
    lines = table.concat({ event('G', deadline - lease_ms, attempt, ''), lines })
  end
  if final then lines = table.concat({ lines, event('d', deadline, attempt, '') }) end
  redis.call('HSET', k.extra, member, format_extra(attempt, counted + 1, max_attempts, priority, rest))
  add_events(k, member, lines)
  if final then
    bury(k, member, rest, deadline)
    return 'dead'
  end
  place(member, priority, deadline, now, k.delayed, k.delayed_prio, k.ready)
  return 'back'
end

-- Ends up to `limit` leases of each kind whose deadline has passed. Returns how many ended, how many of them are dead
-- and gone now, and whether more may be left.
local function end_leases(k, now, limit, ttl)
  local over = string.format('%d', now * 2048 + 2047)
  local ended, died, gone, more = 0, 0, 0, false
  for which, key in ipairs({ k.unack, k.last }) do
    local list = redis.call('ZRANGEBYSCORE', key, '-inf', over, 'WITHSCORES', 'LIMIT', 0, limit)
    for i = 1, #list, 2 do
      local became = end_lease(k, list[i], which == 2, unpack_lease(list[i + 1]), now, ttl)
      ended = ended + 1
      if became == 'dead' then died = died + 1 end
      if became == 'gone' then gone = gone + 1 end
    end
    more = more or #list == 2 * limit
  end
  if ended > 0 then redis.call('HINCRBY', k.meta, 'lease_expired', ended) end
  return ended, died, gone, more
end
