-- weigh_partition: say how much lies in a partition, and count the bytes of bodies there from now on, if that is asked for.
-- The first count of more than 1,000 bodies is an estimate from 1,000 of them; an empty partition begins at 0 again.
-- KEYS[1] messages
-- KEYS[2] acked
-- KEYS[3] meta
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] bytes: 1 to count them
-- returns: {messages that are not acknowledged, bytes of all bodies without their tags, 0 if they are not counted}
-- cost: HMGET, HLEN, ZCARD; the first time HRANDFIELD, up to 1,000 HSTRLEN, HSET
local meta = redis.call('HMGET', KEYS[3], 'topic', 'bytes')
local n, bytes = redis.call('HLEN', KEYS[1]), tonumber(meta[2] or 0)
if ARGV[2] == '1' and meta[1] == ARGV[1] and (not meta[2] or (n == 0 and bytes ~= 0)) then
  local some = redis.call('HRANDFIELD', KEYS[1], 1000)
  bytes = 0
  for i = 1, #some do bytes = bytes + redis.call('HSTRLEN', KEYS[1], some[i]) - 1 end
  if #some > 0 then bytes = math.ceil(bytes * n / #some) end
  redis.call('HSET', KEYS[3], 'bytes', string.format('%d', bytes))
end
return { n - redis.call('ZCARD', KEYS[2]), bytes }
