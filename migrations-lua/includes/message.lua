-- The stored parts of a message: its body, its `extra` and its events.
--
-- No script uses '%s': string.format ends at a NUL, and a key may contain one. An `extra` that cannot be read counts as
-- missing, and `dueq audit` repairs it. A script that failed half way would lose more.

-- What was read in this call of extras that have a rest, and of such rests: a long one is read once.
local parsed_extras = {}
local parsed_rests = {}

-- The parts of an `extra`: grants so far (without those given back because no slot was free for the call), how many of
-- them count, the message's own max_attempts ('' for the topic's), its
-- priority, and the rest. The rest is ',ttl,backoff,hold,key', or '' if the message has none of them. If the message is in a
-- group, `hold` is followed by the length of the group's name, a dot and the message's order, and `key` follows the name. A
-- message without an `extra` has (0, 0, '', 0, '').
local function parse_extra(extra)
  if not extra then return 0, 0, '', 0, '' end
  -- Most of those in groups: never granted, and without options.
  if string.sub(extra, 1, 7) == '0,0,,0,' then return 0, 0, '', 0, string.sub(extra, 7) end
  local known = parsed_extras[extra]
  if known then return known[1], known[2], known[3], known[4], known[5] end
  local attempts, counted, max_attempts, priority, from = string.match(extra, '^(%d+),(%d+),(%d*),(%d+)()')
  if not attempts then return 0, 0, '', 0, '' end
  attempts, counted, priority = tonumber(attempts), tonumber(counted), tonumber(priority)
  if from > #extra then return attempts, counted, max_attempts, priority, '' end
  local rest = string.sub(extra, from)
  parsed_extras[extra] = { attempts, counted, max_attempts, priority, rest }
  return attempts, counted, max_attempts, priority, rest
end

local function format_extra(attempts, counted, max_attempts, priority, rest)
  return table.concat({ string.format('%d,%d,', attempts, counted), max_attempts, string.format(',%d', priority), rest })
end

-- The parts of the rest: flags ('o' if the TTL ended while the message was leased, 'a' if its ack is to be published, 'd' if its
-- death is, or ''); its own TTL (ms or ''); its own backoff
-- policy or ''; how long it holds its key ('d' until done, 'g' until granted, 'f' no longer); its key or ''; its group or '';
-- its order in the group.
local function parse_rest(rest)
  local known = parsed_rests[rest]
  if known then return unpack(known) end
  if rest == '' then return '', '', '', '', '', '', '' end
  local size, place, names = string.match(rest, '^,,,(%d+)%.(%x+),()')
  if size then return '', '', '', '', string.sub(rest, names + size), string.sub(rest, names, names + size - 1), place end
  -- A policy and names may be long, so no pattern goes through them.
  local over, ttl, at = string.match(rest, '^,(o?a?d?)(%d*),()')
  local comma = over and string.find(rest, ',', at, true)
  local hold, length, order, from
  if comma then hold, length, order, from = string.match(rest, '^(%a?)(%d*)%.?(%x*),()', comma + 1) end
  if not hold then return '', '', '', '', '', '', '' end
  length = tonumber(length) or 0
  known = {
    over, ttl, string.sub(rest, at, comma - 1), hold, string.sub(rest, from + length), string.sub(rest, from, from + length - 1),
    length > 0 and order or '',
  }
  parsed_rests[rest] = known
  return unpack(known)
end

