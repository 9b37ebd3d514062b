-- @include entry
-- @include fair
-- @include group
-- @include partition
-- @include time
-- @include waiting
-- put_group: give a group settings of its own, and have them in force for what waits. A large group takes several calls.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] group
-- ARGV[3] paused: 1 or 0; or '' to leave it as it is
-- ARGV[4] its limits, each '' where the topic's holds: concurrency, µs between two grants, burst, weight, grants per second, with
--   commas between them; or '' to leave all of them as they are
-- ARGV[5] how many groups may have settings of their own here
-- ARGV[6] what the call before returned, to continue; 0 at first
-- returns: 0, or 1 or 2 if more is to be done; 'FULL' or 'STALE'
-- cost: HGET, HDEL, TIME, HGET; HSET or HDEL, 2 HINCRBY, ZREM; 12 calls with up to 1,000 members; some 12 calls for each of up to 64 messages
--   that may go now
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
-- A first write that removes nothing: a group can be paused at maxmemory, too.
redis.call('HDEL', k.meta, '')
local now, id = now_ms(), group_id(ARGV[2])
if ARGV[6] == '0' then
  local known = redis.call('HGET', k.meta, own_field(id))
  local paused, limits = string.match(known or '', '^(%d),(%d*,%d*,%d*,%d*,[%d.]*),')
  paused, limits = ARGV[3] ~= '' and ARGV[3] or paused or '0', limits or ',,,,'
  local function rate_of(its) return string.match(its, '^%d*,(%d*),') end
  local before = rate_of(limits)
  if ARGV[4] ~= '' then limits = ARGV[4] end
  local is_own = paused == '1' or limits ~= ',,,,'
  if is_own and not known and tonumber(redis.call('HGET', k.meta, 'own_groups') or 0) >= tonumber(ARGV[5]) then return 'FULL' end
  local function count(field, is, was)
    if is ~= was then redis.call('HINCRBY', k.meta, field, is and 1 or -1) end
  end
  if is_own then
    redis.call('HSET', k.meta, own_field(id), table.concat({ paused, ',', limits, ',', ARGV[2] }))
  else
    redis.call('HDEL', k.meta, own_field(id))
  end
  -- It stays where it is 0: leases from before may still be more than the topic's limit.
  count('own_groups', is_own, known ~= false)
  count('own_rates', string.match(limits, '^%d*,%d') ~= nil, string.match(before, '^%d') ~= nil)
  if rate_of(limits) ~= before then
    -- What was taken of another rate counts no more.
    redis.call('ZREM', k.rates, id, granted_turns(id), table.concat({ id, 'p' }))
  end
end
if is_fair(k) then
  if has_line(k, id) then offer(k, { [id] = now }, now) end
  wake(k.meta, redis.call('HGET', k.meta, 'sleep'), now)
  return 0
end
return refit(k, id, ARGV[6], now)
