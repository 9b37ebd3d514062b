-- @include message
-- Leases: their scores, their tokens, and the epochs in which they were granted.

-- A lease's score: its deadline (ms) and, in the low 11 bits, the number of the epoch in which it was granted.
local function pack_lease(deadline, epoch)
  return string.format('%d', deadline * 2048 + epoch)
end

-- Returns deadline (ms), epoch. A damaged score is that of a lease that ended long ago.
local function unpack_lease(score)
  local number = tonumber(score)
  if not (number >= 0 and number < 9007199254740992) then return 0, 0 end
  local deadline = math.floor(number / 2048)
  return deadline, number - deadline * 2048
end

-- The current epoch. An epoch is the time between two restarts or promotions of Redis. It is named by the replication ID,
-- which is new after each (`run_id` survives a demotion and a promotion). `hidden` names it if Redis hides the replication
-- ID from scripts. Returns the epoch's first 12 digits, and its number in this partition's leases. This may write, so it
-- comes before any removal.
local function present_epoch(meta, hidden)
  local info = redis.pcall('INFO', 'replication')
  local digits = type(info) == 'string' and string.match(info, 'master_replid:(%x%x%x%x%x%x%x%x%x%x%x%x)')
  if not digits or digits == '000000000000' then digits = hidden end
  local field = table.concat({ 'epoch:', digits })
  local number = redis.call('HGET', meta, field)
  if number then return digits, number % 2048 end
  number = redis.call('HINCRBY', meta, 'epochs', 1)
  redis.call('HSET', meta, field, number)
  if number > 64 then
    -- Groups with settings of their own may have thousands of fields there: then each new epoch looks at some.
    local page = redis.call('HSCAN', meta, redis.call('HGET', meta, 'epoch_at') or '0', 'MATCH', 'epoch:*', 'COUNT', 1000)
    if page[1] == '0' then redis.call('HDEL', meta, 'epoch_at') else redis.call('HSET', meta, 'epoch_at', page[1]) end
    local all = page[2]
    for i = 1, #all, 2 do
      if tonumber(all[i + 1]) <= number - 64 then redis.call('HDEL', meta, all[i]) end
    end
  end
  return digits, number % 2048
end

-- A seal is the part of a lease token that scripts read: attempt * 4096 + epoch * 2 + last. In a call the epoch is an index into the
-- epochs that the call names. `read_leases` replaces it by the epoch's number in this partition's leases. Returns attempt,
-- epoch, and whether this is the last attempt.
local function open_seal(seal)
  local number = tonumber(seal)
  local last = number % 2
  local epoch = ((number - last) / 2) % 2048
  return math.floor(number / 4096), epoch, last == 1
end

-- Reads the leases that `args` names. `epochs` are the fields of meta with the numbers of their epochs. args[4] is a seal
-- that all of them have, or ''. Then come n members and, without a common seal, n seals. `known` are their extras if they
-- were read before. Returns members, seals, scores (from the set that each token names) and extras, by index.
local function read_leases(args, n, epochs, meta, unack, last_key, extra_key, known)
  local members, seals, fields = { unpack(args, 5, n + 4) }, {}, {}
  for field in string.gmatch(epochs, '%S+') do fields[#fields + 1] = field end
  local numbers = redis.call('HMGET', meta, unpack(fields))
  local scores = redis.call('ZMSCORE', unack, unpack(members))
  local last, before, opened, is_last
  for i = 1, n do
    local seal = args[4] ~= '' and args[4] or args[n + 4 + i]
    if seal ~= before then
      local _, at, ends = open_seal(seal)
      local number = numbers[at + 1]
      -- This partition does not know the epoch. No lease has an attempt 0, so the token holds none.
      before, opened, is_last = seal, number and seal + 2 * (number % 2048 - at) or 0, ends
    end
    seals[i] = opened
    if is_last then
      last = last or redis.call('ZMSCORE', last_key, unpack(members))
      scores[i] = last[i]
    end
  end
  return members, seals, scores, known or read_extras(extra_key, members)
end

-- The code for a lease that the token does not hold: 1 where there is such a message, 2 where there is none. One that is only kept until
-- its completion is published is none.
local function lost(k, member)
  if redis.call('HEXISTS', k.messages, member) == 0 then return 2 end
  local ended = redis.call('ZSCORE', k.dead_out, member .. 'a') and not redis.call('ZSCORE', k.acked, member)
  return ended and 2 or 1
end

-- The deadline of this lease if the token holds it now, or false.
local function holds(seal, score, extra, now)
  if not score then return false end
  local attempt, epoch = open_seal(seal)
  local deadline, of_lease = unpack_lease(score)
  if deadline <= now or of_lease ~= epoch then return false end
  local attempts = parse_extra(extra)
  if attempts + 1 ~= attempt then return false end
  return deadline
end
