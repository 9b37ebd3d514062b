-- open_partition: tell a partition the topic that it belongs to, and what its scripts need of the settings.
-- KEYS[1] meta
-- ARGV[1] number: the topic's
-- ARGV[2] max_attempts
-- ARGV[3] backoff policy, as the include of that name reads it
-- returns: 'OK', or 'STALE' where a later topic of this name has it
-- cost: HGET, HSET
local number = redis.call('HGET', KEYS[1], 'topic')
if number and tonumber(number) > tonumber(ARGV[1]) then return 'STALE' end
if number ~= ARGV[1] then
  redis.call('HSET', KEYS[1], 'topic', ARGV[1], 'max_attempts', ARGV[2], 'backoff', ARGV[3])
end
return 'OK'
