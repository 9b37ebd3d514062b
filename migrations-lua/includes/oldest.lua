-- @include entry
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
  local waiting = redis.call('ZRANGE', k.blocked, 0, 0, 'WITHSCORES')[2]
  if waiting and is_fair(k) then older(tonumber(waiting)) end
  local ended = redis.call('ZRANGE', k.unack, 0, 0, 'WITHSCORES')[2]
  if ended then older((unpack_lease(ended))) end
  local first = firsts(k.ready)
  for i = 2, #first, 2 do older(rank_due(first[i])) end
  return oldest
end
