-- Moves up to `limit` messages with a priority that have fallen due into `ready`. Returns how many.
local function promote(now, limit, delayed_prio, ready, extra_key)
  local due = redis.call('ZRANGEBYSCORE', delayed_prio, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  if #due == 0 then return 0 end
  local members, ranked = {}, {}
  for i = 1, #due, 2 do members[#members + 1] = due[i] end
  local extras = redis.call('HMGET', extra_key, unpack(members))
  for i = 1, #members do
    local _, _, _, priority = parse_extra(extras[i])
    ranked[2 * i - 1] = rank(priority, tonumber(due[2 * i]))
    ranked[2 * i] = members[i]
  end
  redis.call('ZREM', delayed_prio, unpack(members))
  redis.call('ZADD', ready, unpack(ranked))
  return #members
end
