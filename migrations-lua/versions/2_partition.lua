-- 2_partition: migrates a partition to version 2. Its leases carry numbers of Redis's runs; these become its first epochs,
-- so that the holders' tokens stay valid. The version follows number and revision, so that a dueq of version 1 that still
-- runs does not recognize the partition, and writes nothing.
-- KEYS[1] meta
-- KEYS[2] unack
-- KEYS[3] last
-- KEYS[4] acked
-- ARGV[1..] for each run the field of its epoch, its number
-- returns: 'OK'
local word = redis.call('HGET', KEYS[1], 'topic')
if not word or not string.find(word, '^%d+ %d+$') then return 'OK' end
redis.call('HDEL', KEYS[1], '')
if #ARGV > 0 and redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4]) > 0 then
  local highest = 0
  for i = 2, #ARGV, 2 do highest = math.max(highest, tonumber(ARGV[i])) end
  redis.call('HSET', KEYS[1], 'epochs', highest, unpack(ARGV))
end
-- Version 1 did not record whether max_attempts was lowered, so leases check.
redis.call('HSET', KEYS[1], 'topic', table.concat({ word, ' 2' }), 'lowered', '1')
return 'OK'
