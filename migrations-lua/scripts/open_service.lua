-- open_service: return the data that an instance needs before it works on a Redis.
-- KEYS[1] instances
-- KEYS[2] secret
-- KEYS[3] schema
-- ARGV[1] secret: used if there is none yet, hex
-- ARGV[2] schema version that the caller knows
-- returns: {schema version, number for the instance, secret}; of data of another version only the first
-- cost: constant
local schema = redis.call('GET', KEYS[3])
if schema and schema ~= ARGV[2] then return { tonumber(schema) } end
-- A first write that cannot grow: at maxmemory Redis then lets everything after it through.
redis.call('PERSIST', KEYS[1])
if not schema then redis.call('SET', KEYS[3], ARGV[2]) end
redis.call('SETNX', KEYS[2], ARGV[1])
return { tonumber(ARGV[2]), redis.call('INCR', KEYS[1]), redis.call('GET', KEYS[2]) }
