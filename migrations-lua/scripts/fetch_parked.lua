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
-- ARGV[2..] for each, at most 128: member, the due time of its release, ms, and its original due time, ms; or else '', a due time and
--   n, for up to n of those that were put off until then
-- returns: {now, wake 0|1, how many these are} or 'STALE'
-- cost: HMGET, ZREM, TIME; up to 3 ZSCORE and 3 calls for each, 10 more in a group of a fair topic; where they are looked for up to 48
--   ZRANGEBYSCORE, and an HGET for each that is due then until as many are found
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'sleep')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local parked = { unpack(ARGV, 2) }
if parked[1] == '' then parked = put_off_until(k, parked[2], tonumber(parked[3])) end
local now, earliest = now_ms(), math.huge
for i = 1, #parked, 3 do
  local member, before, due = parked[i], parked[i + 1], tonumber(parked[i + 2])
  local found = redis.call('ZSCORE', k.delayed, member) == before
  if found then
    redis.call('ZADD', k.delayed, due, member)
  elseif redis.call('ZSCORE', k.blocked, member) == before and not is_fair(k) then
    -- Its group has been paused, or may have less leases than before.
    redis.call('ZADD', k.blocked, due, member)
  elseif redis.call('ZSCORE', k.delayed_prio, member) == before or redis.call('ZSCORE', k.blocked, member) == before then
    found = true
    local _, _, _, priority, rest = parse_extra(redis.call('HGET', k.extra, member))
    local _, _, _, _, _, group, order = parse_rest(rest)
    step_out(k, member, group, order)
    redis.call('ZREM', k.delayed_prio, member)
    wait_again(k, member, priority, due, now, group, order)
  end
  if found and due < earliest then earliest = due end
end
return { now, wake(k.meta, meta[2], earliest), #parked / 3 }
