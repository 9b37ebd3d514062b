-- The earlier of two moments (ms; 0: none): `earliest`, and `shift` after the first score of a set, whose unit is 1/scale ms.
local function earlier(earliest, zset, scale, shift)
  local first = shift and redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2]
  if not first then return earliest end
  local moment = math.floor(tonumber(first) / scale) + shift
  return (earliest == 0 or moment < earliest) and moment or earliest
end

-- When time next brings something to a partition that nobody need ask for (ms): a lease, a TTL or a retention is over,
-- or an idempotency key; 0 when nothing will. A death that is to be told of elsewhere is at its own instant.
local function next_sweep(k, rules)
  local earliest = earlier(0, k.dead_out, 1, 0)
  for _, zset in ipairs({ k.unack, k.last }) do earliest = earlier(earliest, zset, 2048, 0) end
  for _, zset in ipairs({ k.expires, k.idem_due }) do earliest = earlier(earliest, zset, 1, 0) end
  earliest = earlier(earliest, k.dead, 1, rules.dead_ms)
  earliest = earlier(earliest, k.acked, 2048, rules.acked_ms)
  if not rules.ttl then return earliest end
  for _, zset in ipairs({ k.first_due, k.delayed, k.delayed_prio }) do
    earliest = earlier(earliest, zset, 1, rules.ttl)
  end
  local first = redis.call('ZRANGE', k.ready, 0, 0, 'WITHSCORES')[2]
  while first do
    local due = rank_due(first)
    if earliest == 0 or due + rules.ttl < earliest then earliest = due + rules.ttl end
    local next_priority = string.format('%d', tonumber(first) - due + 35184372088832)
    first = redis.call('ZRANGEBYSCORE', k.ready, next_priority, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  end
  return earliest
end
