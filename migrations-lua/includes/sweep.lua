-- Drops what waits and has outlived the topic's TTL, and looks at up to `limit` messages for it; those with a TTL of their
-- own are others' matter. Returns how many it looked at, and whether more may be left.
local function sweep_ttl(k, now, limit, ttl, budget)
  local horizon = string.format('%d', now - ttl)
  -- Those that came back after a grant: due later than when their time began.
  local returned = redis.call('ZRANGEBYSCORE', k.first_due, '-inf', horizon, 'LIMIT', 0, math.ceil(limit / 2))
  local seen = note_over(k, now, returned, ttl, budget)
  local dropped = seen
  local function look(k, key, from, upto, share, ranked)
    local list = redis.call('ZRANGEBYSCORE', key, from, upto, 'WITHSCORES', 'LIMIT', 0, math.ceil((limit - seen) / share))
    seen = seen + #list / 2
    dropped = dropped + drop_expired(k, now, list, ranked, ttl, budget)
  end
  for _, key in ipairs({ k.delayed, k.delayed_prio }) do look(k, key, '-inf', horizon, 2, false) end
  -- Among the ready the first of each priority is its oldest. Where one has too many to look at, the others' turn comes:
  -- each sweep begins with another.
  local begin = now % 256 * 35184372088832
  for _, part in ipairs({ { begin, math.huge }, { 0, begin } }) do
    local from = part[1]
    while from < part[2] and seen < limit do
      local first = redis.call('ZRANGEBYSCORE', k.ready, string.format('%d', from), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
      if not first then break end
      local lowest = tonumber(first) - rank_due(first)
      if lowest < part[2] then
        look(k, k.ready, string.format('%d', lowest), string.format('%d', lowest + math.max(now - ttl, 0)), 1, true)
      end
      from = lowest + 35184372088832
    end
  end
  return seen, seen >= limit and dropped > 0
end

-- Carries out what time has brought to the partition, by `limit` steps: leases (two steps each), TTLs, retention,
-- idempotency keys; and what has a priority and is due stands with the ready. Each kind may take half of what those before
-- it left, so that none waits for ever. Returns whether more may be left.
local function sweep(k, now, limit, rules)
  local budget = new_budget()
  local ended, _, _, more = end_leases(k, now, math.ceil(limit / 4), rules.ttl, budget)
  local left = limit - 2 * ended
  local share = math.ceil(left / 2)
  local count = promote(now, share, k.delayed_prio, k.ready, k.extra)
  left, more = left - count, more or count == share

  share = math.ceil(left / 2)
  local over = redis.call('ZRANGEBYSCORE', k.expires, '-inf', now, 'LIMIT', 0, share)
  count = note_over(k, now, over, rules.ttl, budget)
  left, more = left - count, more or count == share
  if rules.ttl then
    local seen, unseen = sweep_ttl(k, now, math.ceil(left / 2), rules.ttl, budget)
    left, more = left - seen, more or unseen
  end

  share = math.ceil(left / 2)
  local dead = redis.call('ZRANGEBYSCORE', k.dead, '-inf', now - rules.dead_ms, 'LIMIT', 0, share)
  if #dead == 0 then
    local excess = redis.call('ZCARD', k.dead) - rules.dead_max
    if excess > 0 then dead = redis.call('ZRANGE', k.dead, 0, math.min(excess, share) - 1) end
  end
  local gone = freeable(k, dead, budget)
  drop_all(k, gone, 'expired')
  left, more = left - #gone, more or #dead == share

  share = math.ceil(left / 2)
  local acked = redis.call('ZRANGEBYSCORE', k.acked, '-inf', string.format('%d', (now - rules.acked_ms) * 2048 + 2047), 'LIMIT', 0, share)
  if #acked > 0 then
    gone = freeable(k, acked, budget)
    if #gone > 0 then
      redis.call('ZREM', k.acked, unpack(gone))
      forget_all(k, gone, redis.call('HMGET', k.extra, unpack(gone)))
    end
    left, more = left - #gone, more or #acked == share
  end
  local surplus, trimmed = trim_acked(k, math.ceil(left / 2), budget)
  left, more = left - trimmed, more or surplus

  local idem = redis.call('ZRANGEBYSCORE', k.idem_due, '-inf', now, 'LIMIT', 0, left)
  if #idem > 0 then
    redis.call('ZREM', k.idem_due, unpack(idem))
    redis.call('HDEL', k.idem, unpack(idem))
    more = more or #idem == left
  end
  return more or budget.short
end
