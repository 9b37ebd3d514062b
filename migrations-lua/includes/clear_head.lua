-- Clears the head of what waits, up to the `most` messages that would be granted next, of those whose time is over and,
-- where `spent_by` says how many the topic allows now, of those that have used up their attempts. Returns how many it
-- dropped and buried, and whether the head is clear now. Where it is not, it looks further: for one wanted message a heap
-- of expired ones must not cost a call each.
local function clear_head(k, now, up, most, ttl, spent_by)
  local dropped, died = 0, 0
  for _, look in ipairs({ most, 64, 64 }) do
    local list = redis.call('ZRANGE', k.ready, 0, look - 1, 'WITHSCORES')
    local gone = drop_expired(k, now, list, true, ttl)
    local dead = spent_by and bury_spent(k, up, list, spent_by) or 0
    local left = look - #list / 2
    if left > 0 then
      list = redis.call('ZRANGEBYSCORE', k.delayed, '-inf', now, 'WITHSCORES', 'LIMIT', 0, left)
      gone = gone + drop_expired(k, now, list, false, ttl)
      if spent_by then dead = dead + bury_spent(k, up, list, spent_by) end
    end
    dropped, died = dropped + gone, died + dead
    if gone + dead == 0 then return dropped, died, true end
  end
  return dropped, died, false
end
