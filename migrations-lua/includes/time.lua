-- Instants and whole numbers.

-- A whole number as text. `..` and tostring go through %.14g, which loses the low digits of a packed score.
local function int(number)
  return string.format('%d', number)
end

-- Redis's clock in ms, rounded down and rounded up. The first decides what is due or over. Delays and leases count from
-- the second, so that none is cut short. TIME moves between two calls, so a script calls this once.
local function now_ms()
  local time = redis.call('TIME')
  local seconds, ms = time[1] * 1000, time[2] / 1000
  return seconds + math.floor(ms), seconds + math.ceil(ms)
end

-- The due time (ms) of a delay in ms, or of '@' and an instant. No delay is shorter than asked for. A delay of 0 means now.
local function due_at(asked, now, up)
  if string.byte(asked) == 64 then return math.max(now, tonumber(string.sub(asked, 2))) end
  local delay = tonumber(asked)
  return delay > 0 and up + delay or now
end