-- The rest as text, '' if all its parts are empty.
local function format_rest(over, ttl, policy, hold, key, group, order)
  if group ~= '' then
    return table.concat({ ',', over, ttl, ',', policy, ',', hold, string.format('%d.', #group), order, ',', group, key })
  end
  if over == '' and ttl == '' and policy == '' and key == '' then return '' end
  return table.concat({ ',', over, ttl, ',', policy, ',', hold, ',', key })
end

-- Whether flags say that the TTL is over.
local function is_over(flags)
  return string.byte(flags) == 111
end

-- These flags for a message whose TTL is over, or is not.
local function with_over(flags, over)
  local others = string.gsub(flags, 'o', '')
  return over and table.concat({ 'o', others }) or others
end

-- Returns whether this `extra` is well-formed.
local function sound_extra(extra)
  if not extra then return true end
  local priority, rest = string.match(extra, '^%d+,%d+,%d*,(%d+)(.*)$')
  if not priority or tonumber(priority) > 255 then return false end
  return rest == '' or string.match(rest, '^,o?a?d?%d*,[^,]*,%a?%d*%.?%x*,.*$') ~= nil
end

-- The `extra` of each member, by index. The table is empty if the topic has none at all: the usual case costs one EXISTS.
local function read_extras(extra_key, members)
  if #members == 0 or redis.call('EXISTS', extra_key) == 0 then return {} end
  return redis.call('HMGET', extra_key, unpack(members))
end

-- The end of a TTL that has not begun: of a message that is blocked in a group with a rate.
local NEVER = 35184372088831

-- When the TTL of a message ends (ms), or false. The end of its own TTL is in `expires`. The topic's TTL counts from when
-- the message first fell due, in a group with a rate at the front: that is in `first_due` if it was granted since or was due
-- before, and otherwise `due`.
local function expiry(k, member, rest, due, topic_ttl)
  local over, ttl = parse_rest(rest)
  if is_over(over) then return 0 end
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
-- more than 64 KiB counts as payload: a reply has to hold it. So does all of a damaged body.
local function payload_bytes(body)
  if not body then return 0 end
  local tag, high, low = string.byte(body, 1, 3)
  if tag == 0 then return #body - 1 end
  local size = #body
  if tag == 2 then size = size - 5 end
  if tag == 1 and low then size = size - 3 - high * 256 - low end
  return size < 0 and #body or size
end

-- Notes how short a lease was that is shorter than its topic's.
local function note_short_lease(meta_key, ms)
  local shortest = redis.call('HGET', meta_key, 'shortest')
  if not shortest or ms < tonumber(shortest) then redis.call('HSET', meta_key, 'shortest', ms) end
end

-- When a message was granted first, by the end of its lease: no such instant is written. Where shorter leases were asked for
-- than the topic's, it is not known, but no earlier than this.
local function granted_by(k, member, deadline)
  local known = redis.call('HMGET', k.meta, 'lease_ms', 'shortest')
  return math.max(deadline - math.min(tonumber(known[1] or 30000), tonumber(known[2] or math.huge)), published_at(member))
end

-- How many bodies to read at once, at most `count`: HSCAN reads them whole. A few of them show how large they are.
local function page_count(k, count)
  if redis.call('HEXISTS', k.meta, 'large') == 0 then return count end
  local most = 1
  for _, member in ipairs(redis.call('HRANDFIELD', k.messages, 16)) do most = math.max(most, redis.call('HSTRLEN', k.messages, member)) end
  return math.max(math.min(math.floor(524288 / most), tonumber(count)), 1)
end

-- Counts the bytes of bodies that are about to be written, pairs of member and body, or else deleted: only in a partition
-- that counts them, which costs an HSTRLEN each (see weigh_partition). The tag of a body does not count.
local function weigh(k, bodies, deleted)
  if redis.call('HEXISTS', k.meta, 'bytes') == 0 then return end
  local bytes = 0
  for i = 1, #bodies, deleted and 1 or 2 do
    bytes = bytes + (deleted and 1 or #bodies[i + 1]) - math.max(redis.call('HSTRLEN', k.messages, bodies[i]), 1)
  end
  redis.call('HINCRBY', k.meta, 'bytes', string.format('%d', bytes))
end

-- One event as a line. `attempt` is 0 for none, `reason` JSON or ''.
local function event(kind, at, attempt, reason)
  return table.concat({ kind, string.format(' %d %d', at, attempt), reason == '' and '' or ' ', reason, '\n' })
end

-- Where the line lies that says that a message was put off; nil if there is none.
local function put_off_line(events)
  local from = string.sub(events, 1, 2) == 'p ' and 1 or string.find(events, '\np ', 1, true)
  if not from then return nil end
  if from > 1 then from = from + 1 end
  return from, (string.find(events, '\n', from, true))
end

-- Adds events to a message, which keeps the last 20, and whether it was put off. `before`: those that it has, if they were read.
local function add_events(k, member, lines, before)
  local text = table.concat({ before or redis.call('HGET', k.events, member) or '', lines })
  local ends, at = {}, string.find(text, '\n', 1, true)
  while at do
    ends[#ends + 1] = at
    at = string.find(text, '\n', at + 1, true)
  end
  if #ends > 20 then
    local cut, line = ends[#ends - 20], ''
    local from, upto = put_off_line(text)
    if from and from > cut then
      cut = ends[#ends - 21] or 0
    elseif from then
      line = string.sub(text, from, upto)
    end
    text = table.concat({ line, string.sub(text, cut + 1) })
  end
  redis.call('HSET', k.events, member, text)
  -- A grant writes all events again, so leases check sizes from now on.
  if #text > 4096 then redis.call('HSET', k.meta, 'large', '1') end
end

-- Notes that a message was changed. If that happened last, too, the event is at least 1 ms later: so its events differ with
-- each change, however many there are in a moment, and say which content a reader saw. `moved`: it has another due time, so it waits
-- after no failure any more.
local function add_change(k, member, up, moved)
  local before = redis.call('HGET', k.events, member) or ''
  local last = string.match(string.sub(before, -24), '[uU] (%d+) 0\n$')
  add_events(k, member, event(moved and 'U' or 'u', math.max(up, tonumber(last or 0) + 1), 0, ''), before)
end

-- Notes that a message which was due at `since` (ms) is put off until `due`, since its call had no place: of its host, of its address
-- or in total. Readers see no event. Returns when it was due: if `since` is when an earlier call was put off to, before that.
local function note_put_off(k, member, extra, due, since, place)
  local events = redis.call('HGET', k.events, member) or ''
  local from, upto = put_off_line(events)
  if from then
    local last_due, before = string.match(string.sub(events, from, upto), '^p (%d+) (%d+) ')
    if tonumber(last_due) == since then since = tonumber(before) end
    events = table.concat({ string.sub(events, 1, from - 1), string.sub(events, upto + 1) })
  end
  -- It tells that there are events.
  if not extra then redis.call('HSET', k.extra, member, format_extra(0, 0, '', 0, '')) end
  add_events(k, member, event('p', due, since, place), events)
  return since
end

-- Up to `most` messages that were put off until `due`: member, `due` and when it was due before, for each. Looks at 2048 that are
-- due then in each set, since others may be due at that time by themselves.
local function put_off_until(k, due, most)
  local found = {}
  for _, key in ipairs({ k.delayed, k.delayed_prio, k.blocked }) do
    for page = 0, 15 do
      local members = redis.call('ZRANGEBYSCORE', key, due, due, 'LIMIT', page * 128, 128)
      for _, member in ipairs(members) do
        if #found == most * 3 then return found end
        local events = redis.call('HGET', k.events, member) or ''
        local from, upto = put_off_line(events)
        local last_due, since = string.match(from and string.sub(events, from, upto) or '', '^p (%d+) (%d+) ')
        if last_due == due then
          local n = #found
          found[n + 1], found[n + 2], found[n + 3] = member, due, since
        end
      end
      if #members < 128 then break end
    end
  end
  return found
end

-- The member of a message: `member`, or if that is '' the live message that holds `key`; false if there is none.
local function which_member(k, member, key)
  if member ~= '' then return member end
  return redis.call('HGET', k.keys, key)
end

-- A message as answers show it: member, state, since or until when (ms), grants so far, counted grants that are left, its
-- `extra` or '', when its TTL ends (ms; 0: never or unknown) or for a leased one when it may have been granted, its events, its body ('' if `bodyless`).
local function snapshot(k, member, state, at, extra, topic_max, ttl, bodyless)
  local attempts, counted, max_attempts, _, rest = parse_extra(extra)
  if state == 'leased' then attempts, counted = attempts + 1, counted + 1 end
  if state == 'acked' then attempts, counted = attempts + 1, counted + 1 end
  local left = math.max((tonumber(max_attempts) or topic_max) - counted, 0)
  local over = false
  if state == 'delayed' or state == 'ready' or state == 'blocked' then over = expiry(k, member, rest, at, ttl) end
  if over == NEVER then over = false end
  if state == 'leased' then over = granted_by(k, member, at) end
  return {
    member, state, at, attempts, left, extra or '', over or 0,
    redis.call('HGET', k.events, member) or '', not bodyless and redis.call('HGET', k.messages, member) or '',
  }
end
