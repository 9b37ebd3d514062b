-- @include message
-- The lines of groups: what the entries in `heads` and `queued` look like, and the rules of the topic for its groups.

-- What the entries of a group begin with: 16 hex digits. Two groups of the same ID would only wait for each other.
local function group_id(group)
  return string.sub(redis.sha1hex(group), 1, 16)
end

-- The group of a message and its entry, or false if it is in none.
local function entry_of(member, rest)
  local _, _, _, _, _, group, order = parse_rest(rest)
  if group == '' then return false end
  local id = group_id(group)
  return id, id .. order .. member
end

-- The entry in `queued` of a message that waits in a fair topic: those of a group are in the order of their priorities, then of
-- their due times (ms). The 'f' puts them behind all entries that are in the order of publishing.
local function fair_entry(id, priority, due, member)
  return id .. string.format('f%02x%012x', 255 - priority, due) .. member
end

-- The member in an entry of either kind.
local function entry_member(entry)
  return string.sub(entry, -11)
end

-- Where the entries of a group begin and end.
local function bounds_of(id)
  return '[' .. id, '(' .. id .. 'g'
end

-- How many entries of a group are in `heads` or `queued`.
local function entries_of(zset, id)
  return redis.call('ZLEXCOUNT', zset, bounds_of(id))
end

-- How many heads a group may have (in a fair topic: leases), the time between two grants in µs (nil: any), how
-- many may come at once, and whether the topic is fair: '1', 's' if it was and still has entries of that time, or false. Then
-- whether groups have settings of their own, or ever had (a table of those that the call has read, by ID), whether one has its own rate,
-- and whether several messages of a group were ever granted together.
local function group_rules(k)
  local known = k.group_rules
  if not known then
    local meta = redis.call('HMGET', k.meta, 'group_rules', 'fair', 'own_groups', 'own_rates', 'several')
    local most, interval, burst = string.match(meta[1] or '', '^(%d+),(%d*),(%d+)$')
    most = tonumber(most or 1)
    local own, rated = meta[3] and {}, tonumber(meta[4] or 0) > 0
    known = { most > 0 and most or math.huge, tonumber(interval or ''), tonumber(burst or 1), meta[2], own, rated, meta[5] }
    k.group_rules = known
  end
  return known[1], known[2], known[3], known[4], known[5], known[6], known[7]
end

-- The field of `meta` with the settings of a group's own.
local function own_field(id)
  return table.concat({ 'group:', id })
end

-- What holds for one group, as `group_rules` says it of all, up to whether the topic is fair; and its weight.
local function rules_of(k, id)
  local most, interval, burst, fair, own = group_rules(k)
  if not own then return most, interval, burst, fair, 1 end
  local its = own[id]
  if not its then
    its = { string.match(redis.call('HGET', k.meta, own_field(id)) or '', '^(%d),(%d*),(%d*),(%d*),(%d*),') }
    for i = 1, 5 do its[i] = tonumber(its[i] or '') end
    own[id] = its
  end
  return its[1] == 1 and 0 or its[2] or most, its[3] or interval, its[4] or burst, fair, its[5] or 1
end

-- How many heads of a group (which may have `most`) keep a message waiting that has this entry (nil: any). Where several were granted
-- together, those behind it do not: it was granted with them, or before.
local function heads_upto(k, id, most, entry)
  local from, upto = bounds_of(id)
  local _, _, _, _, _, _, several = group_rules(k)
  if several and most == 1 and entry then upto = '[' .. entry end
  return redis.call('ZLEXCOUNT', k.heads, from, upto)
end

local function is_fair(k)
  local _, _, _, fair = group_rules(k)
  return fair == '1'
end

-- What `rates` calls the turns of a group that were taken by grants. Its ID alone stands for these and those of its heads so far.
local function granted_turns(id)
  return id .. 'g'
end

-- Where the turns of a group end (µs) once a message that fell due at `due` is granted now, or false if its turn has not come.
-- A consumer that comes a little late delays none of the next ones.
local function take_turn(ahead, now, due, interval, burst)
  ahead = math.max(ahead, math.max(due, now - 50) * 1000)
  return ahead - (burst - 1) * interval <= now * 1000 and ahead + interval
end

-- A grant that came to nothing takes no turn of its group.
local function give_turn_back(k, id)
  local _, interval = rules_of(k, id)
  local ends = interval and redis.call('ZSCORE', k.rates, granted_turns(id))
  if ends then redis.call('ZADD', k.rates, string.format('%d', tonumber(ends) - interval), granted_turns(id)) end
end
