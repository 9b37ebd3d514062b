-- delete: remove one message from any state but leased.
-- KEYS[1] unack
-- KEYS[2] last
-- KEYS[3] delayed
-- KEYS[4] messages
-- KEYS[5] meta
-- KEYS[6] extra
-- KEYS[7] delayed_prio
-- KEYS[8] ready
-- KEYS[9] dead
-- ARGV[1] number: the topic's
-- ARGV[2] member
-- returns: 'OK', 'LEASED', 'NONE' or 'STALE'
-- cost: HGET, ZREM, TIME, ZSCORE and 10 constant calls
if redis.call('HGET', KEYS[5], 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', KEYS[1], '')
local now = now_ms()
local member = ARGV[2]
local normal = redis.call('ZSCORE', KEYS[1], member)
local score = normal or redis.call('ZSCORE', KEYS[2], member)
if score then
  if unpack_lease(score) > now then return 'LEASED' end
  redis.call('ZREM', KEYS[1], member)
  redis.call('ZREM', KEYS[2], member)
  redis.call('HINCRBY', KEYS[5], 'lease_expired', 1)
  if not normal then redis.call('HINCRBY', KEYS[5], 'dead', 1) end
end
for _, key in ipairs({ KEYS[3], KEYS[7], KEYS[8], KEYS[9] }) do redis.call('ZREM', key, member) end
redis.call('HDEL', KEYS[6], member)
if redis.call('HDEL', KEYS[4], member) == 0 then return 'NONE' end
redis.call('HINCRBY', KEYS[5], 'deleted', 1)
return 'OK'
