-- @include partition
-- @include sweep
-- @include time
-- close_partition: delete a topic's messages and leave a mark, so that no instance that still knows the topic writes here.
-- KEYS[1..] all of the partition's, and those of its history
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] number: the topic's
-- ARGV[3] how: 0 to close it only if it is empty; 1 to delete it with its messages; 2 the same at any revision of the topic,
--   since its first partition is closed; 3 to only say what 0 would
-- ARGV[4] how long the mark stays, ms
-- returns: how many messages went, or 'NOT_EMPTY', 'MORE' if the sweep left something, 'UNTOLD' if all that is left are
--   deaths to be published to the dead topic, or 'STALE'
-- cost: HMGET, 7 ZCARD, EXISTS, UNLINK, HSET, PEXPIRE
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'rules')
local how, more, messages = tonumber(ARGV[3]), false, 0
if how == 2 then
  -- Closed already, or of another topic by now.
  if owner(k.meta) ~= ARGV[2] then return 0 end
elseif meta[1] ~= ARGV[1] then
  return 'STALE'
end
local force = how == 1 or how == 2
if not force then
  redis.call('ZREM', k.unack, '')
  more = sweep(k, now_ms(), 128, parse_rules(meta[2]))
end
for _, key in ipairs({ k.delayed, k.delayed_prio, k.ready, k.blocked, k.unack, k.last, k.dead }) do
  messages = messages + redis.call('ZCARD', key)
end
if not force then
  if messages > 0 then return more and 'MORE' or 'NOT_EMPTY' end
  if redis.call('EXISTS', k.dead_out) == 1 then return 'UNTOLD' end
  if how == 3 then return 0 end
end
for _, key in ipairs({
  k.unack, k.last, k.delayed, k.messages, k.meta, k.extra, k.delayed_prio, k.ready, k.dead, k.keys, k.expires,
  k.first_due, k.events, k.acked, k.dead_out, k.heads, k.queued, k.blocked, k.rates, k.turns, k.offers, k.idem,
  k.idem_due, k.held, k.history, k.recent,
}) do redis.call('UNLINK', key) end
redis.call('HSET', k.meta, 'topic', table.concat({ '-', ARGV[2] }))
redis.call('PEXPIRE', k.meta, ARGV[4])
return messages
