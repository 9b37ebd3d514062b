-- @include expire
-- @include message
-- @include partition
-- @include reason
-- @include time
-- get: return one message, by its id or its key.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] member, or '' if a key is given
-- ARGV[3] key
-- ARGV[4] 1: only its state
-- returns: {now, the message as `reasoned` has it, or its state}, 'NONE' or 'STALE'
-- cost: HMGET, TIME, HGET, up to 9 ZSCORE, 2 HGET; the message is settled first; up to 10 calls more for one that waits
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'max_attempts', 'rules')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now = now_ms()
local rules = parse_rules(meta[3])
local member = which_member(k, ARGV[2], ARGV[3])
local state, at, extra
if member then state, at, extra = settle(k, member, now, rules) end
-- A message that has just died has given up its key.
if not state or (ARGV[2] == '' and which_member(k, '', ARGV[3]) ~= member) then return 'NONE' end
if ARGV[4] == '1' then return { now, state } end
return { now, reasoned(k, now, member, state, at, extra, tonumber(meta[2]), rules) }
