-- ack: forget a group of messages whose leases are held by the tokens given.
-- KEYS[1] unack
-- KEYS[2] last
-- KEYS[3] messages
-- KEYS[4] extra
-- KEYS[5] meta
-- ARGV[1] number: the topic's
-- ARGV[2] n: acks of different messages, at most 256
-- ARGV[3] common: the seal that all have, or ''
-- ARGV[4..] n members; n seals unless all have one
-- returns: n when all were good, otherwise for each 0 ok, 1 lease lost, 2 no such message; or 'STALE'
-- cost: HGET, ZREM, TIME, ZMSCORE, EXISTS, ZREM, HDEL, HINCRBY a group; one HEXISTS for each that fails
if redis.call('HGET', KEYS[5], 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', KEYS[1], '')
local now = now_ms()
local n = tonumber(ARGV[2])

-- The usual group: first attempts of one run, all held.
if ARGV[3] ~= '' and redis.call('EXISTS', KEYS[4]) == 0 then
  local attempt, generation, last = open_seal(ARGV[3])
  local zset = last and KEYS[2] or KEYS[1]
  local least, good, before = (now + 1) * 2048, attempt == 1, nil
  local scores = redis.call('ZMSCORE', zset, unpack(ARGV, 4, n + 3))
  for i = 1, n do
    local score = scores[i]
    -- Messages leased together have one score: most need no second look.
    if score ~= before then
      before = score
      local number = score and tonumber(score) or 0
      if number < least or number % 2048 ~= generation then
        good = false
        break
      end
    end
  end
  if good then
    redis.call('ZREM', zset, unpack(ARGV, 4, n + 3))
    redis.call('HDEL', KEYS[3], unpack(ARGV, 4, n + 3))
    redis.call('HINCRBY', KEYS[5], 'acked', n)
    return n
  end
end

local members, seals, scores, extras = read_leases(ARGV, n, KEYS[1], KEYS[2], KEYS[4])
local codes, good = {}, {}
for i = 1, n do
  if holds(seals[i], scores[i], extras[i], now) then
    codes[i] = 0
    good[#good + 1] = members[i]
  else
    codes[i] = redis.call('HEXISTS', KEYS[3], members[i]) == 1 and 1 or 2
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
