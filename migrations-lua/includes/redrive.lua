-- Makes a dead message live again, due at `due`, with a fresh budget of attempts and of time. Returns its new `extra`, or
-- false when another live message has its key; and what that other may have cost, in bytes of events that are written.
local function revive(k, member, due, now, up, extra, rules)
  local attempts, _, max_attempts, priority, rest = parse_extra(extra)
  local _, ttl, policy, hold, key = parse_rest(rest)
  local seen = 0
  if key ~= '' and hold ~= 'f' then
    local holder = redis.call('HGET', k.keys, key)
    if holder and holder ~= member then
      seen = redis.call('HSTRLEN', k.events, holder) + to_free(k, holder)
      local state = settle(k, holder, now, rules)
      if state == 'delayed' or state == 'ready' or state == 'leased' then return false, seen end
    end
    redis.call('HSET', k.keys, key, member)
  end
  local fresh = format_extra(attempts, 0, max_attempts, priority, format_rest('', ttl, policy, hold, key))
  redis.call('HSET', k.extra, member, fresh)
  redis.call('ZREM', k.dead, member)
  if ttl ~= '' then redis.call('ZADD', k.expires, string.format('%d', due + tonumber(ttl)), member) end
  place(member, priority, due, now, k.delayed, k.delayed_prio, k.ready)
  add_events(k, member, event('v', up, 0, ''))
  return fresh, seen
end
