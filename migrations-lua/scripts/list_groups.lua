-- @include group
-- @include message
-- @include partition
-- @include time
-- @include waiting
-- list_groups: groups that have messages to grant or to ack, in the order of their IDs.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] after: the ID of the last group of the page before, or ''
-- ARGV[3] limit: at most 64
-- ARGV[4] a group to show alone, or ''
-- returns: {now, more 0|1, ID, group, leased, blocked, when the next head is due (ms; 0: none waits), …} or 'STALE'
-- cost: HGET, TIME, EXISTS; 10 calls a group, and as much more as a group has heads; ends before 512 heads, unless the first
-- group has more
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
local now = now_ms()
local after, limit, seen, more = ARGV[2], tonumber(ARGV[3]), 0, false
local alone = ARGV[4] ~= '' and group_id(ARGV[4])
local reply = { now, 0 }
for count = 0, limit do
  local from = after == '' and '-' or table.concat({ '(', after, 'g' })
  if alone then from = table.concat({ '[', alone }) end
  local first = redis.call('ZRANGEBYLEX', k.heads, from, '+', 'LIMIT', 0, 1)[1]
  if not first then break end
  local id = string.sub(first, 1, 16)
  if alone and alone ~= id then break end
  local lowest, highest = bounds_of(id)
  local entries = redis.call('ZRANGEBYLEX', k.heads, lowest, highest, 'LIMIT', 0, 1000)
  if count == limit or (seen > 0 and seen + #entries > 512) then
    more = not alone
    break
  end
  local members, leased, due = {}, 0, 0
  for i = 1, #entries do members[i] = string.sub(entries[i], 29) end
  seen = seen + #members
  local stands = stands_of(k, members)
  for i = 1, #members do
    if stands[i][1] and stands[i][1] <= 5 then
      -- A lease that is over comes back at its deadline.
      local state, at = state_in(stands[i][1], stands[i][2], now)
      if state == 'leased' and at > now then
        leased = leased + 1
      elseif due == 0 or at < due then
        due = at
      end
    end
  end
  local _, _, _, _, rest = parse_extra(redis.call('HGET', k.extra, members[1]))
  local _, _, _, _, _, group = parse_rest(rest)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = id, group, leased, entries_of(k.queued, id), due
  after = id
  if alone then break end
end
reply[2] = more and 1 or 0
return reply
