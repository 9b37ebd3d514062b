-- Messages that count against the topic's bound: delayed, ready and leased. `ended`: leases that are over have been
-- ended as far as one sweep goes. Only then are the rest of those that used up the attempts taken for dead: before, one
-- may have had more attempts allowed since its grant, and comes back.
local function count_live(k, now, ended)
  local count = 0
  for _, key in ipairs({ k.delayed, k.delayed_prio, k.ready, k.unack, k.last }) do count = count + redis.call('ZCARD', key) end
  if ended then count = count - redis.call('ZCOUNT', k.last, '-inf', string.format('%d', now * 2048 + 2047)) end
  return count
end

-- Drops the earliest due message that is not leased. Returns whether there was one.
local function drop_oldest(k, now)
  local oldest, earliest = nil, math.huge
  for _, key in ipairs({ k.delayed, k.delayed_prio }) do
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if first[1] and tonumber(first[2]) < earliest then oldest, earliest = first[1], tonumber(first[2]) end
  end
  local first = redis.call('ZRANGE', k.ready, 0, 0, 'WITHSCORES')
  while first[1] do
    local due = rank_due(first[2])
    if due < earliest then oldest, earliest = first[1], due end
    local next_priority = string.format('%d', tonumber(first[2]) - due + 35184372088832)
    first = redis.call('ZRANGEBYSCORE', k.ready, next_priority, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  end
  if oldest then drop_all(k, { oldest }, 'expired') end
  return oldest ~= nil
end
