-- Takes due messages while they fit into what is wanted and, with the events that a grant adds to, into `reply_bytes`, one
-- body after the other. `wants` holds, from
-- index 5 on and `step` apart, max_messages, lease_ms and, when step is 4, max_bytes and begun. Returns what it took as
-- member, due, …; the bodies; how many for each want; how many came from `ready`; whether the reply is full.
local function take_by_size(now, most, ranked, wants, step, reply_bytes, ready, delayed, messages, events)
  local seen = {}
  if ranked > 0 then seen = redis.call('ZRANGE', ready, 0, ranked - 1, 'WITHSCORES') end
  if most > ranked then
    local plain = redis.call('ZRANGEBYSCORE', delayed, '-inf', now, 'WITHSCORES', 'LIMIT', 0, most - ranked)
    for i = 1, #plain do seen[#seen + 1] = plain[i] end
  end
  local found, bodies, granted, members = {}, {}, {}, {}
  local want, total, full = 5, 0, false
  local retried = redis.call('EXISTS', events) == 1
  local count, used = 0, 0
  local at = 1
  while at < #seen and want <= #wants do
    if #members > 0 and total >= reply_bytes then
      full = true
      break
    end
    local max_bytes = step == 4 and tonumber(wants[want + 2]) or math.huge
    local begun = count > 0 or (step == 4 and wants[want + 3] == '1')
    local body = redis.call('HGET', messages, seen[at])
    local size = payload_bytes(body)
    local whole = size + (retried and redis.call('HSTRLEN', events, seen[at]) or 0)
    if #members > 0 and total + whole > reply_bytes then
      full = true
      break
    end
    if count == tonumber(wants[want]) or (begun and used + size > max_bytes) then
      granted[#granted + 1] = count
      want, count, used = want + step, 0, 0
    else
      members[#members + 1] = seen[at]
      found[at], found[at + 1] = seen[at], seen[at + 1]
      bodies[#members] = body
      count, used, total, at = count + 1, used + size, total + whole, at + 2
    end
  end
  granted[#granted + 1] = count
  local popped = math.min(ranked, #members)
  if popped > 0 then redis.call('ZREM', ready, unpack(members, 1, popped)) end
  if #members > popped then redis.call('ZREM', delayed, unpack(members, popped + 1)) end
  return found, bodies, granted, popped, full
end
