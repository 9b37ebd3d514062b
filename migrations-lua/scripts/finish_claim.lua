-- finish_claim: say when claimed partitions are to be claimed again, unless something has noted an earlier moment since.
-- KEYS[1] sweeps, moves or active
-- ARGV[1] score that the claim wrote
-- ARGV[2..] pairs name, when, ms; '' for never
-- returns: 'OK'
-- cost: ZREM; ZSCORE and ZADD or ZREM for each
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[1], '')
for i = 2, #ARGV, 2 do
  local name, at = ARGV[i], ARGV[i + 1]
  if redis.call('ZSCORE', KEYS[1], name) == ARGV[1] then
    if at == '' then redis.call('ZREM', KEYS[1], name) else redis.call('ZADD', KEYS[1], at, name) end
  end
end
return 'OK'
