-- @include budget
-- @include expire
-- @include fair
-- @include group
-- @include message
-- @include partition
-- @include reason
-- @include remove
-- @include room
-- @include time
-- @include waiting
-- change_messages: redrive, delete or make due messages, each for itself.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] what: 'redrive', 'delete', 'force' (a delete of leased ones too), 'purge' (a delete that totals count as a purge),
--   or 'run'
-- ARGV[3] the states, separated by commas, in which a message must be, otherwise nothing is done to it; '' for any
-- ARGV[4] key: that of the only message, whose member is '' then; or ''
-- ARGV[5] show: 1 if the message is to be shown, the only one
-- ARGV[6..] for each message, at most 32: member; due: delay in ms, or '@' before an instant. A `run` makes none due later
-- returns: {now, wake 0|1, code, …} or 'STALE'. Codes of as many messages as the call got to, one at least: 0 done, 1 there is
--   no such message in these states, 2 leased, 3 dead, 4 acked, 5 not dead, 6 its key is taken, 7 nothing to do: it is due as early,
--   8 the topic is full. After code 0 the message as `reasoned` has it, if it is to be shown
-- cost: HMGET, ZREM, TIME; up to 30 calls a message, 15 more if it is in a group; one HSTRLEN more for its events and its body;
--   for a redrive 7 more if the topic has a limit, and a sweep of 32 steps if it is full
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'sleep', 'rules', 'short', 'max_attempts')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now, up = now_ms()
local rules, what, states = parse_rules(meta[3]), ARGV[2], ARGV[3]
local earliest, redriven, shown = math.huge, 0, nil
local free = what == 'redrive' and room_of(k, now, rules, (#ARGV - 5) / 2)

-- Makes a waiting message due; its TTL starts again.
local function make_due(member, state, due, extra)
  local attempts, counted, max_attempts, priority, rest = parse_extra(extra)
  local flags, ttl, policy, hold, key, group, order = parse_rest(rest)
  step_out(k, member, group, order)
  -- Always: it tells that there are events.
  rest = format_rest(with_over(flags), ttl, policy, hold, key, group, order)
  redis.call('HSET', k.extra, member, format_extra(attempts, counted, max_attempts, priority, rest))
  due = reschedule(k, member, state, priority, due, due, ttl, group, order, now, true)
  if state ~= 'blocked' and due < earliest then earliest = due end
  add_change(k, member, up, true)
end

-- Carries it out for one message. Returns its code.
local function change(member, due)
  local state, at, extra
  if member then state, at, extra = settle(k, member, now, rules) end
  -- What has ended gave up its key.
  if not state or (ARGV[4] ~= '' and which_member(k, '', ARGV[4]) ~= member) then return 1 end
  if states ~= '' and not string.find(states, table.concat({ ',', state, ',' }), 1, true) then return 1 end
  if what == 'redrive' then
    if state ~= 'dead' then return 5 end
    if free == redriven then return 8 end
    local fresh, its, blocked = revive(k, member, due, now, up, extra, rules)
    if not fresh then return 6 end
    redriven = redriven + 1
    if not blocked and its < earliest then earliest = its end
    if ARGV[5] == '1' then
      local now_is = blocked and 'blocked' or (its > now and 'delayed' or 'ready')
      shown = reasoned(k, now, member, now_is, its, fresh, tonumber(meta[5]), rules)
    end
    return 0
  end
  if state == 'leased' then
    if what ~= 'force' then return 2 end
    redis.call('ZREM', k.unack, member)
    redis.call('ZREM', k.last, member)
    redis.call('HINCRBY', k.meta, 'deleted_leased', 1)
    wake_refused(k.meta, meta[4])
  end
  if what == 'run' then
    if state == 'dead' then return 3 end
    if state == 'acked' then return 4 end
    if due >= at then return 7 end
    make_due(member, state, due, extra)
    return 0
  end
  if state == 'acked' then
    redis.call('ZREM', k.acked, member)
    forget_all(k, { member }, { extra })
  else
    drop_all(k, { member }, what == 'purge' and 'purged' or 'deleted')
  end
  return 0
end

local reply = { now, 0 }
for i = 6, #ARGV, 2 do
  if i > 6 and not has_room(k) then break end
  local member = which_member(k, ARGV[i], ARGV[4])
  spend(k, 25)
  if member then spend_on(k, member) end
  reply[#reply + 1] = change(member, due_at(ARGV[i + 1], now, up))
end
reply[#reply + 1] = shown
if redriven > 0 then redis.call('HINCRBY', k.meta, 'redriven', redriven) end
reply[2] = wake(k.meta, meta[2], earliest)
return reply
