-- open_partition: tell a partition the topic that it belongs to, and what its scripts need of the configuration.
-- KEYS[1] meta
-- KEYS[2] first_due
-- ARGV[1] number: the topic's
-- ARGV[2] revision
-- ARGV[3] max_attempts
-- ARGV[4] backoff policy, as the include of that name reads it
-- ARGV[5] lease_ms
-- ARGV[6] rules without their first part, as the include of that name reads them
-- ARGV[7] dead topic: where deaths are told of, or ''
-- returns: 'OK'; 'STALE' where a later topic of this name, or a later revision, is there; 'DELETED' where the topic is
--   not any more
-- cost: HMGET, HSET, HSET or HDEL, maybe HDEL and UNLINK
local meta = redis.call('HMGET', KEYS[1], 'topic', 'rules')
local number, revision = tonumber(ARGV[1]), tonumber(ARGV[2])
if meta[1] then
  local gone, known, changed = string.match(meta[1], '^(%-?)(%d+) ?(%d*)$')
  known, changed = tonumber(known), tonumber(changed) or 0
  if gone == '-' and known >= number then return 'DELETED' end
  if known > number or (known == number and changed > revision) then return 'STALE' end
  if known == number and changed == revision then return 'OK' end
  if known ~= number then meta[2] = false end
end
local rules = table.concat({ string.sub(meta[2] or '0', 1, 1), ',', ARGV[6] })
redis.call('HSET', KEYS[1], 'topic', table.concat({ ARGV[1], ' ', ARGV[2] }), 'max_attempts', ARGV[3], 'backoff', ARGV[4], 'lease_ms', ARGV[5])
redis.call('PERSIST', KEYS[1])
if rules == '0,,,,,,' then
  redis.call('HDEL', KEYS[1], 'rules')
else
  redis.call('HSET', KEYS[1], 'rules', rules)
end
if ARGV[7] == '' then
  redis.call('HDEL', KEYS[1], 'dead_topic')
else
  redis.call('HSET', KEYS[1], 'dead_topic', ARGV[7])
end
-- Without a TTL nobody keeps up when messages first fell due.
if string.byte(ARGV[6]) == 44 then redis.call('UNLINK', KEYS[2]) end
return 'OK'
