-- A lease token as a script sees it: attempt * 4096 + generation * 2 + last.
local function open_seal(seal)
  local number = tonumber(seal)
  local last = number % 2
  local generation = ((number - last) / 2) % 2048
  return math.floor(number / 4096), generation, last == 1
end

-- The leases that `args` speaks of: args[3] is a common seal or '', then come n members and, without a common one, n
-- seals. `known` are their extras where they were read already. Returns members, seals, scores (from the zset that each
-- token names) and extras, by index.
local function read_leases(args, n, unack, last_key, extra_key, known)
  local members, seals = { unpack(args, 4, n + 3) }, {}
  for i = 1, n do seals[i] = args[3] ~= '' and args[3] or args[n + 3 + i] end
  local scores = redis.call('ZMSCORE', unack, unpack(members))
  local last
  for i = 1, n do
    local _, _, is_last = open_seal(seals[i])
    if is_last then
      last = last or redis.call('ZMSCORE', last_key, unpack(members))
      scores[i] = last[i]
    end
  end
  return members, seals, scores, known or read_extras(extra_key, members)
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
