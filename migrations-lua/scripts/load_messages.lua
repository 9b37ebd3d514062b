-- @include group
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

local bodies, extras, events, expires, first_due, untold = {}, {}, {}, {}, {}, {}
local plain, later, ready, unack, last, blocked = {}, {}, {}, {}, {}, {}
local dead, acked, heads, queued, taken = {}, {}, {}, {}, 0
local highest, large, lowered = order_max, false, false
local function add(list, a, b)
  list[#list + 1] = a
  list[#list + 1] = b
end
for n = 1, #members do
  local at = 9 * n - 7
  local member, state, moment, body, extra = members[n], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  if not there[n] then
    local attempts, counted, max_attempts, priority, rest = parse_extra(extra ~= '' and extra)
    local over, ttl, policy, hold, key, group, order = parse_rest(rest)
    local most = tonumber(max_attempts) or topic_max
    local lives = state == 'waiting' or state == 'leased' or state == 'blocked'
    add(bodies, member, body)
    if state == 'waiting' then
      local due = tonumber(moment)
      if priority == 0 then
        add(plain, moment, member)
      elseif due > now then
        add(later, moment, member)
      else
        add(ready, rank(priority, due), member)
      end
    elseif state == 'leased' then
      -- No token is of epoch 0, so nobody holds the lease. It ends when it would have.
      add(counted + 1 >= most and last or unack, pack_lease(tonumber(moment), 0), member)
    elseif state == 'blocked' then
      add(blocked, moment, member)
    elseif state == 'dead' then
      add(dead, moment, member)
    elseif state == 'acked' then
      add(acked, pack_lease(tonumber(moment), 0), member)
    end
    -- Half a ms marks one that has left, and is still to be published.
    if ARGV[at + 8] ~= '' then add(untold, state == 'untold' and tonumber(ARGV[at + 8]) + 0.5 or ARGV[at + 8], member) end
    if ARGV[at + 5] ~= '' then add(events, member, ARGV[at + 5]) end
    if lives and ttl ~= '' and over == '' then
      local ends = ARGV[at + 6]
      add(expires, ends ~= '' and ends or int(tonumber(moment) + tonumber(ttl)), member)
    end
    if lives and ARGV[at + 7] ~= '' then add(first_due, ARGV[at + 7], member) end
    if group ~= '' then
      if lives then add(state == 'blocked' and queued or heads, '0', table.concat({ group_id(group), order, member })) end
      highest = math.max(highest, tonumber(order, 16))
    end
    -- A dump of a topic in use may have two messages of one key. The second one gives it up.
    if lives and key ~= '' and hold ~= 'f' and redis.call('HSETNX', k.keys, key, member) == 0 then
      taken = taken + 1
      extra = format_extra(attempts, counted, max_attempts, priority, format_rest(over, ttl, policy, 'f', key, group, order))
    end
    if extra ~= '' then add(extras, member, extra) end
    large = large or #body > 1024 or #ARGV[at + 5] > 4096
    lowered = lowered or (lives and counted >= most)
  end
end
local stored = #bodies / 2
if stored == 0 then return { 0, 0 } end
weigh(k, bodies)
redis.call('HSET', k.messages, unpack(bodies))
if #extras > 0 then redis.call('HSET', k.extra, unpack(extras)) end
if #events > 0 then redis.call('HSET', k.events, unpack(events)) end
if #expires > 0 then redis.call('ZADD', k.expires, unpack(expires)) end
if #first_due > 0 then redis.call('ZADD', k.first_due, unpack(first_due)) end
if #untold > 0 then redis.call('ZADD', k.dead_out, unpack(untold)) end
if #heads > 0 then redis.call('ZADD', k.heads, unpack(heads)) end
if #queued > 0 then redis.call('ZADD', k.queued, unpack(queued)) end
if #plain > 0 then redis.call('ZADD', k.delayed, unpack(plain)) end
if #later > 0 then redis.call('ZADD', k.delayed_prio, unpack(later)) end
if #ready > 0 then redis.call('ZADD', k.ready, unpack(ready)) end
if #unack > 0 then redis.call('ZADD', k.unack, unpack(unack)) end
if #last > 0 then redis.call('ZADD', k.last, unpack(last)) end
if #blocked > 0 then redis.call('ZADD', k.blocked, unpack(blocked)) end
if #dead > 0 then redis.call('ZADD', k.dead, unpack(dead)) end
if #acked > 0 then redis.call('ZADD', k.acked, unpack(acked)) end
if highest > order_max then redis.call('HSET', k.meta, 'group_order', int(highest)) end
-- Some of a group may wait behind a head that was gone when it was its turn to be read.
if #queued > 0 then redis.call('HSET', k.meta, 'raised', '') end
if large then redis.call('HSET', k.meta, 'large', '1') end
if lowered then redis.call('HSET', k.meta, 'lowered', '1') end
-- The totals count what was loaded.
local leases = #unack / 2 + #last / 2
local here = leases + #plain / 2 + #later / 2 + #ready / 2 + #blocked / 2 + #dead / 2 + #acked / 2
redis.call('HINCRBY', k.meta, 'published', int(here))
if leases + #acked > 0 then redis.call('HINCRBY', k.meta, 'granted', int(leases + #acked / 2)) end
if #acked > 0 then redis.call('HINCRBY', k.meta, 'acked', int(#acked / 2)) end
if #dead > 0 then redis.call('HINCRBY', k.meta, 'dead', int(#dead / 2)) end
return { stored, taken }
