-- @include message
-- @include partition
-- @include remove
-- @include time
-- @include waiting
-- dump_messages: read some messages of a partition with all that is kept of them, each as it is now.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] cursor of the walk through all messages; '' to read the messages that are named
-- ARGV[3] count: approximate number, at most 128
-- ARGV[4..] the members that are named, at most 1024
-- returns: {cursor, now, bytes of bodies and events, {members that are left for another call}, {for each message: member,
--   body, set (a number as in `stands_of`; 0: none), score, extra, events, when its own TTL ends, when it first fell due, when
--   it died if that is still to be published; '' for none, …}} or 'STALE'
-- cost: HGET, TIME, HLEN, HKEYS or HSCAN; 8 ZMSCORE, 3 ZMSCORE and HMGET, HMGET for eight, HGET for each; it ends at 96 messages or 256 KiB of bodies and events
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
local cursor, members, scanned = '', {}, nil
if ARGV[2] == '' then
  members = { unpack(ARGV, 4) }
elseif ARGV[2] == '0' and redis.call('HLEN', k.messages) <= 1024 then
  -- A scan reads all bodies of a place, and of a small hash.
  cursor, members = '0', redis.call('HKEYS', k.messages)
else
  local page = redis.call('HSCAN', k.messages, ARGV[2], 'COUNT', page_count(k, ARGV[3]))
  cursor, scanned = page[1], {}
  for i = 1, #page[2], 2 do members[#members + 1], scanned[#scanned + 1] = page[2][i], page[2][i + 1] end
end
local found, done, bytes = {}, 0, 0
while done < math.min(#members, 96) and bytes < 262144 do
  local some = { unpack(members, done + 1, math.min(done + 96, #members)) }
  local stands, extras = stands_of(k, some), redis.call('HMGET', k.extra, unpack(some))
  local expires = redis.call('ZMSCORE', k.expires, unpack(some))
  local first_due = redis.call('ZMSCORE', k.first_due, unpack(some))
  local untold = redis.call('ZMSCORE', k.dead_out, unpack(some))
  local function died(score) return score and int(math.floor(math.abs(tonumber(score)))) or '' end
  local from = 1
  while from <= #some and bytes < 262144 do
    local before, upto = from - 1, math.min(from + 7, #some)
    local events = redis.call('HMGET', k.events, unpack(some, from, upto))
    for i = before + 1, upto do
      local body, event = scanned and scanned[done + i] or redis.call('HGET', k.messages, some[i]), events[i - before] or ''
      -- It may have left since it was named. One that only waits for its completion to be published is no message any more.
      if body and (stands[i][1] or untold[i] or #but_untold(k, { some[i] }) == 1) then
        local n = #found
        found[n + 1], found[n + 2], found[n + 3] = some[i], body, int(stands[i][1] or 0)
        found[n + 4], found[n + 5], found[n + 6] = int(stands[i][2] or 0), extras[i] or '', event
        found[n + 7], found[n + 8], found[n + 9] = expires[i] or '', first_due[i] or '', died(untold[i])
        bytes = bytes + #body + #event
      end
      from = i + 1
      if bytes >= 262144 then break end
    end
  end
  done = done + from - 1
end
return { cursor, int(now_ms()), bytes, { unpack(members, done + 1) }, found }
