-- @include grant
-- @include message
-- @include partition
-- start_call: record that the call of a leased message begins. A key that it holds until granted becomes free.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] member
-- returns: 'OK' or 'STALE'
-- cost: HGET, ZREM, 2 ZSCORE, HGET; 3 calls where it holds a key
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local member = ARGV[2]
if redis.call('ZSCORE', k.unack, member) or redis.call('ZSCORE', k.last, member) then
  local extra = redis.call('HGET', k.extra, member)
  local _, _, _, _, rest = parse_extra(extra)
  grant_key(k, member, extra, rest)
end
return 'OK'
