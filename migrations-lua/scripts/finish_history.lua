-- finish_history: forget claimed partitions that were noted, unless something happened there since.
-- KEYS[1] active
-- ARGV[1] score that the claim wrote
-- ARGV[2..] names
-- returns: 'OK'
-- cost: ZREM; ZSCORE and ZREM for each
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[1], '')
for i = 2, #ARGV do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) == ARGV[1] then redis.call('ZREM', KEYS[1], ARGV[i]) end
end
return 'OK'
