-- When the time to live of a message is over (ms), or false. Its own TTL stands in `expires`; its topic's counts from
-- when it first fell due, which `first_due` remembers of messages that were granted; for others that is `due`.
local function expiry(k, member, rest, due, topic_ttl)
  local over, ttl = parse_rest(rest)
  if over == 'o' then return 0 end
  if ttl ~= '' then return tonumber(redis.call('ZSCORE', k.expires, member) or 0) end
  if not topic_ttl then return false end
  return tonumber(redis.call('ZSCORE', k.first_due, member) or due) + topic_ttl
end
