-- @include partition
-- @include sweep
-- @include time
-- sweep: end expired leases, TTLs, retention and idempotency keys of a partition.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] limit: messages of each kind, at most 128
-- returns: {now, more 0|1, when to sweep again (ms; 0: never), expired, dead, lease_expired, 1 if deaths are to be
--   published to the dead topic} or 'STALE'
-- cost: HMGET, ZREM, TIME, EXISTS; where there is anything 8 ranges, 11 looks for the next time; up to 12 calls for each message
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'rules', 'expired', 'dead', 'lease_expired', 'raised')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now = now_ms()
local rules = parse_rules(meta[2])
-- In most topics nothing ends.
local some = redis.call('EXISTS', k.unack, k.last, k.expires, k.dead, k.acked, k.dead_out, k.idem_due, k.delayed_prio, k.rates)
if not rules.ttl and not meta[6] and some == 0 then
  return { now, 0, 0, 0, 0, 0, 0 }
end
local more = sweep(k, now, tonumber(ARGV[2]), rules)
local totals = redis.call('HMGET', k.meta, 'expired', 'dead', 'lease_expired')
local following = next_sweep(k, rules)
-- What seems to be over is not, where messages have TTLs of their own.
if not more and following > 0 and following <= now then following = now + 1000 end
local reply = { now, more and 1 or 0, following }
for i = 1, 3 do reply[3 + i] = tonumber(totals[i] or 0) - tonumber(meta[2 + i] or 0) end
reply[7] = redis.call('EXISTS', k.dead_out)
return reply
