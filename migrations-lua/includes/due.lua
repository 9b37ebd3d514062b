-- When something falls due (ms) that was asked for as a delay, or as '@' and an instant.
local function due_at(asked, now)
  if string.byte(asked) == 64 then return math.max(now, tonumber(string.sub(asked, 2))) end
  return now + tonumber(asked)
end
