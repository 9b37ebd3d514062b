-- @include budget
-- @include entry
-- @include fair
-- @include message
-- @include partition
-- @include time
-- @include waiting
-- list_groups: groups that have messages to grant or to ack, in the order of their IDs; alone also one that has settings only.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] after: the ID of the last group of the page before, or ''
-- ARGV[3] limit: at most 64
-- ARGV[4] a group to show alone, or ''
-- returns: {now, more 0|1, 1 if there are groups with settings of their own, then for each ID, group, leased, blocked, waiting (neither of
--   these), when the next of the waiting ones is due (ms; 0: none waits), its own settings or ''} or 'STALE'
-- cost: HGET, TIME, EXISTS; 12 calls a group, and as much more as a group has heads; ends before 512 heads, unless the first
-- group has more; in a fair topic a call for each priority of a group
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
local now, own = now_ms(), select(5, group_rules(k))
local fair = is_fair(k)
local after, limit, seen, more = ARGV[2], tonumber(ARGV[3]), 0, false
local alone = ARGV[4] ~= '' and group_id(ARGV[4])
local reply = { now, 0, own and 1 or 0 }
local function settings_of(id) return own and redis.call('HGET', k.meta, own_field(id)) or '' end
for count = 0, limit do
  local from = after == '' and '-' or table.concat({ '(', after, 'g' })
  if alone then from = table.concat({ '[', alone }) end
  local first = redis.call('ZRANGEBYLEX', k.heads, from, '+', 'LIMIT', 0, 1)[1]
  local queued = redis.call('ZRANGEBYLEX', k.queued, from, '+', 'LIMIT', 0, 1)[1]
  local id = string.sub(first or queued or '', 1, 16)
  -- Hex digits: any locale has them in this order.
  if first and queued and string.sub(queued, 1, 16) < id then id = string.sub(queued, 1, 16) end
  if id == '' then break end
  if alone and alone ~= id then break end
  local lowest, highest = bounds_of(id)
  local entries = redis.call('ZRANGEBYLEX', k.heads, lowest, highest, 'LIMIT', 0, 1000)
  if count == limit or (seen > 0 and (seen + #entries > 512 or not has_room(k))) then
    more = not alone
    break
  end
  local members, leased, waiting, due = {}, 0, 0, 0
  for i = 1, #entries do members[i] = entry_member(entries[i]) end
  seen = seen + #members
  local stands = #members > 0 and stands_of(k, members)
  for i = 1, #members do
    if stands[i][1] and stands[i][1] <= 5 then
      -- A lease that is over comes back at its deadline.
      local state, at = state_in(stands[i][1], stands[i][2], now)
      if state == 'leased' and at > now then
        leased = leased + 1
      else
        waiting = waiting + 1
        if due == 0 or at < due then due = at end
      end
    end
  end
  if #entries == 1000 then leased = leased + entries_of(k.heads, id) - 1000 end
  local blocked = entries_of(k.queued, id)
  if fair and blocked > 0 then
    local earliest, member = earliest_of(k, id)
    waiting, blocked, members[1] = waiting + blocked, 0, members[1] or member
    if due == 0 or earliest < due then due = earliest end
  end
  -- In a strict topic, one that is paused may have no heads.
  members[1] = members[1] or entry_member(queued)
  local _, _, _, _, rest = parse_extra(redis.call('HGET', k.extra, members[1]))
  local _, _, _, _, _, group = parse_rest(rest)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5], reply[n + 6] = id, group, leased, blocked, waiting, due
  reply[n + 7] = settings_of(id)
  after = id
  if alone then break end
end
if alone and #reply == 3 and settings_of(alone) ~= '' then
  for i, it in ipairs({ alone, ARGV[4], 0, 0, 0, 0, settings_of(alone) }) do reply[3 + i] = it end
end
reply[2] = more and 1 or 0
return reply
