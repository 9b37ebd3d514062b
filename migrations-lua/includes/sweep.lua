-- Drops up to `limit` messages that wait and have outlived the topic's TTL; the own TTL of a message is looked at too.
-- Returns whether more may be left.
local function sweep_ttl(k, now, limit, ttl)
  local horizon = string.format('%d', now - ttl)
  local more = false
  for _, key in ipairs({ k.delayed, k.delayed_prio }) do
    local list = redis.call('ZRANGEBYSCORE', key, '-inf', horizon, 'WITHSCORES', 'LIMIT', 0, limit)
    more = drop_expired(k, now, list, false, ttl) == limit or more
  end
  -- Among the ready the first of each priority is its oldest.
  local from = '-inf'
  repeat
    local first = redis.call('ZRANGEBYSCORE', k.ready, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if first then
      local lowest = tonumber(first) - rank_due(first)
      local upto = string.format('%d', lowest + math.max(now - ttl, 0))
      local list = redis.call('ZRANGEBYSCORE', k.ready, from, upto, 'WITHSCORES', 'LIMIT', 0, limit)
      more = drop_expired(k, now, list, true, ttl) == limit or more
      from = string.format('%d', lowest + 35184372088832)
    end
  until not first
  -- Those that came back after a grant: due later than when their time began.
  local returned = redis.call('ZRANGEBYSCORE', k.first_due, '-inf', horizon, 'LIMIT', 0, limit)
  more = note_over(k, now, returned, ttl) == limit or more
  return more
end

-- Carries out what time has brought to the partition, up to `limit` messages of each kind: leases, TTLs, retention,
-- idempotency keys; and what has a priority and is due stands with the ready. Returns whether more may be left.
local function sweep(k, now, limit, rules)
  local _, _, _, more = end_leases(k, now, limit, rules.ttl)
  more = promote(now, limit, k.delayed_prio, k.ready, k.extra) or more
  local over = redis.call('ZRANGEBYSCORE', k.expires, '-inf', now, 'LIMIT', 0, limit)
  more = note_over(k, now, over, rules.ttl) == limit or more
  if rules.ttl then more = sweep_ttl(k, now, limit, rules.ttl) or more end

  local dead = redis.call('ZRANGEBYSCORE', k.dead, '-inf', now - rules.dead_ms, 'LIMIT', 0, limit)
  if #dead == 0 then
    local excess = redis.call('ZCARD', k.dead) - rules.dead_max
    if excess > 0 then dead = redis.call('ZRANGE', k.dead, 0, math.min(excess, limit) - 1) end
  end
  drop_all(k, dead, 'expired')
  more = more or #dead == limit

  local acked = redis.call('ZRANGEBYSCORE', k.acked, '-inf', string.format('%d', (now - rules.acked_ms) * 2048 + 2047), 'LIMIT', 0, limit)
  if #acked > 0 then
    redis.call('ZREM', k.acked, unpack(acked))
    forget_all(k, acked, redis.call('HMGET', k.extra, unpack(acked)))
    more = more or #acked == limit
  end
  more = trim_acked(k, limit) or more

  local idem = redis.call('ZRANGEBYSCORE', k.idem_due, '-inf', now, 'LIMIT', 0, limit)
  if #idem > 0 then
    redis.call('ZREM', k.idem_due, unpack(idem))
    redis.call('HDEL', k.idem, unpack(idem))
    more = more or #idem == limit
  end
  return more
end
