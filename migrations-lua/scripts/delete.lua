-- @include expire
-- @include message
-- @include partition
-- @include remove
-- @include time
-- @include waiting
-- delete: delete one message, by its id or its key. A leased one only with force.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] member, or '' if a key is given
-- ARGV[3] key
-- ARGV[4] force: 1 or 0
-- returns: 'OK', 'LEASED', 'NONE' or 'STALE'
-- cost: HMGET, ZREM, TIME, HGET, up to 9 ZSCORE and 12 constant calls; 12 more if it is in a group
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'rules', 'short')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now = now_ms()
local member = which_member(k, ARGV[2], ARGV[3])
local state, _, extra
if member then state, _, extra = settle(k, member, now, parse_rules(meta[2])) end
if not state or (ARGV[2] == '' and which_member(k, '', ARGV[3]) ~= member) then return 'NONE' end
if state == 'acked' then
  redis.call('ZREM', k.acked, member)
  forget_all(k, { member }, { extra })
  return 'OK'
end
if state == 'leased' then
  if ARGV[4] ~= '1' then return 'LEASED' end
  redis.call('ZREM', k.unack, member)
  redis.call('ZREM', k.last, member)
  redis.call('HINCRBY', k.meta, 'deleted_leased', 1)
  wake_refused(k.meta, meta[3])
end
drop_all(k, { member }, 'deleted')
return 'OK'
