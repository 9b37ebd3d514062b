-- Of these waiting messages (member, score, …; `ranked`: the scores are ranks) drops those whose time to live is over.
-- Returns how many.
local function drop_expired(k, now, list, ranked, ttl)
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
  drop_all(k, over, 'expired')
  return #over
end

-- Clears the head of what waits, up to the `most` messages that would be granted next, of those whose time is over.
-- Returns how many it dropped, and whether the head is clear now.
local function clear_head(k, now, most, ttl)
  local dropped = 0
  for _ = 1, 4 do
    local list = redis.call('ZRANGE', k.ready, 0, most - 1, 'WITHSCORES')
    local gone = drop_expired(k, now, list, true, ttl)
    local left = most - #list / 2
    if left > 0 then
      list = redis.call('ZRANGEBYSCORE', k.delayed, '-inf', now, 'WITHSCORES', 'LIMIT', 0, left)
      gone = gone + drop_expired(k, now, list, false, ttl)
    end
    dropped = dropped + gone
    if gone == 0 then return dropped, true end
  end
  return dropped, false
end
