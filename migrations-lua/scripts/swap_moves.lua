-- swap_moves: change what is written of a queue's move tasks, unless another instance has changed it meanwhile.
-- KEYS[1] the queue's tasks
-- KEYS[2] moves
-- ARGV[1] what was written, or ''
-- ARGV[2] what is to be
-- ARGV[3] how long it is kept, ms
-- ARGV[4] the queue if it is to be looked at at once, or ''
-- returns: 'OK' or 'CHANGED'
-- cost: GET, ZREM, SET; at once also ZADD
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 'CHANGED' end
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through. What moves leaves.
redis.call('ZREM', KEYS[2], '')
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if ARGV[4] ~= '' then redis.call('ZADD', KEYS[2], 0, ARGV[4]) end
return 'OK'
