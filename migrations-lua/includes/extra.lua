-- What a message carries beyond its body: grants so far, counted ones of them, its own max_attempts ('' for the
-- topic's), its priority. A message without a field in `extra` is (0, 0, '', 0).
local function parse_extra(extra)
  if not extra then return 0, 0, '', 0 end
  local attempts, counted, max_attempts, priority = string.match(extra, '^(%d+),(%d+),(%d*),(%d+)')
  return tonumber(attempts), tonumber(counted), max_attempts, tonumber(priority)
end

local function format_extra(attempts, counted, max_attempts, priority)
  return string.format('%d,%d,%s,%d', attempts, counted, max_attempts, priority)
end
