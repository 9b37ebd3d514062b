-- Ends up to `limit` leases whose deadline has passed: back to where they wait, due since the deadline, or dead when
-- the grant was the last. Returns how many leases ended, how many of them are dead now, and whether more may be left.
-- `finals`: whether there may be last grants at all.
local function expire_leases(now, limit, finals, unack, last, delayed, delayed_prio, ready, dead, extra_key, meta_key)
  local over = string.format('%d', now * 2048 + 2047)
  local ended = redis.call('ZRANGEBYSCORE', unack, '-inf', over, 'WITHSCORES', 'LIMIT', 0, limit)
  local died = finals and redis.call('ZRANGEBYSCORE', last, '-inf', over, 'WITHSCORES', 'LIMIT', 0, limit) or {}
  if #ended + #died == 0 then return 0, 0, false end
  for place_of, list in ipairs({ ended, died }) do
    for i = 1, #list, 2 do
      local member = list[i]
      local deadline = unpack_lease(list[i + 1])
      local attempts, counted, max_attempts, priority = parse_extra(redis.call('HGET', extra_key, member))
      redis.call('HSET', extra_key, member, format_extra(attempts + 1, counted + 1, max_attempts, priority))
      if place_of == 1 then
        redis.call('ZREM', unack, member)
        place(member, priority, deadline, now, delayed, delayed_prio, ready)
      else
        redis.call('ZREM', last, member)
        redis.call('ZADD', dead, deadline, member)
      end
    end
  end
  redis.call('HINCRBY', meta_key, 'lease_expired', (#ended + #died) / 2)
  if #died > 0 then redis.call('HINCRBY', meta_key, 'dead', #died / 2) end
  return (#ended + #died) / 2, #died / 2, #ended == 2 * limit or #died == 2 * limit
end
