-- @include config
-- @include time
-- audit_registry: check that the parts of the registry agree about some topics.
-- KEYS[1] registry
-- KEYS[2] names
-- KEYS[3] index
-- ARGV[1] which of them to walk through: 1, 2 or 3
-- ARGV[2] cursor
-- ARGV[3] count: approximate number
-- ARGV[4] repair: 1 to repair the defects
-- returns: {cursor, {name, its entry or '', …}, {name, defect, detail, …}}
-- cost: TIME, HSCAN or ZSCAN, HMGET; up to 4 calls a topic; up to 5 more if it repairs
local repair = ARGV[4] == '1'
local now = now_ms()
if repair then redis.call('HDEL', KEYS[1], '') end
local seen, found = {}, {}
local function sound(name)
  return #name <= 128 and string.find(name, '^[A-Za-z0-9_][A-Za-z0-9._-]*$') and not string.find(name, '..', 1, true)
end
-- Returns false if there is no entry, '' if it cannot be read.
local function number_of(name)
  local entry = redis.call('HGET', KEYS[1], name)
  return entry and (string.match(entry, '^(%d+) %d+') or '')
end
-- Registers a topic with this number or a new one, and the default configuration.
local function enter(name, number)
  while not number do
    number = int(redis.call('HINCRBY', KEYS[2], 'next', 1))
    if redis.call('HEXISTS', KEYS[2], number) == 1 then number = nil end
  end
  redis.call('HSET', KEYS[1], name, table.concat({ number, ' ', next_revision(KEYS[2], 'revision', now) }))
  redis.call('HSET', KEYS[2], number, name)
  redis.call('ZADD', KEYS[3], 0, name)
end
local function add(name, defect, detail)
  local n = #found
  found[n + 1], found[n + 2], found[n + 3] = name, defect, detail
end

-- No number may be assigned twice.
local late = { next = {}, revision = {} }
for counter, highest in pairs(late) do highest.number = tonumber(redis.call('HGET', KEYS[2], counter) or 0) or 0 end
local function count_up(counter, name, number)
  local highest = late[counter]
  if number > highest.number then
    highest.name, highest.number = name, number
    if repair then redis.call('HSET', KEYS[2], counter, int(number)) end
  end
end

local page
if ARGV[1] == '1' then
  page = redis.call('HSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3])
elseif ARGV[1] == '2' then
  page = redis.call('HSCAN', KEYS[2], ARGV[2], 'COUNT', ARGV[3])
else
  page = redis.call('ZSCAN', KEYS[3], ARGV[2], 'COUNT', ARGV[3])
end
for i = 1, #page[2], 2 do
  local name, value = page[2][i], page[2][i + 1]
  if ARGV[1] == '1' then
    local number, revision = string.match(value, '^(%d+) (%d+)')
    if not sound(name) then
      add(name, 'bad_name', '')
      if repair then redis.call('HDEL', KEYS[1], name) end
    elseif not number then
      -- Without the entry, the walk through the names finds the topic again.
      add(name, 'bad_entry', value)
      if repair then redis.call('HDEL', KEYS[1], name) end
    else
      count_up('next', name, tonumber(number))
      count_up('revision', name, tonumber(revision))
      local named = redis.call('HGET', KEYS[2], number)
      if named ~= name then
        local taken = named and number_of(named) == number
        add(name, taken and 'taken_number' or 'no_number', number)
        if repair then
          if taken then enter(name) else redis.call('HSET', KEYS[2], number, name) end
        end
      end
      if not redis.call('ZSCORE', KEYS[3], name) then
        add(name, 'not_in_index', '')
        if repair then redis.call('ZADD', KEYS[3], 0, name) end
      end
      seen[#seen + 1] = name
      seen[#seen + 1] = value
    end
  elseif ARGV[1] == '2' then
    -- Here the number is the field. Other fields are counters and the state of the slow walk.
    local number, known = string.match(name, '^%d+$'), nil
    name = value
    if number and not sound(name) then
      add(name, 'bad_name', '')
      if repair then redis.call('HDEL', KEYS[2], number) end
    elseif number then
      known = number_of(name)
      if not known then
        add(name, 'not_in_registry', number)
        if repair then
          count_up('next', name, tonumber(number))
          enter(name, number)
          seen[#seen + 1] = name
          seen[#seen + 1] = ''
        end
      elseif known ~= '' and known ~= number then
        add(name, 'second_number', number)
        if repair then redis.call('HDEL', KEYS[2], number) end
      end
    end
  elseif not sound(name) then
    add(name, 'bad_name', '')
    if repair then redis.call('ZREM', KEYS[3], name) end
  elseif not number_of(name) then
    add(name, 'not_in_registry', '')
    if repair then
      enter(name)
      seen[#seen + 1] = name
      seen[#seen + 1] = ''
    end
  end
end
for counter, highest in pairs(late) do
  if highest.name then add(highest.name, 'late_counter', counter) end
end
return { page[1], seen, found }
