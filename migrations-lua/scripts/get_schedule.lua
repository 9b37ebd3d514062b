-- get_schedule: return a schedule.
-- KEYS[1] entries
-- KEYS[2] states
-- ARGV[1] name
-- returns: {state, definition}, or 'NONE'
-- cost: 2 HGET
local state, entry = redis.call('HGET', KEYS[2], ARGV[1]), redis.call('HGET', KEYS[1], ARGV[1])
if not state or not entry then return 'NONE' end
return { state, entry }
