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
-- returns: {cursor, seen, bytes read, {key, defect, detail, …}} or 'STALE'
-- cost: HGET, ZREM; HSCAN or ZSCAN; 8 ZMSCORE and HMGET for 256 of `keys`, a call for each of the others; two if it
--   repairs
local k = partition(KEYS)
if owner(k.meta) ~= ARGV[1] then return 'STALE' end
local repair = ARGV[5] == '1'
if repair then redis.call('ZREM', k.unack, '') end
local found, bytes = {}, 0
local function add(key, defect, detail)
  local n = #found
  found[n + 1], found[n + 2], found[n + 3] = key, defect, detail
end

local page
if ARGV[2] == 'keys' then
  page = redis.call('HSCAN', k.keys, ARGV[3], 'COUNT', ARGV[4])
elseif ARGV[2] == 'idem' then
  page = redis.call('HSCAN', k.idem, ARGV[3], 'COUNT', ARGV[4])
else
  page = redis.call('ZSCAN', k.idem_due, ARGV[3], 'COUNT', ARGV[4])
end
local list = page[2]
-- Redis returns small hashes whole, regardless of the count.
for from = 1, #list, 512 do
  local keys, values = {}, {}
  for i = from, math.min(from + 511, #list), 2 do
    local n = #keys + 1
    keys[n], values[n] = list[i], list[i + 1]
    bytes = bytes + #list[i] + #list[i + 1]
  end
  local stands, extras
  if ARGV[2] == 'keys' then
    stands, extras = stands_of(k, values), redis.call('HMGET', k.extra, unpack(values))
  end
  for i = 1, #keys do
    local key, value = keys[i], values[i]
    if stands then
      if not holds_key(key, stands[i], extras[i]) then
        add(key, 'stray_key', '')
        if repair then redis.call('HDEL', k.keys, key) end
      end
    elseif ARGV[2] == 'idem' then
      local over = string.match(value, '^(%d+),%x+,%a+,%d+,.*$')
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
end
return { page[1], #list / 2, bytes, found }
