-- @include config
-- @include time
-- create_topic: return a topic's entry in the registry, and create it if there is none.
-- KEYS[1] registry
-- KEYS[2] names
-- KEYS[3] index
-- ARGV[1] name
-- ARGV[2] most: how many numbers there are
-- returns: {created 0|1, 'number revision'} or 'FULL'
-- cost: HGET; TIME, 2 HGET, HINCRBY, 3 HSET, ZADD when it is new
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if entry then return { 0, entry } end
if tonumber(redis.call('HGET', KEYS[2], 'next') or 0) >= tonumber(ARGV[2]) then return 'FULL' end
local number = redis.call('HINCRBY', KEYS[2], 'next', 1)
entry = table.concat({ int(number), ' ', next_revision(KEYS[2], 'revision', now_ms()) })
redis.call('HSET', KEYS[2], int(number), ARGV[1])
redis.call('ZADD', KEYS[3], 0, ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], entry)
return { 1, entry }
