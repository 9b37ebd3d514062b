-- Brings one message into order, whatever is wrong with it; `drop`: its body cannot be read. Returns what became of it,
-- 'dropped', 'ready' (back to where the ready messages are), 'kept' (in one of several places), 'mended' or 'sound'; and
-- its new due time where it has one.
local function mend(k, member, now, drop)
  local extra = redis.call('HGET', k.extra, member)
  local stands = stands_of(k, { member })[1]
  if drop or #member ~= 11 or redis.call('HEXISTS', k.messages, member) == 0 then
    for _, key in ipairs({ k.unack, k.last, k.acked, k.ready, k.delayed_prio, k.delayed, k.dead }) do
      redis.call('ZREM', key, member)
    end
    forget_all(k, { member }, { sound_extra(extra) and extra })
    return 'dropped'
  end
  if not stands[1] and redis.call('ZSCORE', k.dead_out, member) then return 'sound' end
  local became, new_due = 'sound', nil
  if not sound_extra(extra) then
    redis.call('HDEL', k.extra, member)
    extra, became = false, 'mended'
  end
  local attempts, counted, max_attempts, priority, rest = parse_extra(extra)
  local over, ttl, policy, hold, key = parse_rest(rest)

  local at, score = stands[1], stands[2]
  if #stands > 2 then
    -- Of two leases the one that ends later: nobody else may hold the message before.
    if at == 1 and stands[3] == 2 and stands[4] > score then at, score = 2, stands[4] end
    for number, zset in ipairs({ k.unack, k.last, k.ready, k.delayed_prio, k.delayed, k.dead, k.acked }) do
      if number ~= at then redis.call('ZREM', zset, member) end
    end
    became = 'kept'
  end
  if not at then
    at, new_due, became = 5, now, 'ready'
  elseif misplaced(at, score, priority) then
    for _, zset in ipairs({ k.ready, k.delayed_prio, k.delayed }) do redis.call('ZREM', zset, member) end
    new_due = at == 3 and rank_due(score) or score
    if not (new_due >= 0 and new_due < 35184372088832) then new_due = now end
    if became == 'sound' then became = 'mended' end
  end
  if new_due then place(member, priority, new_due, now, k.delayed, k.delayed_prio, k.ready) end

  local lives = at <= 5
  local changed = 0
  if lives and key ~= '' and hold ~= 'f' then
    local holder = redis.call('HGET', k.keys, key)
    if holder ~= member then
      if holder and holds_key(key, stands_of(k, { holder })[1], redis.call('HGET', k.extra, holder)) then
        -- Two cannot hold it: this one does not any more.
        rest = format_rest(over, ttl, policy, 'f', key)
        redis.call('HSET', k.extra, member, format_extra(attempts, counted, max_attempts, priority, rest))
      else
        redis.call('HSET', k.keys, key, member)
      end
      changed = changed + 1
    end
  end
  if not lives then
    free_key(k, member, rest)
    changed = changed + redis.call('ZREM', k.first_due, member)
  end
  if lives and ttl ~= '' and over == '' then
    -- When it first fell due is not known any more; its time begins again.
    if not redis.call('ZSCORE', k.expires, member) then
      local due = new_due or ((at == 4 or at == 5) and score) or now
      redis.call('ZADD', k.expires, string.format('%d', math.max(now, due) + tonumber(ttl)), member)
      changed = changed + 1
    end
  else
    changed = changed + redis.call('ZREM', k.expires, member)
  end
  if changed > 0 and became == 'sound' then became = 'mended' end
  return became, new_due
end
