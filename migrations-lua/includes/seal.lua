-- A lease token as a script sees it: attempt * 4096 + generation * 2 + last.
local function open_seal(seal)
  local number = tonumber(seal)
  local last = number % 2
  local generation = ((number - last) / 2) % 2048
  return math.floor(number / 4096), generation, last == 1
end

-- The lease of `members` by index as {score, extra}: read in one go, from the zset that each token names.
local function read_leases(members, seals, unack, last_key, extra_key)
  local normal = redis.call('ZMSCORE', unack, unpack(members))
  local last
  for i = 1, #members do
    local _, _, is_last = open_seal(seals[i])
    if is_last then
      last = last or redis.call('ZMSCORE', last_key, unpack(members))
      normal[i] = last[i]
    end
  end
  return normal, read_extras(extra_key, members)
end

-- Does the token hold this lease now? Returns the deadline, or false.
local function holds(seal, score, extra, now)
  if not score then return false end
  local attempt, generation = open_seal(seal)
  local deadline, of_lease = unpack_lease(score)
  if deadline <= now or of_lease ~= generation then return false end
  local attempts = parse_extra(extra)
  if attempts + 1 ~= attempt then return false end
  return deadline
end
