-- fence: write something behind all that was written before, so that a WAIT that follows speaks of all of it.
-- KEYS[1] fence
-- returns: 'OK'
-- cost: HDEL, HSET; EXPIRE once a day
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through. A write that is refused
-- would leave the WAIT speaking of an earlier one.
redis.call('HDEL', KEYS[1], '')
if redis.call('HSET', KEYS[1], 'fence', '1') == 1 then redis.call('EXPIRE', KEYS[1], 86400) end
return 'OK'
