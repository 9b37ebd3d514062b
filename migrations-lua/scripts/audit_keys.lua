-- @include audit
-- @include partition
-- @include waiting
-- audit_keys: check some keys of messages, or idempotency keys, as they are now.
-- KEYS[1..] all of the partition's
-- ARGV[1] owner: number of the partition's topic when the walk began
-- ARGV[2] what to check: keys, idem or idem_due
-- ARGV[3] cursor
-- ARGV[4] count: approximate number
-- ARGV[5] repair: 1 to repair the defects
-- ARGV[6..] keys to check, at most 64, as a call before returned them; none to check a page
-- returns: {cursor, seen, bytes read, {key, defect, detail, …}, {}, those that are left for other calls: all of a page of more
--   than 64} or 'STALE'
-- cost: HGET, ZREM; HLEN and HKEYS, HSCAN or ZSCAN; HMGET; 8 ZMSCORE and HMGET for `keys`, a call for each of the others; two if it repairs; one
--   more for each that is named
local k = partition(KEYS)
if owner(k.meta) ~= ARGV[1] then return 'STALE' end
local repair = ARGV[5] == '1'
if repair then redis.call('ZREM', k.unack, '') end
local found = {}
local function add(key, defect, detail)
  local n = #found
  found[n + 1], found[n + 2], found[n + 3] = key, defect, detail
end

local walked = ARGV[2] == 'keys' and k.keys or ARGV[2] == 'idem' and k.idem or k.idem_due
local hashed = ARGV[2] ~= 'idem_due'
local keys, cursor, bytes = names_of(walked, hashed, ARGV[3], ARGV[4], { unpack(ARGV, 6) })
if #keys > 64 then return { cursor, 0, bytes, {}, {}, keys } end
local values, stands, extras
if hashed and #keys > 0 then values = redis.call('HMGET', walked, unpack(keys)) end
if ARGV[2] == 'keys' and #keys > 0 then
  stands, extras = stands_of(k, values), redis.call('HMGET', k.extra, unpack(values))
end
for i = 1, #keys do
  local key = keys[i]
  if stands then
    if not holds_key(key, stands[i], extras[i]) then
      add(key, 'stray_key', '')
      if repair then redis.call('HDEL', k.keys, key) end
    end
  elseif hashed then
    local over = string.match(values[i], '^(%d+),%x+,%a+,%d+,.*$')
    if not over then
      add(key, 'bad_idem', '')
      if repair then
        redis.call('HDEL', k.idem, key)
        redis.call('ZREM', k.idem_due, key)
      end
    elseif tonumber(redis.call('ZSCORE', k.idem_due, key) or -1) ~= tonumber(over) then
      add(key, 'no_idem_due', '')
      if repair then redis.call('ZADD', k.idem_due, over, key) end
    end
  elseif redis.call('HEXISTS', k.idem, key) == 0 then
    add(key, 'stray_idem_due', '')
    if repair then redis.call('ZREM', k.idem_due, key) end
  end
end
return { cursor, #keys, bytes, found, {}, {} }
