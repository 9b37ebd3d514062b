-- @include entry
-- @include lease
-- @include message
-- @include partition
-- @include time
-- @include waiting
-- load_messages: store messages of a dump, each with the id, the state and the past that it had. One that is there already
-- stays as it is.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2..] for each message, at most 128: member, state ('waiting', 'leased', 'blocked', 'dead', 'acked', or 'untold' for one
--   that is kept only until its death is published), its moment in ms (due time, end of the lease, death, ack), body, extra,
--   events, when its own TTL ends, when it first fell due, when it died if that is still to be published; '' for none
-- returns: {messages that were stored, keys that another message has} or 'STALE'
-- cost: 3 HMGET, TIME, up to 19 writes; HSETNX for each message with a key, HSET for each whose key is taken
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'max_attempts', 'group_order')
if meta[1] ~= ARGV[1] then return 'STALE' end
-- At maxmemory Redis refuses this first write, and with it the whole call.
local probe = redis.pcall('HSET', k.meta, 'topic', ARGV[1])
if type(probe) == 'table' and probe.err then return probe end
local now, topic_max, order_max = now_ms(), tonumber(meta[2]), tonumber(meta[3] or 0)
local members = {}
for i = 2, #ARGV, 9 do members[#members + 1] = ARGV[i] end
local there = redis.call('HMGET', k.messages, unpack(members))

local lists, taken = {}, 0
local highest, large, lowered = order_max, false, false
for n = 1, #members do
  local at = 9 * n - 7
  local member, state, moment, body, extra = members[n], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  if not there[n] then
    local attempts, counted, max_attempts, priority, rest = parse_extra(extra ~= '' and extra)
    local over, ttl, policy, hold, key, group, order = parse_rest(rest)
    local most = tonumber(max_attempts) or topic_max
    local lives = state == 'waiting' or state == 'leased' or state == 'blocked'
    add_to(lists, k.messages, member, body)
    if state == 'waiting' then
      line_up(k, lists, member, priority, tonumber(moment), now)
    elseif state == 'leased' then
      -- No token is of epoch 0, so nobody holds the lease. It ends when it would have.
      add_to(lists, counted + 1 >= most and k.last or k.unack, pack_lease(tonumber(moment), 0), member)
    elseif state == 'blocked' or state == 'dead' then
      add_to(lists, state == 'dead' and k.dead or k.blocked, moment, member)
    elseif state == 'acked' then
      add_to(lists, k.acked, pack_lease(tonumber(moment), 0), member)
    end
    -- Half a ms marks one that has left, and is still to be published.
    if ARGV[at + 8] ~= '' then
      add_to(lists, k.dead_out, state == 'untold' and tonumber(ARGV[at + 8]) + 0.5 or ARGV[at + 8], member)
    end
    if ARGV[at + 5] ~= '' then add_to(lists, k.events, member, ARGV[at + 5]) end
    if lives and ttl ~= '' and not is_over(over) then
      local ends = ARGV[at + 6]
      add_to(lists, k.expires, ends ~= '' and ends or int(tonumber(moment) + tonumber(ttl)), member)
    end
    if lives and ARGV[at + 7] ~= '' then add_to(lists, k.first_due, ARGV[at + 7], member) end
    if group ~= '' then
      if lives then add_to(lists, state == 'blocked' and k.queued or k.heads, '0', table.concat({ group_id(group), order, member })) end
      highest = math.max(highest, tonumber(order, 16))
    end
    -- A dump of a topic in use may have two messages of one key. The second one gives it up.
    if lives and key ~= '' and hold ~= 'f' and redis.call('HSETNX', k.keys, key, member) == 0 then
      taken = taken + 1
      extra = format_extra(attempts, counted, max_attempts, priority, format_rest(over, ttl, policy, 'f', key, group, order))
    end
    if extra ~= '' then add_to(lists, k.extra, member, extra) end
    large = large or #body > 1024 or #ARGV[at + 5] > 4096
    lowered = lowered or (lives and counted >= most)
  end
end
if not lists[k.messages] then return { 0, 0 } end
weigh(k, lists[k.messages])
write_lists(k, lists)
if highest > order_max then redis.call('HSET', k.meta, 'group_order', int(highest)) end
-- Some of a group may wait behind a head that was gone when it was its turn to be read.
if lists[k.queued] then redis.call('HSET', k.meta, 'raised', '') end
-- Of those in flight several may be of one group.
if lists[k.heads] then redis.call('HSET', k.meta, 'several', '1') end
if large then redis.call('HSET', k.meta, 'large', '1') end
if lowered then redis.call('HSET', k.meta, 'lowered', '1') end
-- The totals count what was loaded.
local function count(key) return lists[key] and #lists[key] / 2 or 0 end
local granted = count(k.unack) + count(k.last) + count(k.acked)
local here = granted + count(k.delayed) + count(k.delayed_prio) + count(k.ready) + count(k.blocked) + count(k.dead)
redis.call('HINCRBY', k.meta, 'published', int(here))
if granted > 0 then redis.call('HINCRBY', k.meta, 'granted', int(granted)) end
if lists[k.acked] then redis.call('HINCRBY', k.meta, 'acked', int(count(k.acked))) end
if lists[k.dead] then redis.call('HINCRBY', k.meta, 'dead', int(count(k.dead))) end
return { count(k.messages), taken }
