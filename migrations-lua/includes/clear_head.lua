-- Clears the head of what waits, up to the `most` messages that would be granted next, of those whose time is over, and,
-- where `spent_by` says how many the topic allows now, of those that have used up their attempts. Returns how many it
-- dropped and buried, and whether the head is clear now. Where it is not, it looks further, as far as the budget goes: for
-- one wanted message a heap of expired ones must not cost a call each.
local function clear_head(k, now, up, most, ttl, spent_by, budget)
  local dropped, died = 0, 0
  for _, look in ipairs({ most, 64, 64, most }) do
    look = math.max(look, most)
    local ready = redis.call('ZRANGE', k.ready, 0, look - 1, 'WITHSCORES')
    local gone = drop_expired(k, now, ready, true, ttl, budget)
    local left, plain = look - #ready / 2, {}
    if left > 0 then
      plain = redis.call('ZRANGEBYSCORE', k.delayed, '-inf', now, 'WITHSCORES', 'LIMIT', 0, left)
      gone = gone + drop_expired(k, now, plain, false, ttl, budget)
    end
    dropped = dropped + gone
    if gone == 0 and not budget.short then
      local dead = spent_by and bury_spent(k, up, ready, plain, most, spent_by, budget) or 0
      died = died + dead
      if dead == 0 and not budget.short then return dropped, died, true end
    end
    if dropped > 160 or budget.short then break end
  end
  return dropped, died, false
end
