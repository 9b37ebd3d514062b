-- @include message
-- @include partition
-- @include time
-- @include waiting
-- take_dead: return messages whose end is to be published, the longest ago first: a death to the dead topic, or a completion.
-- Changes nothing.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] limit: at most 64
-- ARGV[3] bytes of bodies and events to return at most, but one message at least
-- ARGV[4] offset: so many are passed over, since they could not be published just now
-- returns: {now, member, what is to be published ('' the death to the dead topic, 'a' a completion of the ack, 'd' one of the death),
--   score of that in dead_out, the message as `snapshot` has it or '' if it is gone, …} or 'STALE'
-- cost: HMGET, TIME, ZRANGE, 8 ZMSCORE, HMGET; 4 to 7 calls for each message
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'max_attempts', 'rules')
if meta[1] ~= ARGV[1] then return 'STALE' end
local now = now_ms()
local ttl = parse_rules(meta[3]).ttl
local list = redis.call('ZRANGE', k.dead_out, ARGV[4], ARGV[4] + ARGV[2] - 1, 'WITHSCORES')
local reply = { now }
if #list == 0 then return reply end
local members = {}
for i = 1, #list, 2 do members[#members + 1] = string.sub(list[i], 1, 11) end
local stands, extras = stands_of(k, members), redis.call('HMGET', k.extra, unpack(members))

local bytes, most = 0, tonumber(ARGV[3])
for i = 1, #members do
  local member, what, found = members[i], string.sub(list[2 * i - 1], 12), ''
  local size = redis.call('HSTRLEN', k.messages, member)
  if size > 0 then
    bytes = bytes + size + redis.call('HSTRLEN', k.events, member)
    if i > 1 and bytes > most then break end
    -- It may have been redriven since, or have left.
    local state, at = what == 'a' and 'acked' or 'dead', math.floor(math.abs(tonumber(list[2 * i])))
    if stands[i][1] then state, at = state_in(stands[i][1], stands[i][2], now) end
    found = snapshot(k, member, state, at, sound_extra(extras[i]) and extras[i], tonumber(meta[2]), ttl)
  end
  reply[4 * i - 2], reply[4 * i - 1], reply[4 * i], reply[4 * i + 1] = member, what, list[2 * i], found
end
return reply
