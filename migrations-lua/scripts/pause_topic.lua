-- @include waiting
-- pause_topic: pause or resume the grants of a topic.
-- KEYS[1] meta
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] paused: 1 or 0
-- returns: 'OK' or 'STALE'
-- cost: HMGET, 2 HDEL, HSET, PUBLISH
local meta = redis.call('HMGET', KEYS[1], 'topic', 'rules')
if meta[1] ~= ARGV[1] then return 'STALE' end
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('HDEL', KEYS[1], '')
local rules = string.gsub(meta[2] or '0,,,,,,', '^%d', ARGV[2])
if rules == '0,,,,,,' then
  redis.call('HDEL', KEYS[1], 'rules')
else
  redis.call('HSET', KEYS[1], 'rules', rules)
end
if ARGV[2] == '0' then
  redis.call('HDEL', KEYS[1], 'sleep')
  announce(KEYS[1])
end
return 'OK'
