-- @include config
-- @include time
-- load_schedule: store a schedule of a dump with its next tick and what is known of the last, unless there is one of its name.
-- KEYS[1] entries
-- KEYS[2] states
-- KEYS[3] due
-- KEYS[4] index
-- ARGV[1] name
-- ARGV[2] definition
-- ARGV[3] paused: 0 or 1
-- ARGV[4] when it ticks next, ms; 0 for never, and while it is paused
-- ARGV[5] when its present tick was claimed, ms, or 0
-- ARGV[6] when it last ticked, ms, or 0
-- ARGV[7] the message that was published then, or -
-- ARGV[8] why none was published, or ''
-- returns: 1, or 0 if there is one
-- cost: HEXISTS, TIME, HGET, 3 HSET, 2 ZADD
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return 0 end
local revision = next_revision(KEYS[2], ':revision', now_ms())
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[4], 0, ARGV[1])
if ARGV[4] ~= '0' then redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1]) end
redis.call('HSET', KEYS[2], ARGV[1], format_state(revision, ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]))
return 1
