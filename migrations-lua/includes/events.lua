-- One line of what happened to a message; `attempt` 0 for none, `reason` JSON or ''.
local function event(kind, at, attempt, reason)
  if reason == '' then return string.format('%s %d %d\n', kind, at, attempt) end
  return string.format('%s %d %d %s\n', kind, at, attempt, reason)
end

-- Adds lines to what happened to a message; the last 20 are kept.
local function add_events(k, member, lines)
  local before = redis.call('HGET', k.events, member)
  local text = table.concat({ before or '', lines })
  local _, count = string.gsub(text, '\n', '')
  while count > 20 do
    text = string.sub(text, string.find(text, '\n', 1, true) + 1)
    count = count - 1
  end
  redis.call('HSET', k.events, member, text)
end
