-- What a message carries beyond its body: grants so far, counted ones of them, its own max_attempts ('' for the
-- topic's), its priority, and the rest, '' or ',ttl,backoff,hold,key' for messages that name such things. A message
-- without a field in `extra` is (0, 0, '', 0, '').
local function parse_extra(extra)
  if not extra then return 0, 0, '', 0, '' end
  local attempts, counted, max_attempts, priority, rest = string.match(extra, '^(%d+),(%d+),(%d*),(%d+)(.*)$')
  return tonumber(attempts), tonumber(counted), max_attempts, tonumber(priority), rest
end

local function format_extra(attempts, counted, max_attempts, priority, rest)
  return string.format('%d,%d,%s,%d%s', attempts, counted, max_attempts, priority, rest)
end

-- The rest: whether the TTL is over ('o', noted while the message is leased, or ''), its own TTL (ms or ''), its own
-- backoff policy or '', how long it holds its key ('d' until done, 'g' until granted, 'f' no more), its key or ''.
local function parse_rest(rest)
  if rest == '' then return '', '', '', '', '' end
  return string.match(rest, '^,(o?)(%d*),([^,]*),(%a?),(.*)$')
end

-- The rest as text; '' where it says nothing.
local function format_rest(over, ttl, policy, hold, key)
  if over == '' and ttl == '' and policy == '' and key == '' then return '' end
  return table.concat({ ',', over, ttl, ',', policy, ',', hold, ',', key })
end
