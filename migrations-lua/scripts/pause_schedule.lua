-- @include config
-- @include time
-- pause_schedule: pause or resume a schedule. Ticks that are due but unpublished at a pause are skipped.
-- KEYS[1] states
-- KEYS[2] due
-- ARGV[1] name
-- ARGV[2] revision that the caller worked from
-- ARGV[3] paused 0|1
-- ARGV[4] when it ticks next, ms; 0 for never
-- returns: 'OK', or 'CHANGED' if it has another revision by now or is gone
-- cost: TIME, 2 HGET, ZREM, 2 HSET, maybe ZADD
local state = redis.call('HGET', KEYS[1], ARGV[1])
local revision, _, _, _, last_at, last_id, last_error = parse_state(state)
if revision ~= ARGV[2] then return 'CHANGED' end
redis.call('ZREM', KEYS[2], ARGV[1])
revision = next_revision(KEYS[1], ':revision', now_ms())
redis.call('HSET', KEYS[1], ARGV[1], format_state(revision, ARGV[3], ARGV[4], '0', last_at, last_id, last_error))
if ARGV[4] ~= '0' then redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1]) end
return 'OK'
