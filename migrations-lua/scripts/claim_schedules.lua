-- @include config
-- @include time
-- claim_schedules: claim schedules that are due. The first claim since the last tick records its instant, and the ticks to
-- publish follow from that instant. So an instance that takes over from one that died publishes the same ticks.
-- KEYS[1] entries
-- KEYS[2] states
-- KEYS[3] due
-- ARGV[1] limit
-- ARGV[2] how long the claim lasts, ms
-- ARGV[3] bytes of definitions to return, about; one at least
-- returns: {now, when the next one is due (ms; 0: none), name, state, definition, '', …}
-- cost: TIME, 2 ZRANGEBYSCORE; HSTRLEN, 2 HGET, ZADD, HSET for each
local now, most, bytes = now_ms(), tonumber(ARGV[3]), 0
local names = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, ARGV[1])
local held, reply = int(now + tonumber(ARGV[2])), { now, 0 }
for i = 1, #names do
  local name = names[i]
  bytes = bytes + redis.call('HSTRLEN', KEYS[1], name)
  if bytes > most and #reply > 2 then break end
  local state, entry = redis.call('HGET', KEYS[2], name), redis.call('HGET', KEYS[1], name)
  local revision, paused, next_at, claimed_at, last_at, last_id, last_error = parse_state(state)
  if not entry or paused ~= '0' or next_at == '0' then
    -- Only a manual change in Redis leads here. It must not block other schedules.
    redis.call('ZREM', KEYS[3], name)
  else
    redis.call('ZADD', KEYS[3], held, name)
    if claimed_at == '0' then
      state = format_state(revision, paused, next_at, int(now), last_at, last_id, last_error)
      redis.call('HSET', KEYS[2], name, state)
    end
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = name, state, entry, ''
  end
end
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
reply[2] = tonumber(first[2] or 0)
return reply
