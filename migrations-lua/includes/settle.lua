-- Where one message is in its life, after whatever has happened to it by now: a lease that is over is ended, a TTL or a
-- retention that is over is carried out. Returns 'delayed', 'ready', 'leased', 'dead' or 'acked', the due time, deadline
-- or instant (ms) and its `extra`; or false when there is no such message (any more).
local function settle(k, member, now, rules)
  for _ = 1, 2 do
    local extra = redis.call('HGET', k.extra, member)
    local ended = false
    for _, zset in ipairs({ k.unack, k.last }) do
      local score = redis.call('ZSCORE', zset, member)
      if score then
        local deadline = unpack_lease(score)
        if deadline > now then return 'leased', deadline, extra end
        end_lease(k, member, zset, deadline, now, rules.ttl)
        redis.call('HINCRBY', k.meta, 'lease_expired', 1)
        ended = true
      end
    end
    if not ended then
      local due = tonumber(redis.call('ZSCORE', k.delayed, member) or redis.call('ZSCORE', k.delayed_prio, member))
      if not due then
        local score = redis.call('ZSCORE', k.ready, member)
        due = score and rank_due(score)
      end
      if due then
        local _, _, _, _, rest = parse_extra(extra)
        local over = expiry(k, member, rest, due, rules.ttl)
        if over and over <= now then
          drop_all(k, { member }, 'expired')
          return false
        end
        return due > now and 'delayed' or 'ready', due, extra
      end
      local died = tonumber(redis.call('ZSCORE', k.dead, member))
      if died then
        if died + rules.dead_ms <= now then
          drop_all(k, { member }, 'expired')
          return false
        end
        return 'dead', died, extra
      end
      local score = redis.call('ZSCORE', k.acked, member)
      if not score then return false end
      local acked = unpack_lease(score)
      if acked + rules.acked_ms <= now then
        redis.call('ZREM', k.acked, member)
        forget_all(k, { member }, { extra })
        return false
      end
      return 'acked', acked, extra
    end
  end
  return false
end
