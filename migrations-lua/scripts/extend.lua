-- @include lease
-- @include message
-- @include time
-- @include waiting
-- extend: make a group of leases longer, never past the cap, and shorter only where that is asked for.
-- KEYS[1] unack
-- KEYS[2] last
-- KEYS[3] messages
-- KEYS[4] extra
-- KEYS[5] meta
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] n: extensions of different messages, at most 128
-- ARGV[3] epochs: fields of meta with the numbers of the tokens' epochs, between spaces
-- ARGV[4] common: the seal that all of them have, or ''
-- ARGV[5..] n members; n seals unless all have one; n lease_ms (negative if the lease may get shorter), n caps (ms: the latest
--   deadline that the lease may have)
-- returns: {now, now rounded up, code and deadline ms for each: 0 ok, 1 lease lost, 2 no such message} or 'STALE'
-- cost: HGET, HMGET, ZREM, TIME, ZMSCORE, EXISTS a group; one ZADD a message, and one HMGET more if its lease gets shorter
if redis.call('HGET', KEYS[5], 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', KEYS[1], '')
local now, up = now_ms()
local n = tonumber(ARGV[2])
local members, seals, scores, extras = read_leases(ARGV, n, ARGV[3], KEYS[5], KEYS[1], KEYS[2], KEYS[4])
local options = (ARGV[4] ~= '' and n or 2 * n) + 4
local reply = { now, up }
for i = 1, n do
  local member, code = members[i], 0
  local deadline = holds(seals[i], scores[i], extras[i], now)
  if deadline then
    local lease = tonumber(ARGV[options + i])
    local wanted = math.min(up + math.abs(lease), tonumber(ARGV[options + n + i]))
    local sooner = lease < 0 and wanted < deadline
    if wanted > deadline or sooner then
      local _, epoch, last = open_seal(seals[i])
      deadline = wanted
      redis.call('ZADD', last and KEYS[2] or KEYS[1], pack_lease(deadline, epoch), member)
      -- Consumers may sleep until the lease would have ended.
      if sooner then
        note_short_lease(KEYS[5], deadline - ARGV[options + n + i] + 43200000)
        local marks = redis.call('HMGET', KEYS[5], 'sleep', 'short')
        wake(KEYS[5], marks[1], deadline)
        wake_refused(KEYS[5], marks[2])
      end
    end
  else
    code, deadline = redis.call('HEXISTS', KEYS[3], member) == 1 and 1 or 2, 0
  end
  reply[#reply + 1] = code
  reply[#reply + 1] = deadline
end
return reply
