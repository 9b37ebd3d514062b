-- @include budget
-- @include lease
-- @include message
-- @include partition
-- @include remove
-- @include time
-- @include waiting
-- ack: delete a group of leased messages, or move them to the acked ones if the topic retains those.
-- KEYS[1] unack
-- KEYS[2] last
-- KEYS[3] messages
-- KEYS[4] extra
-- KEYS[5] meta
-- KEYS[6] keys
-- KEYS[7] expires
-- KEYS[8] first_due
-- KEYS[9] events
-- KEYS[10] acked
-- KEYS[11] dead_out
-- KEYS[12] heads; this and the rest only if the topic has messages in groups
-- KEYS[13] queued
-- KEYS[14] blocked
-- KEYS[15] rates
-- KEYS[16] delayed
-- KEYS[17] delayed_prio
-- KEYS[18] ready
-- KEYS[19] turns
-- KEYS[20] offers
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] n: acks of different messages, at most 128
-- ARGV[3] epochs: fields of meta with the numbers of the tokens' epochs, between spaces
-- ARGV[4] common: the seal that all of them have, or ''
-- ARGV[5..] n members; n seals unless all have one; if calls or results are to be kept, for each when its call began (ms; ''
--   for none), its report and the line of its result or ''
-- returns: n if all were good, otherwise for each 0 ok, 1 lease lost, 2 no such message, 3 ok again, 4 not looked at,
--   because there is too much to write or to free, 5 ok, and its completion is to be published; or 'STALE'
-- cost: HMGET, ZREM, TIME, ZMSCORE, EXISTS, ZREM, HDEL, HINCRBY a group; an HMGET more in a topic where some messages are
--   not plain, 5 calls more where some of the group are not; one HEXISTS for each that fails, one HGET for each that has a key;
--   2 to 6 calls more for each group of theirs, 8 a group of acks
local meta = redis.call('HMGET', KEYS[5], 'topic', 'rules', 'large', ARGV[3], 'short', 'bytes')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', KEYS[1], '')
local now, up = now_ms()
local n = tonumber(ARGV[2])

-- The usual group: first attempts of one epoch, all held, in a topic without a TTL that retains no acked messages.
local plain = not meta[2] or string.find(meta[2], '^%d,,,')
local most = n
if meta[3] then
  local rare = load_lazy()
  most = #rare.freeable({ messages = KEYS[3], extra = KEYS[4], events = KEYS[9], queued = KEYS[13], rates = KEYS[15] }, { unpack(ARGV, 5, n + 4) })
end
local own, known = ARGV[4] == '' or not meta[4], nil
if plain and not own and most == n and redis.call('EXISTS', KEYS[4]) == 1 then
  -- In a topic where a message failed once, most acked messages are still plain.
  known = redis.call('HMGET', KEYS[4], unpack(ARGV, 5, n + 4))
  for i = 1, n do own = own or known[i] end
end
if plain and not own and most == n then
  local seal, epoch = tonumber(ARGV[4]), meta[4] % 2048
  local zset = seal % 2 == 1 and KEYS[2] or KEYS[1]
  local least, good, before = (now + 1) * 2048, math.floor(seal / 4096) == 1, nil
  local scores = redis.call('ZMSCORE', zset, unpack(ARGV, 5, n + 4))
  for i = 1, n do
    local score = scores[i]
    -- Messages leased together have the same score.
    if score ~= before then
      before = score
      local number = score and tonumber(score) or 0
      if number < least or number % 2048 ~= epoch then
        good = false
        break
      end
    end
  end
  if good then
    redis.call('ZREM', zset, unpack(ARGV, 5, n + 4))
    if meta[6] then
      local rare = load_lazy()
      rare.weigh({ messages = KEYS[3], meta = KEYS[5] }, { unpack(ARGV, 5, n + 4) }, true)
    end
    redis.call('HDEL', KEYS[3], unpack(ARGV, 5, n + 4))
    redis.call('HINCRBY', KEYS[5], 'acked', n)
    if meta[5] then load_lazy().wake_refused(KEYS[5], meta[5]) end
    return n
  end
