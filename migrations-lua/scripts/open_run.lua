-- open_run: what an instance must know of the Redis run that it meets; the first to meet a new run numbers it.
-- KEYS[1] runs
-- KEYS[2] secret
-- KEYS[3] schema
-- ARGV[1] run_id
-- ARGV[2] secret: taken when there is none yet, hex
-- ARGV[3] schema version that the caller knows
-- returns: {schema version, number for the instance, secret, {run_id, generation, …}}
-- cost: constant; the 64 newest runs are kept
-- A first write that removes, and misses: at maxmemory everything after it is let through.
redis.call('HDEL', KEYS[1], '')
local schema = redis.call('GET', KEYS[3])
if not schema then
  schema = ARGV[3]
  redis.call('SET', KEYS[3], schema)
end
redis.call('SETNX', KEYS[2], ARGV[2])
local instance = redis.call('HINCRBY', KEYS[1], ':instances', 1)
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  redis.call('HSET', KEYS[1], ARGV[1], redis.call('HINCRBY', KEYS[1], ':next', 1))
end
local runs, newest = {}, tonumber(redis.call('HGET', KEYS[1], ':next'))
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if string.byte(all[i]) ~= 58 then
    if tonumber(all[i + 1]) <= newest - 64 then
      redis.call('HDEL', KEYS[1], all[i])
    else
      runs[#runs + 1] = all[i]
      runs[#runs + 1] = tonumber(all[i + 1])
    end
  end
end
return { tonumber(schema), instance, redis.call('GET', KEYS[2]), runs }
