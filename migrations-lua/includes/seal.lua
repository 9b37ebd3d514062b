-- A lease token as a script sees it: attempt * 4096 + epoch * 2 + last. On the way here the epoch is its place among
-- those that the call names; `read_leases` puts the number there that it has in this partition's leases.
local function open_seal(seal)
  local number = tonumber(seal)
  local last = number % 2
  local epoch = ((number - last) / 2) % 2048
  return math.floor(number / 4096), epoch, last == 1
end

-- The leases that `args` speaks of: `epochs` names the fields of meta with their epochs' numbers, args[4] is a common seal
-- or '', then come n members and, without a common one, n seals. `known` are their extras where they were read already.
-- Returns members, seals, scores (from the zset that each token names) and extras, by index.
local function read_leases(args, n, epochs, meta, unack, last_key, extra_key, known)
  local members, seals, fields = { unpack(args, 5, n + 4) }, {}, {}
  for field in string.gmatch(epochs, '%S+') do fields[#fields + 1] = field end
  local numbers = redis.call('HMGET', meta, unpack(fields))
  local scores = redis.call('ZMSCORE', unack, unpack(members))
  local last
  for i = 1, n do
    local seal = args[4] ~= '' and args[4] or args[n + 4 + i]
    local _, at, is_last = open_seal(seal)
    local number = numbers[at + 1]
    -- An epoch that this partition does not know (any more): no lease has an attempt 0, so this holds none.
    seals[i] = number and seal + 2 * (number % 2048 - at) or 0
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
  local attempt, epoch = open_seal(seal)
  local deadline, of_lease = unpack_lease(score)
  if deadline <= now or of_lease ~= epoch then return false end
  local attempts = parse_extra(extra)
  if attempts + 1 ~= attempt then return false end
  return deadline
end
