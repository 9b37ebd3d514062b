-- @include entry
-- @include oldest
-- @include partition
-- @include sweep
-- @include time
-- count_topic: sweep a partition, then return its counts and totals as one consistent snapshot.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2..] names of the totals
-- returns: {now, more 0|1: the sweep left something, paused 0|1, delayed, ready, leased, dead, acked,
--   blocked, earliest ready due (0: none), next due (0: none), totals…} or 'STALE'
-- cost: as sweep, of 64 messages of each kind; 10 ZCOUNT or ZCARD, 7 ZRANGE, one more for each distinct priority among
--   the ready; HMGET
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'rules')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now = now_ms()
local rules = parse_rules(meta[2])
local more = sweep(k, now, 64, rules)
local over = int(now * 2048 + 2047)
local due = redis.call('ZCOUNT', k.delayed, '-inf', now)
local due_prio = redis.call('ZCOUNT', k.delayed_prio, '-inf', now)
local ranked = redis.call('ZCARD', k.ready)
local ended = redis.call('ZCOUNT', k.unack, '-inf', over)
local died = redis.call('ZCOUNT', k.last, '-inf', over)
local leased = redis.call('ZCARD', k.unack) + redis.call('ZCARD', k.last) - ended - died
local later = redis.call('ZCARD', k.delayed) + redis.call('ZCARD', k.delayed_prio) - due - due_prio
local blocked = redis.call('ZCARD', k.blocked)
local fair = blocked > 0 and is_fair(k)
if fair then
  local ready = redis.call('ZCOUNT', k.blocked, '-inf', now)
  due, later, blocked = due + ready, later + blocked - ready, 0
end

local next_due = 0
for _, key in ipairs({ k.delayed, k.delayed_prio, k.blocked }) do
  local coming = redis.call('ZRANGEBYSCORE', key, string.format('(%d', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if coming and (fair or key ~= k.blocked) and (next_due == 0 or tonumber(coming) < next_due) then next_due = tonumber(coming) end
end

local reply = {
  now, more and 1 or 0, rules.paused and 1 or 0, later, due + due_prio + ranked + ended, leased,
  redis.call('ZCARD', k.dead) + died, redis.call('ZCARD', k.acked),
  blocked, oldest_ready(k, now), next_due,
}
local totals = redis.call('HMGET', k.meta, unpack(ARGV, 2))
for i = 1, #totals do
  local total = tonumber(totals[i] or 0)
  -- Expired leases count even before a script ends them.
  if ARGV[1 + i] == 'lease_expired' then total = total + ended + died end
  if ARGV[1 + i] == 'dead' then total = total + died end
  reply[#reply + 1] = total
end
return reply
