-- Has a message used up its attempts? One that waits has if fewer are allowed now than when it failed last.
local function is_spent(counted, max_attempts, topic_max)
  return counted > 0 and counted >= (tonumber(max_attempts) or topic_max)
end

-- Of the first `most` of these waiting messages (member, score, … of `ready` and then of `plain`) buries those that have
-- used up their attempts. Returns how many; the budget says whether any were left.
local function bury_spent(k, at, ready, plain, most, topic_max, budget)
  local members, died = {}, 0
  for _, list in ipairs({ ready, plain }) do
    for i = 1, #list, 2 do
      if #members < most then members[#members + 1] = list[i] end
    end
  end
  if #members == 0 then return 0 end
  local extras = redis.call('HMGET', k.extra, unpack(members))
  for i = 1, #members do
    local attempts, counted, max_attempts, _, rest = parse_extra(extras[i])
    if is_spent(counted, max_attempts, topic_max) then
      if budget.deaths == 0 or budget.events <= 0 then
        budget.short = true
        break
      end
      budget.deaths, budget.events = budget.deaths - 1, room_after(k, members[i], budget.events)
      for _, zset in ipairs({ k.delayed, k.delayed_prio, k.ready }) do redis.call('ZREM', zset, members[i]) end
      add_events(k, members[i], event('d', at, attempts, ''))
      bury(k, members[i], rest, at)
      died = died + 1
    end
  end
  return died
end
