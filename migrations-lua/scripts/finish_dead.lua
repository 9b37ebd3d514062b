-- finish_dead: these deaths have been told of, unless the message died once more meanwhile.
-- KEYS[1] dead_out
-- KEYS[2] meta
-- ARGV[1] topic: number and revision
-- ARGV[2..] for each, at most 64: member, instant of its death, ms
-- returns: how many were left to be told of, or 'STALE'
-- cost: HGET, a ZSCORE for each, ZREM
if redis.call('HGET', KEYS[2], 'topic') ~= ARGV[1] then return 'STALE' end
local told = {}
for i = 2, #ARGV, 2 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) == ARGV[i + 1] then told[#told + 1] = ARGV[i] end
end
if #told > 0 then redis.call('ZREM', KEYS[1], unpack(told)) end
return #told
