-- Of these waiting messages (member, score, …; `ranked`: the scores are ranks) drops those whose time to live is over.
-- Returns how many; the budget says whether any were left.
local function drop_expired(k, now, list, ranked, ttl, budget)
  if #list == 0 then return 0 end
  local members, over = {}, {}
  for i = 1, #list, 2 do members[#members + 1] = list[i] end
  local extras = redis.call('HMGET', k.extra, unpack(members))
  for i = 1, #members do
    local _, _, _, _, rest = parse_extra(extras[i])
    local due = ranked and rank_due(list[2 * i]) or tonumber(list[2 * i])
    local expires = expiry(k, members[i], rest, due, ttl)
    if expires and expires <= now then over[#over + 1] = members[i] end
  end
  over = freeable(k, over, budget)
  drop_all(k, over, 'expired')
  return #over
end
