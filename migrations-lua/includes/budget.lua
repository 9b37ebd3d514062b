-- What one call does: everything that clients can make large or many counts, in µs of Redis on a usual machine. The table of
-- keys `k` has the sum, since all steps of a call share it.

-- A call that has done this much leaves the rest for the next one.
local ROOM = 2000

local function has_room(k)
  return (k.spent or 0) < ROOM
end

-- How many steps of so many µs there is still room for; some in any case.
local function room_for(k, micros)
  return math.max(math.floor((ROOM - (k.spent or 0)) / micros), 16)
end

local function spend(k, micros)
  k.spent = (k.spent or 0) + micros
end

-- Counts that a message leaves whose `extra` has so many bytes. If these may be names, its key becomes free, and another one of its
-- group may go.
local function spend_on_names(k, bytes)
  k.leaving = k.leaving or (k.queued and redis.call('EXISTS', k.queued, k.rates) > 0 and 32 or 18)
  spend(k, (bytes > 16 and k.leaving or 3) + bytes / 80)
end

-- Counts that a message leaves or dies: its body is freed, or its events are written again as a whole.
local function spend_on(k, member)
  local bytes = redis.call('HSTRLEN', k.events, member) + redis.call('HSTRLEN', k.messages, member) / 96
  spend(k, bytes / 100)
  spend_on_names(k, redis.call('HSTRLEN', k.extra, member))
end

-- Returns as many of these messages, from the first on, as the call has room to free. The first of a call always goes. Notes in
-- `k.short` that some are left.
local function freeable(k, members)
  for i = 1, #members do
    if k.freed and not has_room(k) then
      k.short = true
      return { unpack(members, 1, i - 1) }
    end
    k.freed = true
    spend_on(k, members[i])
  end
  return members
end
