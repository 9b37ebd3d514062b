-- When something falls due (ms) that was asked for as a delay, or as '@' and an instant. No delay is shorter than asked
-- for, and none at all means now.
local function due_at(asked, now, up)
  if string.byte(asked) == 64 then return math.max(now, tonumber(string.sub(asked, 2))) end
  local delay = tonumber(asked)
  return delay > 0 and up + delay or now
end
