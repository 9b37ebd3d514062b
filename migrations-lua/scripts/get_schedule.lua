-- @include config
-- get_schedule: return a schedule.
-- KEYS[1] entries
-- KEYS[2] states
-- ARGV[1] name
-- returns: {state, definition, missed ticks as they are kept, or ''}, or 'NONE'
-- cost: 3 HGET
local state, entry = redis.call('HGET', KEYS[2], ARGV[1]), redis.call('HGET', KEYS[1], ARGV[1])
if not state or not entry then return 'NONE' end
return { state, entry, redis.call('HGET', KEYS[2], missed_field(ARGV[1])) or '' }
