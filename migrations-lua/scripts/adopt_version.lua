-- @include time
-- adopt_version: return whether all instances that run read a version of the schema, so that data of it may be written.
-- KEYS[1] alive
-- KEYS[2] schema
-- KEYS[3] min_reader
-- ARGV[1] version
-- ARGV[2] how long an instance is remembered, ms
-- ARGV[3] 1 to keep out instances that do not read it, from now on; or 0
-- returns: 'OK', or an instance that does not read it, as it is in `alive`
-- cost: ZREM, TIME, ZRANGEBYSCORE of up to 1000 instances, 2 GET, 2 SET
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[1], '')
local version = tonumber(ARGV[1])
local since = int(now_ms() - tonumber(ARGV[2]))
for _, instance in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], since, '+inf')) do
  -- Instances that do not say what they read know of groups, which were version 4.
  local reads = tonumber(string.match(instance, '%+schema%.(%d+)$')) or 4
  if reads < version and string.find(instance, '^%S+ %d+ %S') then return instance end
end
if ARGV[3] == '1' then
  local schema = tonumber(redis.call('GET', KEYS[2])) or 0
  local need = tonumber(redis.call('GET', KEYS[3])) or 0
  -- Dueqs that do not know of min_reader go by the first.
  if schema < version then redis.call('SET', KEYS[2], ARGV[1]) end
  if need < version then redis.call('SET', KEYS[3], ARGV[1]) end
end
return 'OK'
