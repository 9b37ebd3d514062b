-- A message as answers show it: member, state, at (ms), grants so far, counted grants that are left, its `extra` or '',
-- when its TTL is over (ms, 0: never, or not known), its events, its body ('' if `bodyless`).
local function snapshot(k, member, state, at, extra, topic_max, ttl, bodyless)
  local attempts, counted, max_attempts, _, rest = parse_extra(extra)
  if state == 'leased' then attempts, counted = attempts + 1, counted + 1 end
  if state == 'acked' then attempts, counted = attempts + 1, counted + 1 end
  local left = math.max((tonumber(max_attempts) or topic_max) - counted, 0)
  local over = false
  if state == 'delayed' or state == 'ready' then over = expiry(k, member, rest, at, ttl) end
  return {
    member, state, at, attempts, left, extra or '', over or 0,
    redis.call('HGET', k.events, member) or '', not bodyless and redis.call('HGET', k.messages, member) or '',
  }
end
