-- @include config
-- @include time
-- create_topic: return a topic's entry in the registry, and create it if there is none.
-- KEYS[1] registry
-- KEYS[2] names
-- KEYS[3] index
-- KEYS[4] makers
-- ARGV[1] name
-- ARGV[2] most: how many numbers there are
-- ARGV[3] key: name of the key that makes it, or ''
-- ARGV[4] how many topics that key may have made, or '' for any number
-- ARGV[5] number of the topic for whose deaths this one is made, or '': it counts for the same key
-- returns: {created 0|1, 'number revision'}, 'FULL', or 'QUOTA' if the key may make no more
-- cost: HGET; TIME, 3 HGET, HINCRBY, 3 HSET, ZADD when it is new, HSET and HINCRBY if a key makes it
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if entry then return { 0, entry } end
if tonumber(redis.call('HGET', KEYS[2], 'next') or 0) >= tonumber(ARGV[2]) then return 'FULL' end
local key = ARGV[3]
if ARGV[5] ~= '' then key = redis.call('HGET', KEYS[4], ARGV[5]) or '' end
if not may_make(KEYS[4], key, ARGV[4]) then return 'QUOTA' end
local number = redis.call('HINCRBY', KEYS[2], 'next', 1)
entry = table.concat({ int(number), ' ', next_revision(KEYS[2], 'revision', now_ms()) })
redis.call('HSET', KEYS[2], int(number), ARGV[1])
redis.call('ZADD', KEYS[3], 0, ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], entry)
note_maker(KEYS[4], int(number), key)
return { 1, entry }
