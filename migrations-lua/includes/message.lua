-- The stored parts of a message: its body, its `extra` and its events.
--
-- No script uses '%s': string.format ends at a NUL, and a key may contain one. An `extra` that cannot be read counts as
-- missing, and `dueq audit` repairs it. A script that failed half way would lose more.

-- The parts of an `extra`: grants so far, how many of them count, the message's own max_attempts ('' for the topic's), its
-- priority, and the rest. The rest is ',ttl,backoff,hold,key', or '' if the message has none of them. If the message is in a
-- group, `hold` is followed by the length of the group's name, a dot and the message's order, and `key` follows the name. A
-- message without an `extra` has (0, 0, '', 0, '').
local function parse_extra(extra)
  if not extra then return 0, 0, '', 0, '' end
  local attempts, counted, max_attempts, priority, rest = string.match(extra, '^(%d+),(%d+),(%d*),(%d+)(.*)$')
  if not attempts then return 0, 0, '', 0, '' end
  return tonumber(attempts), tonumber(counted), max_attempts, tonumber(priority), rest
end

local function format_extra(attempts, counted, max_attempts, priority, rest)
  return table.concat({ string.format('%d,%d,', attempts, counted), max_attempts, string.format(',%d', priority), rest })
end

-- The parts of the rest: 'o' if the TTL ended while the message was leased, or ''; its own TTL (ms or ''); its own backoff
-- policy or ''; how long it holds its key ('d' until done, 'g' until granted, 'f' no longer); its key or ''; its group or '';
-- its order in the group.
local function parse_rest(rest)
  if rest == '' then return '', '', '', '', '', '', '' end
  local over, ttl, policy, hold, length, order, key = string.match(rest, '^,(o?)(%d*),([^,]*),(%a?)(%d*)%.?(%x*),(.*)$')
  if not over then return '', '', '', '', '', '', '' end
  if length == '' then return over, ttl, policy, hold, key, '', '' end
  length = tonumber(length)
  return over, ttl, policy, hold, string.sub(key, length + 1), string.sub(key, 1, length), order
end

-- The rest as text, '' if all its parts are empty.
local function format_rest(over, ttl, policy, hold, key, group, order)
  if group ~= '' then
    return table.concat({ ',', over, ttl, ',', policy, ',', hold, string.format('%d.', #group), order, ',', group, key })
  end
  if over == '' and ttl == '' and policy == '' and key == '' then return '' end
  return table.concat({ ',', over, ttl, ',', policy, ',', hold, ',', key })
end

-- Returns whether this `extra` is well-formed.
local function sound_extra(extra)
  if not extra then return true end
  local priority, rest = string.match(extra, '^%d+,%d+,%d*,(%d+)(.*)$')
  if not priority or tonumber(priority) > 255 then return false end
  return rest == '' or string.match(rest, '^,o?%d*,[^,]*,%a?%d*%.?%x*,.*$') ~= nil
end

-- The `extra` of each member, by index. The table is empty if the topic has none at all: the usual case costs one EXISTS.
local function read_extras(extra_key, members)
  if #members == 0 or redis.call('EXISTS', extra_key) == 0 then return {} end
  return redis.call('HMGET', extra_key, unpack(members))
end

-- When the TTL of a message ends (ms), or false. The end of its own TTL is in `expires`. The topic's TTL counts from when
-- the message first fell due: that is in `first_due` if the message was granted since, and otherwise `due`.
local function expiry(k, member, rest, due, topic_ttl)
  local over, ttl = parse_rest(rest)
  if over == 'o' then return 0 end
  if ttl ~= '' then return tonumber(redis.call('ZSCORE', k.expires, member) or 0) end
  if not topic_ttl then return false end
  return tonumber(redis.call('ZSCORE', k.first_due, member) or due) + topic_ttl
end

-- When a message was published (ms): the first six bytes of its member.
local function published_at(member)
  local at = 0
  for i = 1, 6 do at = at * 256 + string.byte(member, i) end
  return at
end

-- Bytes of payload in a stored body: without its tag (one byte), and without the header and its length if it has one. A header of
-- more than 64 KiB counts as payload: a reply has to hold it.
local function payload_bytes(body)
  if not body then return 0 end
  local tag = string.byte(body, 1)
  if tag == 0 then return #body - 1 end
  if tag == 2 then return #body - 5 end
  return #body - 3 - string.byte(body, 2) * 256 - string.byte(body, 3)
end

-- One event as a line. `attempt` is 0 for none, `reason` JSON or ''.
local function event(kind, at, attempt, reason)
  return table.concat({ kind, string.format(' %d %d', at, attempt), reason == '' and '' or ' ', reason, '\n' })
end

-- Adds events to a message, which keeps the last 20. `before`: those that it has, if they were read.
local function add_events(k, member, lines, before)
  local text = table.concat({ before or redis.call('HGET', k.events, member) or '', lines })
  local ends, at = {}, string.find(text, '\n', 1, true)
  while at do
    ends[#ends + 1] = at
    at = string.find(text, '\n', at + 1, true)
  end
  if #ends > 20 then text = string.sub(text, ends[#ends - 20] + 1) end
  redis.call('HSET', k.events, member, text)
  -- A grant writes all events again, so leases check sizes from now on.
  if #text > 4096 then redis.call('HSET', k.meta, 'large', '1') end
end

-- Notes that a message was changed. If that happened last, too, the event is at least 1 ms later: so its events differ with
-- each change, however many there are in a moment, and say which content a reader saw.
local function add_change(k, member, up)
  local before = redis.call('HGET', k.events, member) or ''
  local last = string.match(string.sub(before, -24), 'u (%d+) 0\n$')
  add_events(k, member, event('u', math.max(up, tonumber(last or 0) + 1), 0, ''), before)
end

-- The member of a message: `member`, or if that is '' the live message that holds `key`; false if there is none.
local function which_member(k, member, key)
  if member ~= '' then return member end
  return redis.call('HGET', k.keys, key)
end

-- A message as answers show it: member, state, since or until when (ms), grants so far, counted grants that are left, its
-- `extra` or '', when its TTL ends (ms; 0: never or unknown), its events, its body ('' if `bodyless`).
local function snapshot(k, member, state, at, extra, topic_max, ttl, bodyless)
  local attempts, counted, max_attempts, _, rest = parse_extra(extra)
  if state == 'leased' then attempts, counted = attempts + 1, counted + 1 end
  if state == 'acked' then attempts, counted = attempts + 1, counted + 1 end
  local left = math.max((tonumber(max_attempts) or topic_max) - counted, 0)
  local over = false
  if state == 'delayed' or state == 'ready' or state == 'blocked' then over = expiry(k, member, rest, at, ttl) end
  return {
    member, state, at, attempts, left, extra or '', over or 0,
    redis.call('HGET', k.events, member) or '', not bodyless and redis.call('HGET', k.messages, member) or '',
  }
end
