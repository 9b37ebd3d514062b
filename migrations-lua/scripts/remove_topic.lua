-- remove_topic: remove a deleted topic from the registry.
-- KEYS[1] registry
-- KEYS[2] names
-- KEYS[3] index
-- KEYS[4] pushed
-- ARGV[1] name
-- ARGV[2] number: a new topic of the same name stays
-- returns: 1, or 0 if it was already gone
-- cost: HGET, 2 HDEL, ZREM, SREM
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if not entry or string.match(entry, '^(%d+) ') ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('SREM', KEYS[4], ARGV[1])
return 1
