-- No '%s' here or elsewhere: string.format ends at a NUL, and a key may hold one. What cannot be read counts as not there,
-- as `dueq audit` will have it: a script that failed half way would lose more.
--
-- What a message carries beyond its body: grants so far, counted ones of them, its own max_attempts ('' for the
-- topic's), its priority, and the rest, '' or ',ttl,backoff,hold,key' for messages that name such things. A message
-- without a field in `extra` is (0, 0, '', 0, '').
local function parse_extra(extra)
  if not extra then return 0, 0, '', 0, '' end
  local attempts, counted, max_attempts, priority, rest = string.match(extra, '^(%d+),(%d+),(%d*),(%d+)(.*)$')
  if not attempts then return 0, 0, '', 0, '' end
  return tonumber(attempts), tonumber(counted), max_attempts, tonumber(priority), rest
end

local function format_extra(attempts, counted, max_attempts, priority, rest)
  return table.concat({ string.format('%d,%d,', attempts, counted), max_attempts, string.format(',%d', priority), rest })
end

-- The rest: whether the TTL is over ('o', noted while the message is leased, or ''), its own TTL (ms or ''), its own
-- backoff policy or '', how long it holds its key ('d' until done, 'g' until granted, 'f' no more), its key or ''.
local function parse_rest(rest)
  if rest == '' then return '', '', '', '', '' end
  local over, ttl, policy, hold, key = string.match(rest, '^,(o?)(%d*),([^,]*),(%a?),(.*)$')
  if not over then return '', '', '', '', '' end
  return over, ttl, policy, hold, key
end

-- The rest as text; '' where it says nothing.
local function format_rest(over, ttl, policy, hold, key)
  if over == '' and ttl == '' and policy == '' and key == '' then return '' end
  return table.concat({ ',', over, ttl, ',', policy, ',', hold, ',', key })
end
