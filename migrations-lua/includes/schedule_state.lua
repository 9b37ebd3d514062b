-- A schedule's state as text: 'revision paused next claimed_at last_at last_id last_error'; all but the last are words.
local function parse_state(text)
  return string.match(text or '', '^(%d+) ([01]) (%d+) (%d+) (%d+) (%S+) (.*)$')
end
local function format_state(...)
  return table.concat({ ... }, ' ')
end
