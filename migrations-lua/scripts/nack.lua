-- nack: end a group of leases without an ack: back after a delay, or dead when the attempts are used up.
-- KEYS[1] unack
-- KEYS[2] last
-- KEYS[3] messages
-- KEYS[4] extra
-- KEYS[5] meta
-- KEYS[6] delayed
-- KEYS[7] delayed_prio
-- KEYS[8] ready
-- KEYS[9] dead
-- ARGV[1] number: the topic's
-- ARGV[2] n: nacks of different messages, at most 256
-- ARGV[3] common: the seal that all have, or ''
-- ARGV[4..] n members; n seals unless all have one; n delays (ms; '' for the backoff policy's; '@' before a due time: returned unseen,
--   which does not count as an attempt), n random units for the backoff's jitter
-- returns: {now, wake 0|1, code and due or death ms for each: 0 delayed, 1 lease lost, 2 no such message, 3 ready,
--   4 dead} or 'STALE'
-- cost: HMGET, ZREM, TIME, ZMSCORE, EXISTS a group; three writes a message
local meta = redis.call('HMGET', KEYS[5], 'topic', 'sleep', 'max_attempts', 'backoff')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', KEYS[1], '')
local now = now_ms()
local n = tonumber(ARGV[2])
local members, seals, scores, extras = read_leases(ARGV, n, KEYS[1], KEYS[2], KEYS[4])
local options = (ARGV[3] ~= '' and n or 2 * n) + 3
local reply, nacked, returned, died, earliest = { now, 0 }, 0, 0, 0, math.huge
for i = 1, n do
  local member, code, due = members[i], nil, 0
  if not holds(seals[i], scores[i], extras[i], now) then
    code = redis.call('HEXISTS', KEYS[3], member) == 1 and 1 or 2
  else
    local delay = ARGV[options + i]
    local attempts, counted, own_max, priority = parse_extra(extras[i])
    local unseen = string.byte(delay) == 64
    if not unseen then counted = counted + 1 end
    redis.call('ZREM', KEYS[1], member)
    redis.call('ZREM', KEYS[2], member)
    redis.call('HSET', KEYS[4], member, format_extra(attempts + 1, counted, own_max, priority))
    if unseen then
      returned = returned + 1
      due = tonumber(string.sub(delay, 2))
    else
      nacked = nacked + 1
      if delay == '' then delay = backoff(meta[4], counted, ARGV[options + n + i]) end
      due = now + tonumber(delay)
    end
    if not unseen and counted >= (tonumber(own_max) or tonumber(meta[3])) then
      code, due, died = 4, now, died + 1
      redis.call('ZADD', KEYS[9], due, member)
    else
      code = due > now and 0 or 3
      place(member, priority, due, now, KEYS[6], KEYS[7], KEYS[8])
      if due < earliest then earliest = due end
    end
  end
  reply[#reply + 1] = code
  reply[#reply + 1] = due
end
if nacked > 0 then redis.call('HINCRBY', KEYS[5], 'nacked', nacked) end
if returned > 0 then redis.call('HINCRBY', KEYS[5], 'returned', returned) end
if died > 0 then redis.call('HINCRBY', KEYS[5], 'dead', died) end
reply[2] = wake(KEYS[5], meta[2], earliest)
return reply
