-- @include budget
-- @include expire
-- @include group
-- @include remove
-- @include waiting
-- The effects of time on a partition.

-- Drops waiting messages that have outlived the topic's TTL. Those with a TTL of their own are in `expires`. Checks up to
-- `limit` messages. Returns how many it checked, and whether more may be left.
local function sweep_ttl(k, now, limit, ttl)
  local horizon = string.format('%d', now - ttl)
  -- These came back after a grant, so they are due later than when their TTL began.
  local returned = redis.call('ZRANGEBYSCORE', k.first_due, '-inf', horizon, 'LIMIT', 0, math.ceil(limit / 2))
  local seen = note_over(k, now, returned)
  local dropped = seen
  local function look(k, key, from, upto, share, ranked)
    local list = redis.call('ZRANGEBYSCORE', key, from, upto, 'WITHSCORES', 'LIMIT', 0, math.ceil((limit - seen) / share))
    seen = seen + #list / 2
    local members, dues = waiting_of(list, ranked)
    dropped = dropped + drop_expired(k, now, members, dues, ttl)
  end
  if blocked_ttl(k, ttl) then look(k, k.blocked, '-inf', horizon, 2, false) end
  for _, key in ipairs({ k.delayed, k.delayed_prio }) do look(k, key, '-inf', horizon, 2, false) end
  -- In `ready` the first of each priority is its oldest. Each sweep begins with another priority, so that one with many
  -- messages does not hold up the others.
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

-- Ends everything that has expired in the partition, in up to `limit` steps: leases (two steps each), TTLs, retention, idempotency keys.
-- Also moves due messages with a priority to `ready`. Each kind may take half of the steps that are left, so that none
-- waits for ever. Returns whether more may be left.
local function sweep(k, now, limit, rules)
  local ended, _, _, more = end_leases(k, now, math.ceil(limit / 4), rules.ttl)
  local left = limit - 2 * ended
  local share = math.ceil(left / 2)
  local count = promote(now, share, k.delayed_prio, k.ready, k.extra)
  left, more = left - count, more or count == share

  share = math.ceil(left / 2)
  local over = redis.call('ZRANGEBYSCORE', k.expires, '-inf', now, 'LIMIT', 0, share)
  count = note_over(k, now, over)
  left, more = left - count, more or count == share
  if rules.ttl then
    local seen, unseen = sweep_ttl(k, now, math.ceil(left / 2), rules.ttl)
    left, more = left - seen, more or unseen
  end

  share = math.ceil(left / 2)
  local dead = redis.call('ZRANGEBYSCORE', k.dead, '-inf', now - rules.dead_ms, 'LIMIT', 0, share)
  if #dead == 0 then
    local excess = redis.call('ZCARD', k.dead) - rules.dead_max
    if excess > 0 then dead = redis.call('ZRANGE', k.dead, 0, math.min(excess, share) - 1) end
  end
  local gone = freeable(k, dead)
  retire(k, gone)
  left, more = left - #gone, more or #dead == share

  share = math.ceil(left / 2)
  local acked = redis.call('ZRANGEBYSCORE', k.acked, '-inf', string.format('%d', (now - rules.acked_ms) * 2048 + 2047), 'LIMIT', 0, share)
  if #acked > 0 then
    gone = freeable(k, acked)
    if #gone > 0 then
      redis.call('ZREM', k.acked, unpack(gone))
      forget_all(k, gone, redis.call('HMGET', k.extra, unpack(gone)))
    end
    left, more = left - #gone, more or #acked == share
  end
  local surplus, trimmed = trim_acked(k, math.ceil(left / 2))
  left, more = left - trimmed, more or surplus

  local idem = redis.call('ZRANGEBYSCORE', k.idem_due, '-inf', now, 'LIMIT', 0, left)
  if #idem > 0 then
    redis.call('ZREM', k.idem_due, unpack(idem))
    redis.call('HDEL', k.idem, unpack(idem))
    more = more or #idem == left
  end
  local idle = redis.call('ZRANGEBYSCORE', k.rates, 0, string.format('%d', now * 1000 - 50000), 'LIMIT', 0, 64)
  if #idle > 0 then redis.call('ZREM', k.rates, unpack(idle)) end
  return plan_marked(k, now, 0) or not has_room(k) or raise_groups(k, now) or more or #idle == 64 or k.short == true
end

-- The earlier of `earliest` (ms; 0: none) and of `shift` ms after the first score of a set, from `least` on. That score is in
-- 1/scale ms.
local function earlier(earliest, zset, scale, shift, least)
  local first = shift and redis.call('ZRANGEBYSCORE', zset, least or '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if not first then return earliest end
  local moment = math.floor(tonumber(first) / scale) + shift
  return (earliest == 0 or moment < earliest) and moment or earliest
end

-- When the next sweep has something to end (ms; 0: never): a lease, a TTL, a retention, an idempotency key. A death that is
-- to be published to the dead topic counts from its own instant.
local function next_sweep(k, rules)
  local earliest = math.abs(earlier(0, k.dead_out, 1, 0))
  for _, zset in ipairs({ k.unack, k.last }) do earliest = earlier(earliest, zset, 2048, 0) end
  for _, zset in ipairs({ k.expires, k.idem_due }) do earliest = earlier(earliest, zset, 1, 0) end
  earliest = earlier(earliest, k.dead, 1, rules.dead_ms)
  -- Not each by itself: they are only in the way. Leases see to marks.
  earliest = earlier(earliest, k.rates, 1000, 60000, 0)
  earliest = earlier(earliest, k.acked, 2048, rules.acked_ms)
  if not rules.ttl then return earliest end
  for _, zset in ipairs({ k.first_due, k.delayed, k.delayed_prio }) do
    earliest = earlier(earliest, zset, 1, rules.ttl)
  end
  earliest = earlier(earliest, k.blocked, 1, blocked_ttl(k, rules.ttl))
  local first = firsts(k.ready)
  for i = 2, #first, 2 do
    local over = rank_due(first[i]) + rules.ttl
    if earliest == 0 or over < earliest then earliest = over end
  end
  return earliest
end
