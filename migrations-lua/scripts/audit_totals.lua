-- @include partition
-- audit_totals: check the totals of a partition against its messages, in one snapshot. A total that cannot be read or is
-- negative counts as 0. Then totals are raised, never lowered, until every published message is present or gone, and every
-- grant is leased or over. Messages that vanished count as deleted, their leases as expired.
-- KEYS[1..] all of the partition's
-- ARGV[1] owner: number of the partition's topic when the walk began
-- ARGV[2] repair: 1 to write the totals as they should be
-- ARGV[3..] names of the totals
-- returns: {bodies, places, total, its value, its correct value, …} or 'STALE'
-- cost: HGET, ZREM, HLEN, 8 ZCARD, ZCOUNT, HMGET; HSET if it repairs
local k = partition(KEYS)
if owner(k.meta) ~= ARGV[1] then return 'STALE' end
if ARGV[2] == '1' then redis.call('ZREM', k.unack, '') end
local cards = {}
for number, key in ipairs({ k.unack, k.last, k.ready, k.delayed_prio, k.delayed, k.blocked, k.dead, k.acked }) do
  cards[number] = redis.call('ZCARD', key)
end
local leased = cards[1] + cards[2]
local there = leased + cards[3] + cards[4] + cards[5] + cards[6] + cards[7]

local before, total = {}, {}
local values = redis.call('HMGET', k.meta, unpack(ARGV, 3))
for i = 1, #values do
  local name, number = ARGV[2 + i], tonumber(values[i] or 0)
  before[i] = values[i] or '0'
  total[name] = number and number >= 0 and number % 1 == 0 and number < 9007199254740992 and number or 0
end
local function level(whole, rest, parts)
  local sum = rest
  for i = 1, #parts do sum = sum + total[parts[i]] end
  if total[whole] < sum then total[whole] = sum else total[parts[1]] = total[parts[1]] + total[whole] - sum end
end
level('published', there, { 'deleted', 'acked', 'expired', 'purged' })
level('granted', leased, { 'lease_expired', 'acked', 'nacked', 'released', 'deleted_leased', 'returned' })

-- A message that is on its way to the dead topic is nowhere else (see claim_dead).
local bodies, places = redis.call('HLEN', k.messages), there + cards[8] + redis.call('ZCOUNT', k.dead_out, '-inf', '(0')
-- Nor is one that has left before its end is published.
local left = bodies - places
if left > 0 and left <= redis.call('ZCOUNT', k.dead_out, 0, '+inf') then places = bodies end
local reply, fields = { bodies, places }, {}
for i = 1, #values do
  local name = ARGV[2 + i]
  if tonumber(before[i]) ~= total[name] then
    local after = string.format('%d', total[name])
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = name, before[i], after
    fields[#fields + 1], fields[#fields + 2] = name, after
  end
end
if ARGV[2] == '1' and #fields > 0 then redis.call('HSET', k.meta, unpack(fields)) end
return reply
