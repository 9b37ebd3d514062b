-- forecast_topic: how many messages fall due in each of the coming buckets of time.
-- KEYS[1] meta
-- KEYS[2] delayed
-- KEYS[3] delayed_prio
-- ARGV[1] topic: number and revision
-- ARGV[2] from: where the first bucket begins, ms; '' for now
-- ARGV[3] bucket, ms
-- ARGV[4] buckets, at most 128
-- returns: {from, count, …} or 'STALE'
-- cost: HGET, TIME, EXISTS; 1 or 2 ZCOUNT a bucket
if redis.call('HGET', KEYS[1], 'topic') ~= ARGV[1] then return 'STALE' end
local now = now_ms()
local from = ARGV[2] == '' and now or tonumber(ARGV[2])
local bucket = tonumber(ARGV[3])
local prio = redis.call('EXISTS', KEYS[3]) == 1
local reply = { from }
for i = 1, tonumber(ARGV[4]) do
  local start = from + (i - 1) * bucket
  -- What is due now is ready already.
  local low = start <= now and string.format('(%d', now) or int(start)
  local high = string.format('(%d', start + bucket)
  reply[i + 1] = redis.call('ZCOUNT', KEYS[2], low, high)
  if prio then reply[i + 1] = reply[i + 1] + redis.call('ZCOUNT', KEYS[3], low, high) end
end
return reply
