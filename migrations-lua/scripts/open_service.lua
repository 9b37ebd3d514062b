-- open_service: return the data that an instance needs before it works on a Redis.
-- KEYS[1] instances
-- KEYS[2] secret
-- KEYS[3] schema
-- KEYS[4] min_reader
-- KEYS[5] began
-- ARGV[1] secret: used if there is none yet, hex
-- ARGV[2] schema version that all data must have at least
-- ARGV[3] schema version: the newest that the caller reads
-- returns: {schema version, min_reader, number for the instance, secret, began or 0}; only the first two if the data are older, or
--   the caller cannot read them
-- cost: constant
local schema = redis.call('GET', KEYS[3])
local version = tonumber(schema or ARGV[2]) or 0
local need = tonumber(redis.call('GET', KEYS[4]) or version) or version
if version < tonumber(ARGV[2]) or need > tonumber(ARGV[3]) then return { version, need } end
-- A first write that cannot grow: at maxmemory Redis then lets everything after it through.
redis.call('PERSIST', KEYS[1])
if not schema then
  redis.call('SET', KEYS[3], ARGV[2])
  redis.call('SET', KEYS[5], ARGV[3])
end
redis.call('SETNX', KEYS[2], ARGV[1])
return { version, need, redis.call('INCR', KEYS[1]), redis.call('GET', KEYS[2]), tonumber(redis.call('GET', KEYS[5]) or 0) }
