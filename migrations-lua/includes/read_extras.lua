-- The `extra` of each member, by index; an empty table while the topic has none at all (the common case: one EXISTS).
local function read_extras(extra_key, members)
  if #members == 0 or redis.call('EXISTS', extra_key) == 0 then return {} end
  return redis.call('HMGET', extra_key, unpack(members))
end
