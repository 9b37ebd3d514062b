-- @include time
-- History: what happened in a partition, step by step.

-- The totals that points are made of, in the order in which points have them.
local in_points = { 'published', 'granted', 'acked', 'nacked', 'dead', 'lease_expired' }

-- The totals of a partition as text, what was added to each since they were last noted, and whether anything was. Leases
-- that have expired count even before a script ends them. In a partition without the field `noted`, which an older dueq
-- made, everything so far counts as noted.
local function since_noted(k, now)
  local values = redis.call('HMGET', k.meta, 'noted', unpack(in_points))
  local over = int(now * 2048 + 2047)
  local died = redis.call('ZCOUNT', k.last, '-inf', over)
  local ended = redis.call('ZCOUNT', k.unack, '-inf', over) + died
  local more = { dead = died, lease_expired = ended }
  local before, totals, added, any = {}, {}, {}, not values[1]
  for number in string.gmatch(values[1] or '', '%d+') do before[#before + 1] = tonumber(number) end
  for i, name in ipairs(in_points) do
    local total = (tonumber(values[i + 1] or 0) or 0) + (more[name] or 0)
    totals[i] = int(total)
    added[i] = values[1] and math.max(total - (before[i] or 0), 0) or 0
    any = any or added[i] > 0
  end
  return table.concat(totals, ','), added, any
end

-- How late messages were granted is a text: the longest time (ms), then pairs bucket:count. Bucket 0 is on time, bucket n
-- is from 2^(n-1) to below 2^n ms. '' if there were none. Returns both together.
local function merge_lateness(one, other)
  if one == '' or other == '' then return table.concat({ one, other }) end
  local counts, most = {}, 0
  for _, text in ipairs({ one, other }) do
    most = math.max(most, tonumber(string.match(text, '^%d+') or 0))
    for bucket, count in string.gmatch(text, '(%d+):(%d+)') do
      bucket = tonumber(bucket)
      counts[bucket] = (counts[bucket] or 0) + tonumber(count)
    end
  end
  local parts = { int(most) }
  for bucket = 0, 63 do
    if counts[bucket] then parts[#parts + 1] = string.format('%d:%d', bucket, counts[bucket]) end
  end
  return table.concat(parts, ' ')
end

-- Adds to the point of this step, the newest of the list `key`: 'step,published,granted,acked,nacked,dead,lease_expired,
-- age of the oldest ready message,lateness'. The list keeps `limit` points and expires `life` ms after the last.
local function add_point(key, step, added, age, lateness, limit, life)
  local last = redis.call('LINDEX', key, -1) or ''
  local known = { string.match(last, '^(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),(%d+),%d*,(.*)$') }
  -- One that is later was written by a clock that was set back since.
  local same = known[1] and tonumber(known[1]) >= step
  local parts = { same and known[1] or int(step) }
  for i = 1, 6 do parts[i + 1] = int(added[i] + (same and tonumber(known[i + 1]) or 0)) end
  parts[8], parts[9] = age, merge_lateness(same and known[8] or '', lateness)
  local point = table.concat(parts, ',')
  if same then
    redis.call('LSET', key, -1, point)
  else
    redis.call('RPUSH', key, point)
    redis.call('LTRIM', key, -limit, -1)
  end
  redis.call('PEXPIRE', key, life)
end
