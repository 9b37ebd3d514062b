-- @include config
-- @include time
-- claim_schedules: schedules whose time has come; they are this caller's for a while. The first claim since a schedule
-- ticked last writes down its instant, and everybody works out from that what is to be published: so whoever takes over
-- from a claimer that died publishes what that one would have, and no more.
-- KEYS[1] entries
-- KEYS[2] states
-- KEYS[3] due
-- ARGV[1] limit
-- ARGV[2] how long they are the caller's, ms; then they are anybody's again
-- ARGV[3] bytes of definitions, about; one comes whatever its size
-- returns: {now, when the next one's time comes (ms; 0: none), name, state, definition, …}
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
    -- Only a hand in Redis brings this about; it must not hold up the others.
    redis.call('ZREM', KEYS[3], name)
  else
    redis.call('ZADD', KEYS[3], held, name)
    if claimed_at == '0' then
      state = format_state(revision, paused, next_at, int(now), last_at, last_id, last_error)
      redis.call('HSET', KEYS[2], name, state)
    end
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3] = name, state, entry
  end
end
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
reply[2] = tonumber(first[2] or 0)
return reply
