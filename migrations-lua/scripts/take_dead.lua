-- @include message
-- @include partition
-- @include time
-- @include waiting
-- take_dead: return messages whose end is to be published, the longest ago first: a death to the dead topic, or a completion.
-- Changes nothing.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] limit: at most 128
-- ARGV[3] bytes of bodies and events to return at most where some are large, but one message at least
-- ARGV[4] offset: so many are passed over, since they could not be published just now
-- returns: {now}, or {now, {entry of dead_out, score, …}, messages, bodies, events} or 'STALE'. An entry is a member and what is to be
--   published: '' the death to the dead topic, 'a' a completion of the ack, 'd' one of the death. The lists may be shorter than
--   the first. Of an ack the message is its `extra`, of a death as `snapshot` has it without a body. A message that is gone has no body
-- cost: HMGET, TIME, ZRANGE, 3 HMGET; 8 ZMSCORE and 1 to 4 calls each where some died; 2 calls for each where some are large
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'max_attempts', 'rules', 'large')
if meta[1] ~= ARGV[1] then return 'STALE' end
local now = now_ms()
local list = redis.call('ZRANGE', k.dead_out, ARGV[4], ARGV[4] + ARGV[2] - 1, 'WITHSCORES')
if #list == 0 then return { now } end
local members, bytes, most, deaths = {}, 0, tonumber(ARGV[3]), {}
for i = 1, #list, 2 do
  local member = string.sub(list[i], 1, 11)
  if meta[4] then bytes = bytes + redis.call('HSTRLEN', k.messages, member) + redis.call('HSTRLEN', k.events, member) end
  if i > 1 and bytes > most then break end
  members[#members + 1] = member
  if string.sub(list[i], 12) ~= 'a' then deaths[#deaths + 1] = #members end
end
local found, bodies = redis.call('HMGET', k.extra, unpack(members)), redis.call('HMGET', k.messages, unpack(members))
local stands, ttl = #deaths > 0 and stands_of(k, members), parse_rules(meta[3]).ttl
for _, i in ipairs(deaths) do
  -- It may have been redriven since, or have left.
  local state, at = 'dead', math.floor(math.abs(tonumber(list[2 * i])))
  if stands[i][1] then state, at = state_in(stands[i][1], stands[i][2], now) end
  found[i] = snapshot(k, members[i], state, at, sound_extra(found[i]) and found[i], tonumber(meta[2]), ttl, true)
end
return { now, list, found, bodies, redis.call('HMGET', k.events, unpack(members)) }
