-- The parts of a policy: 'exponential;base_ms;factor;max_ms;jitter', 'fixed;base_ms' or 'schedule;delay;…'. Most messages
-- of a call have the topic's policy, which is parsed once.
local parsed = {}
local function policy_parts(policy)
  if parsed[policy] then return parsed[policy] end
  local parts = {}
  parsed[policy] = parts
  for part in string.gmatch(policy, '[^;]+') do parts[#parts + 1] = part end
  return parts
end

-- The delay (ms) before attempt failures + 1. An exponential one is base * factor ^ (failures - 1), at most max, times
-- 1 +- jitter. The last delay of a schedule repeats. `unit` is a random number in [0, 1) that the caller draws, since Lua's
-- generator starts from the same seed in every script.
local function backoff(policy, failures, unit)
  local parts = policy_parts(policy)
  if parts[1] == 'fixed' then return tonumber(parts[2]) end
  if parts[1] == 'schedule' then return tonumber(parts[math.min(failures, #parts - 1) + 1]) end
  local base, factor, longest = tonumber(parts[2]), tonumber(parts[3]), tonumber(parts[4])
  -- The power may be infinite, and 0 * infinity is not a number.
  local delay = math.min(base * math.min(factor ^ (failures - 1), longest), longest)
  return math.floor(delay * (1 + tonumber(parts[5]) * (2 * tonumber(unit) - 1)) + 0.5)
end

-- The longest delay (ms) of a policy, without jitter.
local function longest_delay(policy)
  local parts = policy_parts(policy)
  if parts[1] == 'exponential' then return tonumber(parts[4]) end
  local longest = 0
  for i = 2, #parts do longest = math.max(longest, tonumber(parts[i])) end
  return longest
end
