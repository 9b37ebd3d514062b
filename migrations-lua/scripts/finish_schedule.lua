-- finish_schedule: note what became of a claimed schedule's ticks, and when it ticks next, unless somebody did so before
-- or has changed when it ticks.
-- KEYS[1] states
-- KEYS[2] due
-- ARGV[1] name
-- ARGV[2] first tick of the claim, ms
-- ARGV[3] when it was claimed first, ms
-- ARGV[4] when it ticks next, ms; 0 for never
-- ARGV[5] last tick, ms; 0 where none was made
-- ARGV[6] id of the message that was published last, or '-'
-- ARGV[7] why the last tick published nothing, or ''
-- returns: 'OK' or 'LOST'
-- cost: ZREM, HGET, HSET, ZADD or ZREM
redis.call('ZREM', KEYS[2], '')
local state = redis.call('HGET', KEYS[1], ARGV[1])
local revision, paused, next_at, claimed_at, last_at, last_id, last_error = parse_state(state)
local lost = next_at ~= ARGV[2] or claimed_at ~= ARGV[3]
-- A pause in the middle of the ticks ends the claim; what was made is there all the same, and is noted.
if lost and (paused ~= '1' or claimed_at ~= '0') then return 'LOST' end
-- Somebody may have triggered it meanwhile.
if tonumber(ARGV[5]) >= tonumber(last_at) then
  last_at, last_error = ARGV[5], ARGV[7]
  if ARGV[6] ~= '-' then last_id = ARGV[6] end
end
if not lost then next_at = ARGV[4] end
redis.call('HSET', KEYS[1], ARGV[1], format_state(revision, paused, next_at, '0', last_at, last_id, last_error))
if lost then return 'LOST' end
if ARGV[4] == '0' then
  redis.call('ZREM', KEYS[2], ARGV[1])
else
  redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
end
return 'OK'
