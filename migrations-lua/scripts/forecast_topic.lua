-- @include partition
-- @include sweep
-- @include time
-- forecast_topic: how many messages fall due in each of the coming buckets of time.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] from: where the first bucket begins, ms; '' for now
-- ARGV[3] bucket, ms
-- ARGV[4] buckets, at most 128
-- returns: {from, count, …} or 'STALE'
-- cost: HMGET, TIME, 2 EXISTS; 1 to 3 ZCOUNT a bucket; from now on as sweep, of 64 messages of each kind
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'rules')
if meta[1] ~= ARGV[1] then return 'STALE' end
local now = now_ms()
local from = tonumber(ARGV[2])
if not from then
  from = now
  -- A message whose TTL has ended no longer falls due.
  redis.call('ZREM', k.unack, '')
  sweep(k, now, 64, parse_rules(meta[2]))
end
local bucket = tonumber(ARGV[3])
local prio = redis.call('EXISTS', k.delayed_prio) == 1
local groups = redis.call('EXISTS', k.blocked) == 1
local reply = { from }
for i = 1, tonumber(ARGV[4]) do
  local start = from + (i - 1) * bucket
  -- Messages that are due now count as ready.
  local low = start <= now and string.format('(%d', now) or int(start)
  local high = string.format('(%d', start + bucket)
  reply[i + 1] = redis.call('ZCOUNT', k.delayed, low, high)
  if prio then reply[i + 1] = reply[i + 1] + redis.call('ZCOUNT', k.delayed_prio, low, high) end
  if groups then reply[i + 1] = reply[i + 1] + redis.call('ZCOUNT', k.blocked, low, high) end
end
return reply
