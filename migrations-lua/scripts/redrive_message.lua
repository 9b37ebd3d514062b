-- @include expire
-- @include message
-- @include partition
-- @include room
-- @include time
-- @include waiting
-- redrive_message: make one dead message ready again.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] member
-- returns: {now, wake 0|1, the message as `snapshot` has it}, 'NONE', 'NOT_DEAD', 'DUPLICATE', 'FULL' if the topic is,
--   or 'STALE'
-- cost: HMGET, ZREM, TIME, HGET, up to 9 ZSCORE; up to 10 calls, 15 more if it is in a group; 7 more if the topic has a limit,
--   and a sweep of 32 steps if it is full
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'sleep', 'max_attempts', 'rules')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now, up = now_ms()
local rules = parse_rules(meta[4])
local member, room = ARGV[2], room_of(k, now, rules, 1)
local state, _, extra = settle(k, member, now, rules)
if not state then return 'NONE' end
if state ~= 'dead' then return 'NOT_DEAD' end
if room == 0 then return 'FULL' end
local fresh, _, due, blocked = revive(k, member, now, now, up, extra, rules)
if not fresh then return 'DUPLICATE' end
redis.call('HINCRBY', k.meta, 'redriven', 1)
local now_is = blocked and 'blocked' or (due > now and 'delayed' or 'ready')
local woken = blocked and 0 or wake(k.meta, meta[2], due)
return { now, woken, snapshot(k, member, now_is, due, fresh, tonumber(meta[3]), rules.ttl) }
