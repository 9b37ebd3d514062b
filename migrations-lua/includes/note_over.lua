-- The time to live of these messages is over: those that wait leave, of those that are leased it is noted, so that they
-- leave when their lease ends. Returns how many there were.
local function note_over(k, now, members, ttl, budget)
  if #members == 0 then return 0 end
  local extras = redis.call('HMGET', k.extra, unpack(members))
  local leased, last = redis.call('ZMSCORE', k.unack, unpack(members)), redis.call('ZMSCORE', k.last, unpack(members))
  local gone = {}
  for i = 1, #members do
    local attempts, counted, max_attempts, priority, rest = parse_extra(extras[i])
    if leased[i] or last[i] then
      local _, own, policy, hold, key = parse_rest(rest)
      rest = format_rest('o', own, policy, hold, key)
      redis.call('HSET', k.extra, members[i], format_extra(attempts, counted, max_attempts, priority, rest))
      redis.call('ZREM', k.expires, members[i])
      redis.call('ZREM', k.first_due, members[i])
    else
      gone[#gone + 1] = members[i]
    end
  end
  -- What is too much for one call is found again.
  drop_all(k, freeable(k, gone, budget), 'expired')
  return #members
end
