-- ack: forget a group of messages whose leases are held by the tokens given.
-- KEYS[1] unack
-- KEYS[2] last
-- KEYS[3] messages
-- KEYS[4] extra
-- KEYS[5] meta
-- ARGV[1] number: the topic's
-- ARGV[2] n: acks, at most 256
-- ARGV[3..] n members, n seals
-- returns: n when all were good, otherwise for each 0 ok, 1 lease lost, 2 no such message; or 'STALE'
-- cost: HGET, ZREM, TIME, ZMSCORE, EXISTS, ZREM, HDEL, HINCRBY a group; one HEXISTS for each that fails
if redis.call('HGET', KEYS[5], 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', KEYS[1], '')
local now = now_ms()
local n = tonumber(ARGV[2])
local members, seals = { unpack(ARGV, 3, n + 2) }, { unpack(ARGV, n + 3, 2 * n + 2) }
local scores, extras = read_leases(members, seals, KEYS[1], KEYS[2], KEYS[4])
local codes, done, good = {}, {}, {}
for i = 1, n do
  local member = members[i]
  if done[member] then
    codes[i] = 2
  elseif holds(seals[i], scores[i], extras[i], now) then
    codes[i] = 0
    done[member] = true
    good[#good + 1] = member
  else
    codes[i] = redis.call('HEXISTS', KEYS[3], member) == 1 and 1 or 2
  end
end
if #good > 0 then
  local removed = redis.call('ZREM', KEYS[1], unpack(good))
  if removed < #good then redis.call('ZREM', KEYS[2], unpack(good)) end
  redis.call('HDEL', KEYS[3], unpack(good))
  if extras[1] ~= nil then redis.call('HDEL', KEYS[4], unpack(good)) end
  redis.call('HINCRBY', KEYS[5], 'acked', #good)
end
if #good == n then return n end
return codes
