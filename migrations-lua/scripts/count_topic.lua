-- count_topic: the counts and totals of one partition, one consistent snapshot.
-- KEYS[1] unack
-- KEYS[2] last
-- KEYS[3] delayed
-- KEYS[4] meta
-- KEYS[5] delayed_prio
-- KEYS[6] ready
-- KEYS[7] dead
-- ARGV[1] number: the topic's
-- ARGV[2..] names of the totals
-- returns: {now, delayed, ready, leased, dead, earliest ready due (0: none), next due (0: none), totals…} or 'STALE'
-- cost: 8 ZCOUNT or ZCARD, 5 ZRANGE, one more for each distinct priority among the ready; HMGET
if redis.call('HGET', KEYS[4], 'topic') ~= ARGV[1] then return 'STALE' end
local now = now_ms()
local over = int(now * 2048 + 2047)
local due = redis.call('ZCOUNT', KEYS[3], '-inf', now)
local due_prio = redis.call('ZCOUNT', KEYS[5], '-inf', now)
local ranked = redis.call('ZCARD', KEYS[6])
local ended = redis.call('ZCOUNT', KEYS[1], '-inf', over)
local died = redis.call('ZCOUNT', KEYS[2], '-inf', over)
local leased = redis.call('ZCARD', KEYS[1]) + redis.call('ZCARD', KEYS[2]) - ended - died
local later = redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[5]) - due - due_prio

local oldest, next_due = 0, 0
local function older(at)
  if at and (oldest == 0 or at < oldest) then oldest = at end
end
for _, key in ipairs({ KEYS[3], KEYS[5] }) do
  local first = tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
  if first and first <= now then older(first) end
  local coming = redis.call('ZRANGEBYSCORE', key, '(' .. int(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if coming and (next_due == 0 or tonumber(coming) < next_due) then next_due = tonumber(coming) end
end
if ended > 0 then older((unpack_lease(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]))) end
-- The first of each priority is its oldest: step from one priority to the next.
local first = redis.call('ZRANGE', KEYS[6], 0, 0, 'WITHSCORES')[2]
while first do
  local at = rank_due(first)
  older(at)
  first = redis.call('ZRANGEBYSCORE', KEYS[6], int(tonumber(first) - at + 35184372088832), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
end

local reply = { now, later, due + due_prio + ranked + ended, leased, redis.call('ZCARD', KEYS[7]) + died, oldest, next_due }
local totals = redis.call('HMGET', KEYS[4], unpack(ARGV, 2))
for i = 1, #totals do
  local total = tonumber(totals[i] or 0)
  -- Leases that are over count already, whoever comes to end them.
  if ARGV[1 + i] == 'lease_expired' then total = total + ended + died end
  if ARGV[1 + i] == 'dead' then total = total + died end
  reply[#reply + 1] = total
end
return reply