end

local lib = load_lazy()
local members, seals, scores, extras = lib.read_leases(ARGV, n, ARGV[3], KEYS[5], KEYS[1], KEYS[2], KEYS[4], known)
local acked_ms = lib.parse_rules(meta[2]).acked_ms
local codes, good, known, kept, repeated, reported, lines = {}, {}, {}, {}, 0, {}, {}
local notes = (ARGV[4] ~= '' and n or 2 * n) + 4
local k = { messages = KEYS[3], extra = KEYS[4], meta = KEYS[5], keys = KEYS[6], expires = KEYS[7], first_due = KEYS[8],
  events = KEYS[9], acked = KEYS[10], dead_out = KEYS[11], heads = KEYS[12], queued = KEYS[13], blocked = KEYS[14], rates = KEYS[15],
  delayed = KEYS[16], delayed_prio = KEYS[17], ready = KEYS[18], turns = KEYS[19], offers = KEYS[20] }
-- Events are written only for what is kept: retained messages, and those whose completion is to be published.
local noted, ended = #ARGV > notes, string.format('%d', up)
for i = 1, n do
  local member = members[i]
  if i > most or not lib.has_room(k) then
    codes[i] = 4
  elseif lib.holds(seals[i], scores[i], extras[i], now) then
    codes[i] = 0
    good[#good + 1] = member
    known[#good] = extras[i]
    if acked_ms > 0 then
      local _, epoch = lib.open_seal(seals[i])
      kept[2 * #good - 1], kept[2 * #good] = lib.pack_lease(up, epoch), member
    end
    local _, _, _, _, rest = lib.parse_extra(extras[i])
    if lib.is_reported(rest, 'a') then
      codes[i] = 5
      reported[#reported + 1], reported[#reported + 2] = ended, member .. 'a'
    end
    if noted and (acked_ms > 0 or codes[i] == 5) then
      local at, report, line = ARGV[notes + 3 * i - 2], ARGV[notes + 3 * i - 1], ARGV[notes + 3 * i]
      if at ~= '' then line = table.concat({ lib.event('c', tonumber(at), lib.open_seal(seals[i]), report), line }) end
      lib.spend(k, (redis.call('HSTRLEN', KEYS[9], member) + #line) / 100)
      lines[#good] = line
    end
    -- Where some are long, `freeable` has counted them.
    if not meta[3] then lib.spend_on_names(k, #(extras[i] or '')) end
  elseif acked_ms > 0 and lib.holds(seals[i], redis.call('ZSCORE', KEYS[10], member), extras[i], now - acked_ms) then
    codes[i], repeated = 3, repeated + 1
  else
    codes[i] = lib.lost(k, member)
  end
end
if #good > 0 then
  local removed = redis.call('ZREM', KEYS[1], unpack(good))
  if removed < #good then redis.call('ZREM', KEYS[2], unpack(good)) end
  if #reported > 0 then redis.call('ZADD', KEYS[11], unpack(reported)) end
  for i, line in pairs(lines) do
    if line ~= '' then lib.add_events(k, good[i], line) end
  end
  if acked_ms > 0 or #reported == 2 * #good then
    if acked_ms > 0 then redis.call('ZADD', KEYS[10], unpack(kept)) end
    redis.call('ZREM', KEYS[7], unpack(good))
    redis.call('ZREM', KEYS[8], unpack(good))
    lib.let_names_go(k, good, known)
    lib.trim_acked(k, #good + 16)
  elseif extras[1] == nil and plain then
    if meta[6] then lib.weigh(k, good, true) end
    redis.call('HDEL', KEYS[3], unpack(good))
  else
    lib.forget_all(k, good, known)
  end
  redis.call('HINCRBY', KEYS[5], 'acked', #good)
  lib.wake_refused(KEYS[5], meta[5])
end
for i = 1, n do
  if codes[i] ~= 0 then return codes end
end
return n
