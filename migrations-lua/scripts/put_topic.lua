-- @include config
-- @include time
-- @include waiting
-- put_topic: write a topic's configuration into the registry, and create the topic if there is none; or only that.
-- KEYS[1] registry
-- KEYS[2] names
-- KEYS[3] index
-- KEYS[4] pushed
-- KEYS[5] makers
-- ARGV[1] name
-- ARGV[2] most: how many numbers there are
-- ARGV[3] configuration (JSON), or '' to create the topic with the default one if there is none
-- ARGV[4] revision that the caller worked from, 0 if there was no topic: with another one nothing is done
-- ARGV[5] push: 1 if dueq sends the topic's messages itself
-- ARGV[6] key: name of the key that makes a new topic, or ''
-- ARGV[7] how many topics that key may have made, or '' for any number
-- ARGV[8] number of the topic for whose deaths a new one is made, or '': it counts for the same key
-- ARGV[9] number that a new topic gets, since ids of messages name it; absent for the next one
-- returns: {created 0|1, 'number revision configuration'}, 'FULL', 'QUOTA' if the key may make no more, 'CHANGED', or
--   'TAKEN' if another topic has the number
-- cost: HGET; with a configuration HINCRBY, HSET, SADD or SREM, PUBLISH; 3 HGET, HINCRBY, 3 HSET, ZADD when it is new, HSET and
--   HINCRBY if a key makes it, otherwise HDEL
local entry = redis.call('HGET', KEYS[1], ARGV[1])
local number, revision
if entry and ARGV[3] == '' then return { 0, entry } end
if entry then number, revision = string.match(entry, '^(%d+) (%d+)') end
if ARGV[4] ~= (revision or '0') then return 'CHANGED' end
local created = 0
if entry then
  -- A first write that removes nothing: at maxmemory a topic can be configured to keep less. A new topic is refused.
  redis.call('HDEL', KEYS[1], '')
else
  local next, key = tonumber(redis.call('HGET', KEYS[2], 'next') or 0), ARGV[6]
  if ARGV[8] ~= '' then key = redis.call('HGET', KEYS[5], ARGV[8]) or '' end
  number, created = ARGV[9] or int(next + 1), 1
  if tonumber(number) > tonumber(ARGV[2]) then return 'FULL' end
  if ARGV[9] and redis.call('HEXISTS', KEYS[2], number) == 1 then return 'TAKEN' end
  if not may_make(KEYS[5], key, ARGV[7]) then return 'QUOTA' end
  redis.call('HSET', KEYS[2], 'next', int(math.max(next, tonumber(number))))
  redis.call('HSET', KEYS[2], number, ARGV[1])
  redis.call('ZADD', KEYS[3], 0, ARGV[1])
  note_maker(KEYS[5], number, key)
end
revision = next_revision(KEYS[2], 'revision', now_ms())
entry = table.concat({ number, revision, ARGV[3] ~= '' and ARGV[3] or nil }, ' ')
redis.call('HSET', KEYS[1], ARGV[1], entry)
if ARGV[3] == '' then return { created, entry } end
if ARGV[5] == '1' then
  redis.call('SADD', KEYS[4], ARGV[1])
else
  redis.call('SREM', KEYS[4], ARGV[1])
end
-- Makes the senders of pushed topics read all settings again.
announce(KEYS[1], '_pushed')
return { created, entry }
