-- @include audit
-- @include partition
-- @include time
-- @include waiting
-- audit_mend: repair messages in which an audit found defects.
-- KEYS[1..] all of the partition's
-- ARGV[1] owner: number of the partition's topic when the walk began
-- ARGV[2..] for each message, at most 64: member, 1 if its body cannot be read or else 0, beginning of that body
-- returns: {wake 0|1, for each what became of it: 'dropped', 'ready', 'kept', 'mended' or 'sound'} or 'STALE'
-- cost: HMGET, ZREM, TIME; 10 to 30 calls a message
local k = partition(KEYS)
if owner(k.meta) ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now = now_ms()
local reply, earliest = { 0 }, math.huge
for i = 2, #ARGV, 3 do
  local member, begin = ARGV[i], ARGV[i + 2]
  local drop = false
  if ARGV[i + 1] == '1' then
    -- A body that can be read may have replaced it.
    local body = redis.call('HGET', k.messages, member)
    drop = body and string.sub(body, 1, #begin) == begin and (begin ~= '' or body == '')
  end
  local became, due = mend(k, member, now, drop)
  reply[#reply + 1] = became
  if due and due < earliest then earliest = due end
end
reply[1] = wake(k.meta, redis.call('HGET', k.meta, 'sleep'), earliest)
return reply
