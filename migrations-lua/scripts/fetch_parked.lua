-- @include entry
-- @include fair
-- @include message
-- @include partition
-- @include time
-- @include waiting
-- fetch_parked: restore the due times of messages that were released because no slot was free, unless they have changed
-- since.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2..] for each, at most 128: member, the due time of its release, ms, and its original due time, ms
-- returns: {now, wake 0|1} or 'STALE'
-- cost: HMGET, ZREM, TIME; up to 3 ZSCORE and 3 calls for each, 10 more in a group of a fair topic
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'sleep')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now, earliest = now_ms(), math.huge
for i = 2, #ARGV, 3 do
  local member, due = ARGV[i], tonumber(ARGV[i + 2])
  local found = redis.call('ZSCORE', k.delayed, member) == ARGV[i + 1]
  if found then
    redis.call('ZADD', k.delayed, due, member)
  elseif redis.call('ZSCORE', k.blocked, member) == ARGV[i + 1] and not is_fair(k) then
    -- Its group has been paused, or may have less leases than before.
    redis.call('ZADD', k.blocked, due, member)
  elseif redis.call('ZSCORE', k.delayed_prio, member) == ARGV[i + 1] or redis.call('ZSCORE', k.blocked, member) == ARGV[i + 1] then
    found = true
    local _, _, _, priority, rest = parse_extra(redis.call('HGET', k.extra, member))
    local _, _, _, _, _, group, order = parse_rest(rest)
    step_out(k, member, group, order)
    redis.call('ZREM', k.delayed_prio, member)
    wait_again(k, member, priority, due, now, group, order)
  end
  if found and due < earliest then earliest = due end
end
return { now, wake(k.meta, meta[2], earliest) }
