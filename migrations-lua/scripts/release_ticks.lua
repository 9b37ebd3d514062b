-- @include time
-- release_ticks: limit the time for which the idempotency keys of recorded ticks answer. Before, they answer for years, in
-- case no instance is running to record the ticks.
-- KEYS[1] idem
-- KEYS[2] idem_due
-- KEYS[3] meta
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] how long they answer from now on, ms
-- ARGV[3..] idempotency keys of the ticks, at most 128
-- returns: 'OK' or 'STALE'
-- cost: HGET, ZREM, TIME; HGET, HSET, ZADD for each
if redis.call('HGET', KEYS[3], 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', KEYS[2], '')
local over = int(now_ms() + tonumber(ARGV[2]))
for i = 3, #ARGV do
  local answer = string.match(redis.call('HGET', KEYS[1], ARGV[i]) or '', '^%d+(,.*)$')
  if answer then
    redis.call('HSET', KEYS[1], ARGV[i], table.concat({ over, answer }))
    redis.call('ZADD', KEYS[2], over, ARGV[i])
  end
end
return 'OK'
