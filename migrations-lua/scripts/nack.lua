-- @include backoff
-- @include budget
-- @include entry
-- @include fair
-- @include lease
-- @include message
-- @include partition
-- @include remove
-- @include time
-- @include waiting
-- nack: end a group of leases without an ack. A message waits again after a delay, is dead if its attempts are used up or
-- the caller asks for it, and is gone if its TTL has ended.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] n: nacks of different messages, at most 128
-- ARGV[3] epochs: fields of meta with the numbers of the tokens' epochs, between spaces
-- ARGV[4] common: the seal that all of them have, or ''
-- ARGV[5..] n members; n seals unless all have one; for each: kind ('n' failed, 'd' dead at once, 'r' released, 'w'
--   released because no slot was free, which is neither an event nor an attempt, 'u' returned unseen); delay (ms; '' for the backoff policy's;
--   after '<' capped at ten times the policy's longest; after '@' the due time itself); random unit for the jitter;
--   instant of the grant, for 'w' the end of the lease (ms); when the failed call began (ms) or '', for 'w' when the message was due;
--   its report, or else the reason (JSON) or '', for 'w' which place there was none of
-- returns: {now, wake 0|1, code and due or death ms for each, for 'w' when it was due before it was put off: 0 delayed, 1 lease lost, 2 no such message, 3 ready,
--   4 dead, 5 expired, 6 not looked at, because there is too much to write or to free, 7 blocked, since its group may have less leases than before} or 'STALE'
-- cost: 2 HMGET, ZREM, TIME, ZMSCORE, EXISTS a group; five to ten calls a message
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'sleep', 'max_attempts', 'backoff', 'rules', 'short')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now, up = now_ms()
local n = tonumber(ARGV[2])
local ttl = parse_rules(meta[5]).ttl
local members, seals, scores, extras = read_leases(ARGV, n, ARGV[3], k.meta, k.unack, k.last, k.extra)
local options = (ARGV[4] ~= '' and n or 2 * n) + 4
local reply, earliest = { now, 0 }, math.huge
local totals = { n = 0, d = 0, r = 0, u = 0, w = 0 }
for i = 1, n do
  local member, code, due = members[i], nil, 0
  local at = options + 6 * (i - 1)
  local kind, delay, called, reason = ARGV[at + 1], ARGV[at + 2], ARGV[at + 5], ARGV[at + 6]
  local deadline = holds(seals[i], scores[i], extras[i], now)
  if not has_room(k) then
    code = 6
  -- After 'w' the next grant has the same number. Its lease ends later, so a repeat does not end it.
  elseif not deadline or (kind == 'w' and deadline ~= tonumber(ARGV[at + 4])) then
    code = lost(k, member)
  else
    local attempts, counted, own_max, priority, rest = parse_extra(extras[i])
    local attempt = kind == 'w' and attempts or attempts + 1
    totals[kind] = totals[kind] + 1
    if kind == 'n' or kind == 'd' then counted = counted + 1 end
    local _, _, own_policy, _, _, group, order = parse_rest(rest)
    local policy = own_policy ~= '' and own_policy or meta[4]
    local after = 0
    if string.byte(delay) == 64 then
      due = tonumber(string.sub(delay, 2))
    else
      if string.byte(delay) == 60 then
        after = math.min(tonumber(string.sub(delay, 2)), 10 * longest_delay(policy))
      elseif delay ~= '' then
        after = tonumber(delay)
      elseif kind == 'n' then
        after = backoff(policy, counted, ARGV[at + 3])
      end
      due = after > 0 and up + after or now
    end
    spend(k, 12 + (redis.call('HSTRLEN', k.events, member) + #reason + #own_policy) / 100)
    spend_on_names(k, #(extras[i] or ''))
    -- Nothing fails from here on, since it is known where the message goes.
    redis.call('ZREM', k.unack, member)
    redis.call('ZREM', k.last, member)

    local over = kind ~= 'd' and expiry(k, member, rest, now, ttl)
    if over and over <= now then
      code, due = 5, now
      spend_on(k, member)
      drop_all(k, { member }, 'expired')
    else
      if kind ~= 'w' then redis.call('HSET', k.extra, member, format_extra(attempt, counted, own_max, priority, rest)) end
      local dead = kind == 'd' or (kind == 'n' and counted >= (tonumber(own_max) or tonumber(meta[3])))
      if kind ~= 'u' and kind ~= 'w' then
        local lines
        if called ~= '' then
          lines = event('c', tonumber(called), attempt, reason)
        else
          lines = event(kind == 'r' and 'r' or 'n', up, attempt, reason)
        end
        if attempts == 0 and called == '' then lines = table.concat({ event('g', tonumber(ARGV[at + 4]), attempt, ''), lines }) end
        if dead then lines = table.concat({ lines, event('d', up, attempt, '') }) end
        add_events(k, member, lines)
      end
      local since = kind == 'w' and called ~= '' and note_put_off(k, member, extras[i], due, tonumber(called), reason)
      if dead then
        code, due = 4, up
        bury(k, member, rest, up)
      else
        if kind == 'w' and attempts == 0 and group ~= '' then give_turn_back(k, group_id(group)) end
        code = wait_again(k, member, priority, due, now, group, order) and 7 or (due > now and 0 or 3)
        if due < earliest and code ~= 7 then earliest = due end
        due = since or due
      end
    end
  end
  reply[#reply + 1] = code
  reply[#reply + 1] = due
end
if totals.n + totals.d > 0 then redis.call('HINCRBY', k.meta, 'nacked', totals.n + totals.d) end
if totals.r + totals.w > 0 then redis.call('HINCRBY', k.meta, 'released', totals.r + totals.w) end
if totals.u > 0 then redis.call('HINCRBY', k.meta, 'returned', totals.u) end
if totals.n + totals.d + totals.r + totals.w + totals.u > 0 then wake_refused(k.meta, meta[6]) end
reply[2] = wake(k.meta, meta[2], earliest)
return reply
