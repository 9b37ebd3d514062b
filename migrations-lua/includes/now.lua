-- Redis's clock in ms, rounded down and rounded up. What is due or over by the first is so by the clock; what is to last
-- counts from the second, and is never cut short. TIME moves between two calls, so a script calls this once.
local function now_ms()
  local time = redis.call('TIME')
  local seconds, ms = time[1] * 1000, time[2] / 1000
  return seconds + math.floor(ms), seconds + math.ceil(ms)
end
