-- @include budget
-- @include entry
-- @include expire
-- @include fair
-- @include grant
-- @include group
-- @include lease
-- @include message
-- @include partition
-- @include time
-- @include waiting
-- lease: grant ready messages to a group of wants, first want first. Ends expired leases before that.
-- KEYS[1] unack
-- KEYS[2] last
-- KEYS[3] delayed
-- KEYS[4] messages
-- KEYS[5] meta
-- KEYS[6] extra
-- KEYS[7] delayed_prio
-- KEYS[8..15] ready and the partition's up to dead_out
-- KEYS[16..21] those of groups; only if the topic has messages in groups
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] epoch: its name if Redis hides the replication ID, 12 hex digits
-- ARGV[3] waits: 1 if the caller will sleep until the next event; 2 more if dueq sends the messages itself, and notes the
--   call as an event rather than the grant
-- ARGV[4] sized: 1 if a want has a smaller limit than a reply, so that every size has to be checked; 2 if there is one, and it
--   may have several messages of a group
-- ARGV[5] max_leased: how many leases the topic may have, if they are all here; or ''
-- ARGV[6] the shortest lease_ms of the wants if it is shorter than the topic's, or ''
-- ARGV[7..] for each want max_messages, lease_ms; if sized also max_bytes, begun (1: it has messages from an earlier
--   call). Wants in a row with the same lease_ms are one, unless sized
-- returns: {now, now rounded up, next event ms (0: none, or not asked), more 0|1, leases ended, messages that died,
--   messages expired, topic's max_attempts, epoch ('' if nothing is granted), 'member due …', bodies, 'attempt attempts-left
--   priority …' ('': all plain), {key, group, …} (empty: none has one), granted for each want (empty unless sized: in order)}
--   without the last three if all are empty; or 'STALE'. If dueq sends the messages itself, a key is in the reply only if the
--   message gives it up when its call begins
-- cost: HMGET, ZREM, TIME, EXISTS, ZCOUNT, ZCOUNT a group, and INFO, HGET, ZPOPMIN, HMGET, ZADD, HINCRBY where something is
--   due; at most 128 messages and 256 KiB; 4 to 8 calls more where there are messages that are not plain; 4 ZRANGE and
--   an HSET if it waits and nothing is due, and an EXISTS if there are such messages
local LIMIT, REPLY_BYTES = 128, 262144
local meta = redis.call('HMGET', KEYS[5], 'topic', 'max_attempts', 'large', 'rules', 'lowered')
if meta[1] ~= ARGV[1] then return 'STALE' end
-- A first write that removes nothing: at maxmemory Redis then lets everything after it through.
redis.call('ZREM', KEYS[1], '')
local now, up = now_ms()
local ttl, k, lib
if meta[4] then
  lib = load_lazy()
  local rules = lib.parse_rules(meta[4])
  if rules.paused then
    -- Sleeping consumers need not wake for new messages. A resume wakes them.
    redis.call('HSET', KEYS[5], 'sleep', '-1')
    return { now, up, 0, 0, 0, 0, 0, tonumber(meta[2]), '', '', {} }
  end
  ttl = rules.ttl
end
-- One call checks for all data that plain messages never have.
local special = ttl or redis.call('EXISTS', KEYS[2], KEYS[6], KEYS[7], KEYS[8]) > 0
local ended, died, expired, more = 0, 0, 0, false
if special or redis.call('ZCOUNT', KEYS[1], '-inf', int(now * 2048 + 2047)) > 0 then
  lib = lib or load_lazy()
  k = lib.partition(KEYS)
  ended, died, expired, more = lib.end_leases(k, now, 32, ttl)
  -- A message whose lease has just ended has an `extra` now.
  special = special or ended > 0
end
-- Where some of what is read is long, it is half as much at a time.
local limit = special and meta[3] and LIMIT / 2 or LIMIT
-- The order by priority holds only once all due messages are in `ready`, so nothing is granted before.
local unpromoted = special and lib.promote(now, limit, KEYS[7], KEYS[8], KEYS[6]) == limit

local sized = ARGV[4] == '1'
local step = sized and 4 or 2
local wanted = 0
for i = 7, #ARGV, step do wanted = wanted + tonumber(ARGV[i]) end
local asked, free = math.min(wanted, limit), tonumber(ARGV[5])
if free then
  local held = string.format('(%d', now * 2048 + 2047)
  free = math.max(free - redis.call('ZCOUNT', KEYS[1], held, '+inf') - redis.call('ZCOUNT', KEYS[2], held, '+inf'), 0)
  asked = math.min(asked, free)
end
local most, capped = asked, unpromoted
local rated, fair, several
if special and KEYS[16] then
  local _, interval, _, order, _, own_rates = lib.group_rules(k)
  -- Also after the rate was taken away, as long as heads have turns of it.
  rated, fair = interval or own_rates or redis.call('EXISTS', k.turns) == 1, order == '1'
  several = ARGV[4] == '2' and not (rated or order)
  if fair then
    rated, k.front, k.unpromoted = false, lib.fair_front, unpromoted
    capped = lib.wake_groups(k, now) or capped
  end
end
if unpromoted and not fair then most = 0 end
-- A message of a group whose rate has no turn for it yet is not granted.
local before = expired + died
if rated and most > 0 then most = lib.hold_early(k, now, most, 3) end
-- A message whose TTL has ended is never granted, nor one that has used up its attempts after max_attempts was lowered.
if special and most > 0 and (ttl or meta[5] or redis.call('EXISTS', k.expires) == 1) then
  local dropped, buried, clear = lib.clear_head(k, now, up, most, ttl, meta[5] and tonumber(meta[2]))
  expired, died = expired + dropped, died + buried
  most = clear and most or 0
end
-- What has come to the front instead.
if rated and most > 0 and expired + died > before then most = lib.hold_early(k, now, most, 2) end
if special then most = math.min(most, lib.room_for(k, fair and 32 or ((several or meta[3]) and 20 or 8))) end
capped = capped or most < asked
local ranked, due, line, line_dues = 0, 0, nil, nil
if fair and most > 0 then
  line, line_dues = lib.fair_front(k, now, most)
  due, capped = #line, capped or k.cut
elseif not fair then
  ranked = special and most > 0 and math.min(most, redis.call('ZCARD', KEYS[8])) or 0
  due = most > ranked and math.min(most - ranked, redis.call('ZCOUNT', KEYS[3], '-inf', now)) or 0
end
local epoch, number = '', 0
if ranked + due > 0 then epoch, number = present_epoch(KEYS[5], ARGV[2]) end

-- found: member, due, …, all text; its first `ranked` pairs come from `ready`.
local found, bodies, granted, extras = {}, {}, {}, nil
if ranked + due > 0 and several then
  local full
  found, bodies, granted, ranked, full = lib.take_groups(k, now, most, REPLY_BYTES, ttl, tonumber(meta[2]))
  capped = capped or full
elseif ranked + due > 0 and (sized or meta[3]) then
  local full
  lib = lib or load_lazy()
  found, bodies, granted, ranked, full = lib.take_by_size(k or lib.partition(KEYS), now, most, ARGV, step, REPLY_BYTES, special)
  capped = capped or full
elseif fair then
  if due > 0 then extras = lib.take_line(k, line) end
  for i = 1, due do found[2 * i - 1], found[2 * i] = line[i], int(line_dues[i]) end
else
  if ranked > 0 then found = redis.call('ZPOPMIN', KEYS[8], ranked) end
  if due > 0 then
    local plain = redis.call('ZPOPMIN', KEYS[3], due)
    if ranked == 0 then
      found = plain
    else
      for i = 1, #plain do found[2 * ranked + i] = plain[i] end
    end
  end
end
local taken = #found / 2
if taken == limit and wanted > limit then capped = true end

local facts, names = {}, {}
if taken > 0 then
  for i = 2, 2 * ranked, 2 do found[i] = int(lib.rank_due(found[i])) end
  local leases, members, at = {}, {}, 0
  local want = 7
  while at < taken do
    local upto = math.min(taken, at + (granted[(want - 7) / step + 1] or tonumber(ARGV[want])))
    local score = pack_lease(up + tonumber(ARGV[want + 1]), number)
    for i = at + 1, upto do
      local member = found[2 * i - 1]
      members[i] = member
      leases[2 * i - 1] = score
      leases[2 * i] = member
    end
    at, want = upto, want + step
  end
  if #bodies == 0 then bodies = redis.call('HMGET', KEYS[4], unpack(members)) end

  local topic_max = tonumber(meta[2])
  extras = extras or (special and lib.read_extras(KEYS[6], members)) or {}
  if ttl then lib.remember_first_due(k, found, extras) end
  if rated then lib.take_turns(k, now, found, extras) end
  -- In a topic where a message failed once, most granted messages are still plain.
  local own = false
  for i = 1, extras[1] ~= nil and taken or 0 do own = own or extras[i] end
  if not own and topic_max > 1 then
    redis.call('ZADD', KEYS[1], unpack(leases))
  else
    lib = lib or load_lazy()
    local plain, named = {}, false
    for i = 1, taken do
      local attempts, left, priority, key, group = 0, topic_max - 1, 0, '', ''
      if extras[i] then
        local counted, own_max, rest
        attempts, counted, own_max, priority, rest = lib.parse_extra(extras[i])
        left = math.max((tonumber(own_max) or topic_max) - counted - 1, 0)
        if attempts > 0 and ARGV[3] < '2' then lib.add_events(k, members[i], lib.event('g', up, attempts + 1, '')) end
        if rest ~= '' then
          if ARGV[3] < '2' then
            key, group = lib.grant_key(k, members[i], extras[i], rest)
          else
            key, group = lib.call_key(rest)
          end
        end
      end
      facts[i] = string.format('%d %d %d', attempts + 1, left, priority)
      names[2 * i - 1], names[2 * i], named = key, group, named or key ~= '' or group ~= ''
      if left > 0 then
        plain[#plain + 1], plain[#plain + 2] = leases[2 * i - 1], members[i]
      else
        redis.call('ZADD', KEYS[2], leases[2 * i - 1], members[i])
      end
    end
    if not named then names = {} end
    if #plain > 0 then redis.call('ZADD', KEYS[1], unpack(plain)) end
  end
  redis.call('HINCRBY', KEYS[5], 'granted', taken)
  if ARGV[6] ~= '' then (lib or load_lazy()).note_short_lease(KEYS[5], tonumber(ARGV[6])) end
end

-- Of what was planned by now, some may be due.
if rated and lib.plan_marked(k, now, now) then capped = true end
local next_at = 0
local waits = (ARGV[3] == '1' or ARGV[3] == '3') and not capped
if waits and taken == free and taken < wanted then
  -- Whatever ends a lease wakes them (`wake_refused`); an older dueq does not.
  redis.call('HSET', KEYS[5], 'short', '1')
  next_at = math.min((lib or load_lazy()).next_end(KEYS[1], KEYS[2]), up + 1000)
elseif waits then
  lib = lib or load_lazy()
  next_at = lib.next_event(KEYS[1], KEYS[2], KEYS[3], KEYS[7])
  -- A small max_bytes may have left some.
  if special and redis.call('EXISTS', KEYS[8]) == 1 then next_at = now end
  if fair then
    local instant = k.more and now or lib.next_instant(k)
    if next_at == 0 or instant < next_at then next_at = instant < math.huge and instant or 0 end
  end
  redis.call('HSET', KEYS[5], 'sleep', next_at == 0 and '9007199254740992' or int(next_at))
end
local places = table.concat(found, ' ')
local reply = { now, up, next_at, (capped or more) and 1 or 0, ended, died, expired, tonumber(meta[2]), epoch, places, bodies }
if #facts > 0 or #granted > 0 then
  reply[12], reply[13], reply[14] = table.concat(facts, ' '), names, granted
end
return reply
