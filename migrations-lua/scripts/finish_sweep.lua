-- finish_sweep: record when to sweep a claimed topic again, unless another caller has done so since.
-- KEYS[1] sweeps
-- ARGV[1] name
-- ARGV[2] score that the claim wrote
-- ARGV[3] when to sweep again, ms; '' for never
-- returns: 'OK'
-- cost: ZREM, ZSCORE, ZADD or ZREM
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[1], '')
if redis.call('ZSCORE', KEYS[1], ARGV[1]) == ARGV[2] then
  if ARGV[3] == '' then
    redis.call('ZREM', KEYS[1], ARGV[1])
  else
    redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
  end
end
return 'OK'
