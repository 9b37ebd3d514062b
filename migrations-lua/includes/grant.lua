-- The topic has a TTL: when messages that name none first fell due must outlive their grant. `found` is member, due, ….
local function remember_first_due(k, found, extras)
  local firsts = {}
  for i = 1, #found / 2 do
    local _, _, _, _, rest = parse_extra(extras[i])
    local _, own = parse_rest(rest)
    if own == '' then
      firsts[#firsts + 1] = found[2 * i]
      firsts[#firsts + 1] = found[2 * i - 1]
    end
  end
  if #firsts > 0 then redis.call('ZADD', k.first_due, 'NX', unpack(firsts)) end
end

-- The key of a message that is granted, or ''. One that holds it only until then gives it up, for good.
local function grant_key(k, member, extra)
  local attempts, counted, max_attempts, priority, rest = parse_extra(extra)
  local over, ttl, policy, hold, key = parse_rest(rest)
  if hold == 'g' and key ~= '' then
    free_key(k, member, rest)
    rest = format_rest(over, ttl, policy, 'f', key)
    redis.call('HSET', k.extra, member, format_extra(attempts, counted, max_attempts, priority, rest))
  end
  return key
end

-- The key that a message holds until it is granted, or ''. What dueq sends itself may have to wait for a place once it
-- is leased, and is granted when its call begins (start_call).
local function call_key(extra)
  local _, _, _, _, rest = parse_extra(extra)
  local _, _, _, hold, key = parse_rest(rest)
  return hold == 'g' and key or ''
end
