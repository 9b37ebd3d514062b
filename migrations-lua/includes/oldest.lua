-- @include lease
-- @include waiting
-- The message that has been ready longest.

-- When it fell due (ms; 0: there is none). A message whose lease has ended counts from that end.
local function oldest_ready(k, now)
  local oldest = 0
  local function older(at)
    if at and at <= now and (oldest == 0 or at < oldest) then oldest = at end
  end
  for _, key in ipairs({ k.delayed, k.delayed_prio }) do
    older(tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]))
  end
  local ended = redis.call('ZRANGE', k.unack, 0, 0, 'WITHSCORES')[2]
  if ended then older((unpack_lease(ended))) end
  -- The first of each priority is its oldest: step from one priority to the next.
  local first = redis.call('ZRANGE', k.ready, 0, 0, 'WITHSCORES')[2]
  while first do
    local at = rank_due(first)
    older(at)
    first = redis.call('ZRANGEBYSCORE', k.ready, string.format('%d', tonumber(first) - at + 35184372088832), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  end
  return oldest
end
