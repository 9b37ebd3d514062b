-- @include expire
-- @include fair
-- @include message
-- @include partition
-- @include remove
-- @include time
-- @include waiting
-- settle_late: what the holder of a lease that has ended still asks for: delete the message, or have it due later. Only if
-- nobody has been granted it since.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] member
-- ARGV[3] attempt: that of the lease
-- ARGV[4] epoch: the field of meta with the number of the lease's epoch; after an older one, Redis may have forgotten a grant
-- ARGV[5] delay, ms from now, or '' to delete the message
-- returns: 'OK', 'REPORTED' if it is deleted and its completion is to be published, 'NONE' if there is no such message, 'OTHER' if another consumer was granted it, or it cannot have a due time;
--   or 'STALE'
-- cost: HMGET, ZREM, TIME, HGET, up to 9 ZSCORE and 16 constant calls; 12 more if it is in a group
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'rules', 'sleep', 'epochs', ARGV[4])
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now, up = now_ms()
local member = ARGV[2]
local state, _, extra = settle(k, member, now, parse_rules(meta[2]))
if not state or state == 'acked' then return 'NONE' end
local attempts, _, _, priority, rest = parse_extra(extra)
if state == 'leased' or attempts ~= tonumber(ARGV[3]) or not meta[5] or meta[5] ~= meta[4] then return 'OTHER' end
if ARGV[5] == '' then
  -- A consumer that has done the work need not learn that it is given up.
  redis.call('ZREM', k.dead_out, member, member .. 'd')
  local reported = is_reported(rest, 'a')
  if reported then redis.call('ZADD', k.dead_out, up, member .. 'a') end
  drop_all(k, { member }, 'deleted')
  return reported and 'REPORTED' or 'OK'
end
if state ~= 'ready' and state ~= 'delayed' then return 'OTHER' end
local due = up + tonumber(ARGV[5])
local _, _, _, _, _, group, order = parse_rest(rest)
step_out(k, member, group, order)
for _, zset in ipairs({ k.delayed, k.delayed_prio, k.ready }) do redis.call('ZREM', zset, member) end
wait_again(k, member, priority, due, now, group, order)
wake(k.meta, meta[3], due)
return 'OK'
