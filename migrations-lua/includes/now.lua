-- Redis's clock in ms. TIME moves between two calls, so a script calls this once.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
