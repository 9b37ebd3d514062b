-- @include config
-- trigger_schedule: record that a schedule has published out of turn.
-- KEYS[1] states
-- ARGV[1] name
-- ARGV[2] when, ms
-- ARGV[3] id of the message
-- returns: 'OK' or 'NONE'
-- cost: HGET, HDEL, HSET
local state = redis.call('HGET', KEYS[1], ARGV[1])
local revision, paused, next_at, claimed_at = parse_state(state)
if not revision then return 'NONE' end
-- A first write that removes nothing: the publish is recorded at maxmemory too.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], ARGV[1], format_state(revision, paused, next_at, claimed_at, ARGV[2], ARGV[3], ''))
return 'OK'
