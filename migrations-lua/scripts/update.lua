-- @include expire
-- @include fair
-- @include group
-- @include message
-- @include partition
-- @include reason
-- @include remove
-- @include time
-- @include waiting
-- update: change a waiting or dead message in place, by its id or its key.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] member, or '' if a key is given
-- ARGV[3] key
-- ARGV[4] due: delay in ms, '@' before an instant, or '' as it is
-- ARGV[5] priority, or '' as it is
-- ARGV[6] ttl: ms, '' the topic's, '-' as it is
-- ARGV[7] max_attempts: number, '' the topic's, '-' as it is
-- ARGV[8] backoff: policy, '' the topic's, '-' as it is
-- ARGV[9] new body, or '' if it stays
-- ARGV[10] the message from which the caller made the new body: by its key another one may be found by now
-- ARGV[11] its events then: every change of a body adds one that differs from the last
-- returns: {now, wake 0|1, the message as `reasoned` has it, without a body if the caller gave one,
--   1 if the update made it die}; 'NONE', 'LEASED', 'DEAD', 'ACKED'; 'CHANGED' if it is another message by now, or has other
--   events; or 'STALE'
-- cost: HMGET, HSTRLEN, HSET or ZREM, TIME, HGET, up to 9 ZSCORE; up to 13 writes; up to 10 calls more for its reason
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'sleep', 'max_attempts', 'rules')
if meta[1] ~= ARGV[1] then return 'STALE' end
local member = which_member(k, ARGV[2], ARGV[3])
if member and #ARGV[9] > redis.call('HSTRLEN', k.messages, member) then
  -- At maxmemory Redis refuses this first write, and nothing has changed.
  local probe = redis.pcall('HSET', k.meta, 'topic', ARGV[1])
  if type(probe) == 'table' and probe.err then return probe end
else
  redis.call('ZREM', k.unack, '')
end
local now, up = now_ms()
local rules = parse_rules(meta[4])
local state, due, extra
if member then state, due, extra = settle(k, member, now, rules) end
if not state or (ARGV[2] == '' and which_member(k, '', ARGV[3]) ~= member) then return 'NONE' end
if state == 'leased' then return 'LEASED' end
if state == 'acked' then return 'ACKED' end
if state == 'dead' and ARGV[4] ~= '' then return 'DEAD' end
if ARGV[9] ~= '' and (member ~= ARGV[10] or (redis.call('HGET', k.events, member) or '') ~= ARGV[11]) then return 'CHANGED' end

local attempts, counted, max_attempts, priority, rest = parse_extra(extra)
local over, ttl, policy, hold, key, group, order = parse_rest(rest)
if ARGV[5] ~= '' then priority = tonumber(ARGV[5]) end
if ARGV[7] ~= '-' then max_attempts = ARGV[7] end
if ARGV[8] ~= '-' then policy = ARGV[8] end
if ARGV[9] ~= '' then
  weigh(k, { member, ARGV[9] })
  redis.call('HSET', k.messages, member, ARGV[9])
  if #ARGV[9] > 1024 then redis.call('HSET', k.meta, 'large', '1') end
end

local dies, began = false, nil
if state ~= 'dead' then
  -- When its TTL began. A new TTL counts from there too; a new due time restarts it.
  if ttl ~= '' then
    local ends = tonumber(redis.call('ZSCORE', k.expires, member) or due + ttl)
    began = ends < NEVER and ends - ttl or math.max(due, now)
  else
    began = tonumber(redis.call('ZSCORE', k.first_due, member) or due)
  end
  if ARGV[4] ~= '' then
    due = due_at(ARGV[4], now, up)
    began, over = due, with_over(over)
  end
  if ARGV[6] ~= '-' then ttl, over = ARGV[6], with_over(over) end
  dies = is_spent(counted, max_attempts, tonumber(meta[3]))
elseif ARGV[6] ~= '-' then
  ttl = ARGV[6]
end
if began then step_out(k, member, group, order) end
extra = format_extra(attempts, counted, max_attempts, priority, format_rest(over, ttl, policy, hold, key, group, order))
redis.call('HSET', k.extra, member, extra)
if began and not dies then
  due = reschedule(k, member, state, priority, due, began, ttl, group, order, now, ARGV[4] ~= '')
  if state ~= 'blocked' then state = due > now and 'delayed' or 'ready' end
end
add_change(k, member, up, ARGV[4] ~= '')
local woken = 0
if dies then
  -- Fewer attempts are allowed than it has failed.
  for _, zset in ipairs({ k.delayed, k.delayed_prio, k.ready, k.blocked }) do redis.call('ZREM', zset, member) end
  add_events(k, member, event('d', up, attempts, ''))
  state, due = 'dead', up
  bury(k, member, format_rest(over, ttl, policy, hold, key, group, order), up)
elseif state ~= 'dead' and state ~= 'blocked' then
  woken = wake(k.meta, meta[2], due)
end
return { now, woken, reasoned(k, now, member, state, due, extra, tonumber(meta[3]), rules, ARGV[9] ~= ''), dies and 1 or 0 }
