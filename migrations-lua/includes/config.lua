-- @include time
-- Configuration: revisions, and the state of a schedule.

-- Assigns the next revision and returns it as text. A Redis that lost its newest writes must not assign a revision twice.
-- So a revision is never less than the milliseconds of Redis's clock × 1024: lost ones were assigned earlier.
local function next_revision(key, counter, now)
  local last = tonumber(redis.call('HGET', key, counter) or 0) or 0
  local revision = int(math.max(last + 1, now * 1024))
  redis.call('HSET', key, counter, revision)
  return revision
end

-- Whether a key may make one more topic; `most` is '' for any number. The hash `makers` has the name of the key that made a
-- topic by its number, and how many such topics there are by ':' and the key's name.
local function may_make(makers, key, most)
  return most == '' or tonumber(redis.call('HGET', makers, table.concat({ ':', key })) or 0) < tonumber(most)
end

-- Notes that a new topic was made by a key, if by any.
local function note_maker(makers, number, key)
  if key == '' then return end
  redis.call('HSET', makers, number, key)
  redis.call('HINCRBY', makers, table.concat({ ':', key }), 1)
end

-- A schedule's state as text: 'revision paused next claimed_at last_at last_id last_error'. Only the last may hold spaces.
local function parse_state(text)
  return string.match(text or '', '^(%d+) ([01]) (%d+) (%d+) (%d+) (%S+) (.*)$')
end

local function format_state(...)
  return table.concat({ ... }, ' ')
end

-- The field next to a schedule's state with its ticks that published nothing: 'generation at at …', oldest first.
local function missed_field(name)
  return table.concat({ ':missed', name }, ' ')
end

-- Adds such ticks, and keeps the latest. Those of another schedule that had the name are over.
local function add_missed(key, name, generation, limit, ticks)
  local field = missed_field(name)
  local text = redis.call('HGET', key, field) or ''
  local known = { generation }
  if string.match(text, '^%S+') == generation then
    for at in string.gmatch(text, ' (%d+)') do known[#known + 1] = at end
  end
  for i = 1, #ticks do known[#known + 1] = ticks[i] end
  while #known > limit + 1 do table.remove(known, 2) end
  redis.call('HSET', key, field, table.concat(known, ' '))
end
