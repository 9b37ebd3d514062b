-- One line of what happened to a message; `attempt` 0 for none, `reason` JSON or ''.
local function event(kind, at, attempt, reason)
  return table.concat({ kind, string.format(' %d %d', at, attempt), reason == '' and '' or ' ', reason, '\n' })
end

-- Adds lines to what happened to a message; the last 20 are kept.
local function add_events(k, member, lines)
  local text = table.concat({ redis.call('HGET', k.events, member) or '', lines })
  local ends, at = {}, string.find(text, '\n', 1, true)
  while at do
    ends[#ends + 1] = at
    at = string.find(text, '\n', at + 1, true)
  end
  if #ends > 20 then text = string.sub(text, ends[#ends - 20] + 1) end
  redis.call('HSET', k.events, member, text)
  -- A grant adds to them, too: leases look at sizes from now on.
  if #text > 4096 then redis.call('HSET', k.meta, 'large', '1') end
end

-- Events are written whole, up to 120 KB of a message. So a call counts those that it writes, ends after so many bytes,
-- and says what is left. Returns what is left of `room` after this message.
local EVENT_BYTES = 262144
local function room_after(k, member, room)
  return room - redis.call('HSTRLEN', k.events, member)
end

-- What it costs to free a message's body, in bytes of events that are written: 24 MiB take as long as 256 KiB.
local function to_free(k, member)
  return math.ceil(redis.call('HSTRLEN', k.messages, member) / 96)
end

-- What one call may do for others, however many steps it takes: events written (bytes), bodies freed (bytes; 1 MiB takes
-- some 50 to 100 µs), deaths of waiting messages. `short`: something was left for the next call.
local function new_budget()
  return { events = EVENT_BYTES, bytes = 25165824, deaths = 32, freed = false, short = false }
end
