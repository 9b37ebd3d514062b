-- @include config
-- @include time
-- finish_schedule: record the result of a claimed schedule's ticks and its next tick, unless another instance has done so or
-- its timing has changed. The claim stays until all is done, so that an instance that takes over sees what is left: if the
-- next tick is after the claim, there is nothing to publish.
-- KEYS[1] entries
-- KEYS[2] states
-- KEYS[3] due
-- ARGV[1] name
-- ARGV[2] first tick of the claim, ms; the next tick once that is noted
-- ARGV[3] when it was claimed first, ms
-- ARGV[4] when it ticks next, ms; 0 for never
-- ARGV[5] last tick, ms; 0 if none was published
-- ARGV[6] id of the message that was published last, or '-'
-- ARGV[7] why the last tick published nothing, or ''
-- ARGV[8] generation of the schedule
-- ARGV[9] over: 1 if nothing is left to do
-- ARGV[10] limit: missed ticks that are remembered
-- ARGV[11..] ticks that published nothing, ms
-- returns: 'OK' or 'LOST'
-- cost: TIME, ZREM, 2 HGET, HSET, maybe ZADD or ZREM; HGET and HSET for missed ticks
redis.call('ZREM', KEYS[3], '')
local entry, state = redis.call('HGET', KEYS[1], ARGV[1]), redis.call('HGET', KEYS[2], ARGV[1])
-- Another schedule may have this name by now.
if not state or not entry or not string.find(entry, ARGV[8], 1, true) then return 'LOST' end
local revision, paused, next_at, claimed_at, last_at, last_id, last_error = parse_state(state)
-- Published ticks are recorded even if the schedule has changed since the claim. A user may have triggered it since. What is
-- recorded of a clock that was ahead is over.
if tonumber(ARGV[5]) >= tonumber(last_at) or tonumber(last_at) > now_ms() then
  last_at, last_error = ARGV[5], ARGV[7]
  if ARGV[6] ~= '-' then last_id = ARGV[6] end
end
local lost = next_at ~= ARGV[2] or claimed_at ~= ARGV[3]
if not lost then
  next_at = ARGV[4]
  if ARGV[9] == '1' then claimed_at = '0' end
end
redis.call('HSET', KEYS[2], ARGV[1], format_state(revision, paused, next_at, claimed_at, last_at, last_id, last_error))
if lost then return 'LOST' end
if #ARGV > 10 then add_missed(KEYS[2], ARGV[1], ARGV[8], tonumber(ARGV[10]), { unpack(ARGV, 11) }) end
if claimed_at ~= '0' then return 'OK' end
if ARGV[4] == '0' then
  redis.call('ZREM', KEYS[3], ARGV[1])
else
  redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
end
return 'OK'
