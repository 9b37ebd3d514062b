-- @include audit
-- @include entry
-- @include group
-- @include message
-- @include partition
-- @include time
-- @include waiting
-- audit_messages: check some messages of a partition as they are now.
-- KEYS[1..] all of the partition's, and once more the one whose members are checked
-- ARGV[1] owner: number of the partition's topic when the walk began
-- ARGV[2] its name: 'messages', or another sorted set or hash of the partition
-- ARGV[3] h for a hash, z for a sorted set
-- ARGV[4] cursor
-- ARGV[5] count: approximate number
-- ARGV[6] repair: 1 to remove entries of `heads` and `queued` that belong to no message
-- ARGV[7..] members to check, at most 64, as a call before returned them; none to check a page
-- returns: {cursor, seen, bytes read, {member, defect, detail, …}, the members in a walk of messages, those that are left for
--   other calls: all of a page of more than 64} or 'STALE'
-- cost: HGET, TIME; HLEN and HKEYS, HSCAN or ZSCAN; in a walk of messages 10 ZMSCORE, HMGET, 4 calls for each in a group; otherwise an HEXISTS for
--   each, of heads and queued ones 9; one more for each that is named
local k = partition(KEYS)
if owner(k.meta) ~= ARGV[1] then return 'STALE' end
local now, walks, count = now_ms(), ARGV[2] == 'messages', ARGV[5]
if walks then count = page_count(k, count) end
local members, cursor, bytes = names_of(KEYS[#KEYS], ARGV[3] == 'h', ARGV[4], count, { unpack(ARGV, 7) })
if #members > 64 then return { cursor, 0, bytes, {}, {}, members } end
local found = {}
local function add(member, defect, detail)
  local n = #found
  found[n + 1], found[n + 2], found[n + 3] = member, defect, detail
end

if #members == 0 then
  return { cursor, 0, bytes, found, {}, {} }
elseif walks then
  local stands = stands_of(k, members)
  local extras = redis.call('HMGET', k.extra, unpack(members))
  local expires = redis.call('ZMSCORE', k.expires, unpack(members))
  local first_due = redis.call('ZMSCORE', k.first_due, unpack(members))
  for i = 1, #members do
    local member = members[i]
    local wrong = examine(k, member, stands[i], extras[i], expires[i], first_due[i], now)
    for at = 1, #wrong, 2 do add(member, wrong[at], wrong[at + 1]) end
  end
elseif ARGV[2] == 'heads' or ARGV[2] == 'queued' then
  for i = 1, #members do
    if not sound_entry(k, members[i]) then
      add(entry_member(members[i]), table.concat({ 'stray_', ARGV[2] }), '')
      if ARGV[6] == '1' then
        redis.call('ZREM', KEYS[#KEYS], members[i])
        let_go(k, { [string.sub(members[i], 1, 16)] = 1 })
      end
    end
  end
else
  local lost = {}
  for i = 1, #members do
    if redis.call('HEXISTS', k.messages, members[i]) == 0 then lost[#lost + 1] = members[i] end
  end
  local stands = #lost > 0 and stands_of(k, lost)
  for i = 1, #lost do
    if #stands[i] > 0 then add(lost[i], 'no_body', '') else add(lost[i], table.concat({ 'stray_', ARGV[2] }), '') end
  end
end
return { cursor, #members, bytes, found, walks and members or {}, {} }
