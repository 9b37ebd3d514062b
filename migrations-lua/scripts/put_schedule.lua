-- @include config
-- @include time
-- put_schedule: write a schedule's definition and, if its timing changed, its next tick.
-- KEYS[1] entries
-- KEYS[2] states
-- KEYS[3] due
-- KEYS[4] index
-- ARGV[1] name
-- ARGV[2] revision that the caller worked from; '' if there was none
-- ARGV[3] definition
-- ARGV[4] when it ticks next, ms; 0 for never; '' if that stays
-- ARGV[5] moved: 1 if it publishes to another topic than before
-- ARGV[6] when its ticks were claimed as far as the caller knows, ms; 0: they were not
-- returns: 'OK'; 'CHANGED' if it has another revision by now; 'CLAIMED' if ticks of it are being published, which the other
--   topic would get a second time, or have been claimed since
-- cost: TIME, 2 HGET, 3 HSET, up to two of ZADD and ZREM
local state = redis.call('HGET', KEYS[2], ARGV[1])
local revision, paused, next_at, claimed_at, last_at, last_id, last_error = parse_state(state)
if (revision or '') ~= ARGV[2] then return 'CHANGED' end
if ARGV[5] == '1' and ARGV[4] == '' and claimed_at ~= '0' then return 'CLAIMED' end
if ARGV[4] ~= '' and (claimed_at or '0') ~= ARGV[6] then return 'CLAIMED' end
revision = next_revision(KEYS[2], ':revision', now_ms())
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
if not paused then
  redis.call('ZADD', KEYS[4], 0, ARGV[1])
  paused, last_at, last_id, last_error = '0', '0', '-', ''
end
if ARGV[4] ~= '' then
  next_at, claimed_at = ARGV[4], '0'
  if paused == '1' then next_at = '0' end
  if next_at == '0' then
    redis.call('ZREM', KEYS[3], ARGV[1])
  else
    redis.call('ZADD', KEYS[3], next_at, ARGV[1])
  end
end
redis.call('HSET', KEYS[2], ARGV[1], format_state(revision, paused, next_at, claimed_at, last_at, last_id, last_error))
return 'OK'
