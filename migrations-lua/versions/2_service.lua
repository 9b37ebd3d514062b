-- 2_service: marks the data as version 2, so that no older dueq starts on them. The partitions are migrated one by one
-- (2_partition): with the next request, or in a walk over all of them.
-- KEYS[1] runs: of version 1; it is removed at the end of the walk
-- KEYS[2] instances
-- KEYS[3] schema
-- returns: 'OK'
if redis.call('GET', KEYS[3]) ~= '1' then return 'OK' end
redis.call('HDEL', KEYS[1], '')
-- No instance number may be assigned twice, because ids contain it.
local drawn = redis.call('HGET', KEYS[1], ':instances')
if drawn then redis.call('SET', KEYS[2], drawn) end
redis.call('SET', KEYS[3], '2')
return 'OK'
