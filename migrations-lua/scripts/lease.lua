-- lease: grant ready messages to a group of wants, first want first; ends leases that are over on the way.
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
-- ARGV[2] generation: of this Redis run
-- ARGV[3] waits: 1 when the caller will sleep for what it does not get
-- ARGV[4] wants: how many, at most 256
-- ARGV[5] sized: 1 when a want's max_bytes is below 256 KiB, so that every size has to be looked at
-- ARGV[6..] for each want max_messages, max_bytes, lease_ms, begun (1: it has messages from an earlier call)
-- returns: {now, next event ms (0: none, or not asked), more 0|1, leases ended, of them dead, topic's max_attempts, granted for each want,
--   members, due times or ranks, bodies, {attempt, attempts left, priority, …} (empty: all plain)} or 'STALE'
-- cost: HMGET, ZREM, TIME, 3 ZRANGEBYSCORE, ZCARD, ZCOUNT, ZPOPMIN, HMGET, EXISTS, ZADD, HINCRBY a group; at most
--   256 messages and 256 KiB; 4 ZRANGE and an HSET more when it waits in vain
local LIMIT, REPLY_BYTES = 256, 262144
local meta = redis.call('HMGET', KEYS[5], 'topic', 'max_attempts', 'large')
if meta[1] ~= ARGV[1] then return 'STALE' end
-- A first write that removes, and misses: at maxmemory everything after it is let through.
redis.call('ZREM', KEYS[1], '')
local now = now_ms()
local wants = tonumber(ARGV[4])
local ended, died, more = expire_leases(now, LIMIT, KEYS[1], KEYS[2], KEYS[3], KEYS[7], KEYS[8], KEYS[9], KEYS[6], KEYS[5])
-- Order by priority holds only once all that is due stands in `ready`: grant nothing before.
local unpromoted = promote(now, LIMIT, KEYS[7], KEYS[8], KEYS[6])

local wanted = 0
for i = 1, wants do wanted = wanted + tonumber(ARGV[2 + 4 * i]) end
local most = math.min(wanted, LIMIT)
if unpromoted then most = 0 end

local members, dues, bodies, granted = {}, {}, {}, {}
for i = 1, wants do granted[i] = 0 end
local capped = unpromoted
local ranked = most > 0 and math.min(most, redis.call('ZCARD', KEYS[8])) or 0

if meta[3] or ARGV[5] == '1' then
  -- Sizes matter: look at one body after the other, take what fits.
  local seen = {}
  if ranked > 0 then seen = redis.call('ZRANGE', KEYS[8], 0, ranked - 1, 'WITHSCORES') end
  if most > ranked then
    local plain = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'WITHSCORES', 'LIMIT', 0, most - ranked)
    for i = 1, #plain do seen[#seen + 1] = plain[i] end
  end
  local want, used, total, next_one = 1, 0, 0, 1
  while next_one < #seen and want <= wants do
    local max_messages, max_bytes = tonumber(ARGV[2 + 4 * want]), tonumber(ARGV[3 + 4 * want])
    local begun = granted[want] > 0 or ARGV[5 + 4 * want] == '1'
    local body = redis.call('HGET', KEYS[4], seen[next_one])
    local size = payload_bytes(body)
    if #members > 0 and total + size > REPLY_BYTES then
      capped = true
      break
    end
    if granted[want] == max_messages or (begun and used + size > max_bytes) then
      want, used = want + 1, 0
    else
      local k = #members + 1
      members[k], dues[k], bodies[k] = seen[next_one], seen[next_one + 1], body
      granted[want], used, total = granted[want] + 1, used + size, total + size
      next_one = next_one + 2
    end
  end
  local popped = math.min(ranked, #members)
  if popped > 0 then redis.call('ZREM', KEYS[8], unpack(members, 1, popped)) end
  if #members > popped then redis.call('ZREM', KEYS[3], unpack(members, popped + 1)) end
  ranked = popped
else
  local popped = {}
  if ranked > 0 then popped = redis.call('ZPOPMIN', KEYS[8], ranked) end
  if most > ranked then
    local due = math.min(most - ranked, redis.call('ZCOUNT', KEYS[3], '-inf', now))
    if due > 0 then
      local plain = redis.call('ZPOPMIN', KEYS[3], due)
      for i = 1, #plain do popped[#popped + 1] = plain[i] end
    end
  end
  for i = 1, #popped, 2 do
    members[#members + 1] = popped[i]
    dues[#dues + 1] = popped[i + 1]
  end
  local left = #members
  for i = 1, wants do
    granted[i] = math.min(left, tonumber(ARGV[2 + 4 * i]))
    left = left - granted[i]
  end
  if #members > 0 then bodies = redis.call('HMGET', KEYS[4], unpack(members)) end
end
if #members == LIMIT and wanted > LIMIT then capped = true end

local attempts_of = {}
if #members > 0 then
  for i = 1, ranked do dues[i] = int(rank_due(dues[i])) end
  local generation = tonumber(ARGV[2])
  local extras = read_extras(KEYS[6], members)
  local topic_max = tonumber(meta[2])
  local normal, final, k = {}, {}, 0
  for i = 1, wants do
    local score = granted[i] > 0 and pack_lease(now + tonumber(ARGV[4 + 4 * i]), generation)
    for _ = 1, granted[i] do
      k = k + 1
      local attempts, counted, own_max, priority = 0, 0, '', 0
      if extras[k] then attempts, counted, own_max, priority = parse_extra(extras[k]) end
      local left = (tonumber(own_max) or topic_max) - counted - 1
      if extras[1] ~= nil then
        attempts_of[3 * k - 2] = attempts + 1
        attempts_of[3 * k - 1] = math.max(left, 0)
        attempts_of[3 * k] = priority
      end
      local target = left > 0 and normal or final
      target[#target + 1] = score
      target[#target + 1] = members[k]
    end
  end
  if #normal > 0 then redis.call('ZADD', KEYS[1], unpack(normal)) end
  if #final > 0 then redis.call('ZADD', KEYS[2], unpack(final)) end
  redis.call('HINCRBY', KEYS[5], 'granted', #members)
end

local next_at = 0
if ARGV[3] == '1' and not capped then
  next_at = next_event(KEYS[1], KEYS[2], KEYS[3], KEYS[7])
  redis.call('HSET', KEYS[5], 'sleep', next_at == 0 and '9007199254740992' or int(next_at))
end
return { now, next_at, (capped or more) and 1 or 0, ended, died, tonumber(meta[2]), granted, members, dues, bodies, attempts_of }
