-- get: one message as it stands, without changing anything.
-- KEYS[1] unack
-- KEYS[2] last
-- KEYS[3] delayed
-- KEYS[4] messages
-- KEYS[5] meta
-- KEYS[6] extra
-- KEYS[7] delayed_prio
-- KEYS[8] ready
-- KEYS[9] dead
-- ARGV[1] number: the topic's
-- ARGV[2] member
-- returns: {now, state, due | deadline | death ms, attempts, attempts left, priority, body}, 'NONE' or 'STALE'
-- cost: HMGET, TIME, HGET, HGET and up to 6 ZSCORE
local meta = redis.call('HMGET', KEYS[5], 'topic', 'max_attempts')
if meta[1] ~= ARGV[1] then return 'STALE' end
local now = now_ms()
local member = ARGV[2]
local body = redis.call('HGET', KEYS[4], member)
if not body then return 'NONE' end
local attempts, counted, own_max, priority = parse_extra(redis.call('HGET', KEYS[6], member))
local state, at

local score = redis.call('ZSCORE', KEYS[3], member) or redis.call('ZSCORE', KEYS[7], member)
if score then
  at = tonumber(score)
  state = at > now and 'delayed' or 'ready'
else
  score = redis.call('ZSCORE', KEYS[8], member)
  if score then state, at = 'ready', rank_due(score) end
end
if not score then
  score = redis.call('ZSCORE', KEYS[9], member)
  if score then state, at = 'dead', tonumber(score) end
end
if not score then
  local normal = redis.call('ZSCORE', KEYS[1], member)
  score = normal or redis.call('ZSCORE', KEYS[2], member)
  if not score then return 'NONE' end
  at = unpack_lease(score)
  attempts, counted = attempts + 1, counted + 1
  if at > now then
    state = 'leased'
  else
    state = normal and 'ready' or 'dead'
  end
end
local left = math.max((tonumber(own_max) or tonumber(meta[2])) - counted, 0)
return { now, state, at, attempts, left, priority, body }
