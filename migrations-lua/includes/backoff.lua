-- Delay (ms) before attempt failures + 1: base * factor^(failures - 1), at most max, times 1 +- jitter.
-- `policy` is 'exponential,base_ms,factor,max_ms,jitter'; `unit` a random number in [0, 1) drawn by the caller,
-- since Lua's generator starts from the same seed in every script.
local function backoff(policy, failures, unit)
  local base, factor, max, jitter = string.match(policy, '^exponential,([%d.]+),([%d.]+),([%d.]+),([%d.]+)$')
  local delay = math.min(tonumber(base) * tonumber(factor) ^ (failures - 1), tonumber(max))
  return math.floor(delay * (1 + tonumber(jitter) * (2 * tonumber(unit) - 1)) + 0.5)
end
