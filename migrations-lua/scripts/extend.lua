-- @include lease
-- @include message
-- @include partition
-- @include time
-- @include waiting
-- extend: make a group of leases longer, never past the cap, and shorter only where that is asked for.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] n: extensions of different messages, at most 128
-- ARGV[3] epochs: fields of meta with the numbers of the tokens' epochs, between spaces
-- ARGV[4] common: the seal that all of them have, or ''
-- ARGV[5..] n members; n seals unless all have one; n lease_ms (negative if the lease may get shorter), n caps (ms: the latest
--   deadline that the lease may have)
-- returns: {now, now rounded up, code and deadline ms for each: 0 ok, 1 lease lost, 2 no such message} or 'STALE'
-- cost: HGET, HMGET, ZREM, TIME, ZMSCORE, EXISTS a group; one ZADD a message, and one HMGET more if its lease gets shorter
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now, up = now_ms()
local n = tonumber(ARGV[2])
local members, seals, scores, extras = read_leases(ARGV, n, ARGV[3], k.meta, k.unack, k.last, k.extra)
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
      redis.call('ZADD', last and k.last or k.unack, pack_lease(deadline, epoch), member)
      -- Consumers may sleep until the lease would have ended.
      if sooner then
        note_short_lease(k.meta, deadline - ARGV[options + n + i] + 43200000)
        local marks = redis.call('HMGET', k.meta, 'sleep', 'short')
        wake(k.meta, marks[1], deadline)
        wake_refused(k.meta, marks[2])
      end
    end
  else
    code, deadline = lost(k, member), 0
  end
  reply[#reply + 1] = code
  reply[#reply + 1] = deadline
end
return reply
