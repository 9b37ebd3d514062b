-- remove_topic: remove a deleted topic from the registry.
-- KEYS[1] registry
-- KEYS[2] names
-- KEYS[3] index
-- KEYS[4] pushed
-- KEYS[5] makers
-- ARGV[1] name
-- ARGV[2] number: a new topic of the same name stays
-- returns: 1, or 0 if it was already gone
-- cost: 2 HGET, 2 HDEL, ZREM, SREM; HDEL, HINCRBY if a key made it
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if not entry or string.match(entry, '^(%d+) ') ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('SREM', KEYS[4], ARGV[1])
local key = redis.call('HGET', KEYS[5], ARGV[2])
if key then
  redis.call('HDEL', KEYS[5], ARGV[2])
  local field = table.concat({ ':', key })
  if redis.call('HINCRBY', KEYS[5], field, -1) <= 0 then redis.call('HDEL', KEYS[5], field) end
end
return 1
