-- @include entry
-- @include group
-- @include message
-- @include remove
-- @include waiting
-- The checks of an audit, and their repairs.

-- What a call looks at in a hash or a sorted set: those of these names that are still there, or if none is given, a page. Returns
-- names, where the next page begins, and how many bytes were read. A small hash or set is one page, regardless of the count: of
-- more than 64 names, the caller names some in each further call.
local function names_of(key, hashed, cursor, count, named)
  local names, bytes = {}, 0
  for _, name in ipairs(named) do
    local there
    if hashed then there = redis.call('HEXISTS', key, name) == 1 else there = redis.call('ZSCORE', key, name) end
    if there then names[#names + 1] = name end
  end
  if #named > 0 then return names, '', 0 end
  -- A scan reads all values of a place, and some may be long.
  if hashed and cursor == '0' and redis.call('HLEN', key) <= 1024 then return redis.call('HKEYS', key), '0', 0 end
  local page
  if hashed then page = redis.call('HSCAN', key, cursor, 'COUNT', count) else page = redis.call('ZSCAN', key, cursor, 'COUNT', count) end
  for i = 1, #page[2], 2 do
    names[#names + 1] = page[2][i]
    bytes = bytes + #page[2][i] + #page[2][i + 1]
  end
  return names, page[1], bytes
end

-- Returns whether a message in this set has a score there that is no instant, or for a lease none that one can end at.
local function mistimed(number, score, now)
  if number == 1 or number == 2 then return not (score >= 0 and score < (now + 604800000) * 2048) end
  return (number == 7 or number == 8) and not (score >= 0 and score < 9007199254740992)
end

-- Returns whether a waiting message is in the wrong set for its priority, or has a wrong score there.
local function misplaced(number, score, priority)
  if number < 3 or number > 6 then return false end
  if not (math.abs(score) < 9007199254740992) then return true end
  if number == 6 then return false end
  if number == 5 then return priority ~= 0 end
  if priority == 0 then return true end
  return number == 3 and math.floor(score / 35184372088832) ~= 255 - priority
end

-- Returns whether a message in these sets is live and holds this key according to its `extra`.
local function holds_key(key, stands, extra)
  if not stands[1] or stands[1] > 6 or not extra or not sound_extra(extra) then return false end
  local _, _, _, _, rest = parse_extra(extra)
  local _, _, _, hold, named = parse_rest(rest)
  return named == key and hold ~= 'f'
end

local function note(wrong, defect, detail)
  wrong[#wrong + 1], wrong[#wrong + 2] = defect, detail
end

-- The entries of a message in `queued`, by its entry in the order of publishing and when it is due if it is blocked: that of a fair
-- topic, too, where there is one.
local function entries_for(k, id, entry, priority, due)
  local _, _, _, fair = group_rules(k)
  return { entry, fair and due and fair_entry(id, priority, due, entry_member(entry)) or nil }
end

-- Whether a message of a group is in `heads`, and whether it is in `queued`.
local function line_of(k, id, entry, priority, due)
  local queued = false
  for _, its in ipairs(entries_for(k, id, entry, priority, due)) do queued = queued or redis.call('ZSCORE', k.queued, its) ~= false end
  return redis.call('ZSCORE', k.heads, entry) ~= false, queued
end

-- Whether nothing will let the next message of a group go.
local function is_stuck(k, id)
  -- A sweep is about to.
  if redis.call('HEXISTS', k.meta, 'raised') == 1 then return false end
  local most, _, _, fair = rules_of(k, id)
  local heads = entries_of(k.heads, id)
  if fair ~= '1' then return heads == 0 and most > 0 end
  if heads >= most then return false end
  return not redis.call('ZSCORE', k.offers, id) and not redis.call('ZSCORE', k.offers, id .. 'p')
end

-- Returns whether an entry in `heads` or `queued` belongs to a live message of that group.
local function sound_entry(k, entry)
  local member = entry_member(entry)
  local extra = redis.call('HGET', k.extra, member)
  if #member ~= 11 or not extra or not sound_extra(extra) then return false end
  local _, _, _, priority, rest = parse_extra(extra)
  local id, known = entry_of(member, rest)
  local at, score = unpack(stands_of(k, { member })[1])
  if not id or not at or at > 6 then return false end
  local its = entries_for(k, id, known, priority, at == 6 and score)
  return entry == its[1] or entry == its[2]
end

-- Returns the defects of a message that has a body: defect, detail, …. A defect that hides others is listed alone.
local function examine(k, member, stands, extra, expires, first_due, now)
  if #member ~= 11 then return { 'bad_id', '' } end
  if #stands == 0 then
    -- The message has left, but its end is still to be published.
    if #but_untold(k, { member }) == 0 then return {} end
    return { 'no_place', '' }
  end
  if #stands > 2 then
    local names, sets = {}, { 'unack', 'last', 'ready', 'delayed_prio', 'delayed', 'blocked', 'dead', 'acked' }
    for i = 1, #stands, 2 do names[#names + 1] = sets[stands[i]] end
    return { 'many_places', table.concat(names, ', ') }
  end
  if not sound_extra(extra) then return { 'bad_extra', extra } end
  local _, _, _, priority, rest = parse_extra(extra)
  local over, ttl, _, hold, key, group = parse_rest(rest)
  local wrong = {}
  if mistimed(stands[1], stands[2], now) then note(wrong, 'wrong_time', '') end
  if misplaced(stands[1], stands[2], priority) then note(wrong, 'wrong_place', '') end
  local lives = stands[1] <= 6
  local id, entry = entry_of(member, rest)
  if id or stands[1] == 6 then
    local head, queued = false, false
    if id then head, queued = line_of(k, id, entry, priority, stands[1] == 6 and stands[2]) end
    if head ~= (lives and stands[1] ~= 6) or queued ~= (stands[1] == 6) then note(wrong, 'wrong_line', group) end
    if queued and is_stuck(k, id) then note(wrong, 'stuck_group', group) end
  end
  if lives and key ~= '' and hold ~= 'f' and redis.call('HGET', k.keys, key) ~= member then note(wrong, 'lost_key', key) end
  local timed = lives and ttl ~= '' and not is_over(over)
  if timed and not expires then note(wrong, 'no_expires', '') end
  if expires and not timed then note(wrong, 'stray_expires', '') end
  if first_due and not lives then note(wrong, 'stray_first_due', '') end
  return wrong
end

-- Moves a message from all sets to one of them, or to none.
local function move_to(k, member, number, score)
  for i, zset in ipairs({ k.unack, k.last, k.ready, k.delayed_prio, k.delayed, k.blocked, k.dead, k.acked }) do
    redis.call('ZREM', zset, member)
    if i == number then redis.call('ZADD', zset, string.format('%d', score), member) end
  end
end

-- Repairs all defects of a message: takes it out of all sets, and puts it where it belongs. `drop`: its body cannot be read. Returns
-- what it did, 'dropped', 'ready' (due now), 'kept' (in one of several sets), 'mended' or 'sound'; and its due time if it waits.
local function mend(k, member, now, drop)
  local extra = redis.call('HGET', k.extra, member)
  local stands = stands_of(k, { member })[1]
  if drop or #member ~= 11 or redis.call('HEXISTS', k.messages, member) == 0 then
    forget_all(k, { member }, { sound_extra(extra) and extra })
    move_to(k, member)
    return 'dropped'
  end
  local expires, first_due = redis.call('ZSCORE', k.expires, member), redis.call('ZSCORE', k.first_due, member)
  if #examine(k, member, stands, extra, expires, first_due, now) == 0 then return 'sound' end
  if not sound_extra(extra) then
    redis.call('HDEL', k.extra, member)
    extra = false
  end
  local attempts, counted, max_attempts, priority, rest = parse_extra(extra)
  local over, ttl, policy, hold, key, group, order = parse_rest(rest)

  -- Of two leases the one that ends later counts, because no other consumer may hold the message before its end.
  local at, score = stands[1], stands[2]
  if at == 1 and stands[3] == 2 and stands[4] > score then at, score = 2, stands[4] end
  -- It lost its group with its `extra`.
  if at == 6 and group == '' then at, score = nil, nil end
  local became, due = at and (#stands > 2 and 'kept' or 'mended') or 'ready', nil
  if not at or (at >= 3 and at <= 6) then
    due = at == 3 and rank_due(score) or score or now
    if not (due >= 0 and due < 35184372088832) then due = now end
  elseif mistimed(at, score, now) then
    -- A lease ends now, as one that expired; what is dead or acked is kept as long as if it were so now.
    score = at == 7 and now or now * 2048
  end
  local waits = due and at ~= 6
  move_to(k, member, not waits and at, due or score)
  if waits then place(member, priority, due, now, k.delayed, k.delayed_prio, k.ready) end

  local lives = not at or at <= 6
  local id, entry = entry_of(member, rest)
  if id then
    redis.call('ZREM', k.heads, entry)
    redis.call('ZREM', k.queued, unpack(entries_for(k, id, entry, priority, stands[1] == 6 and stands[2])))
    if lives then redis.call('ZADD', at == 6 and k.queued or k.heads, 0, entry) end
    -- What is a head by this is put in line, and all groups are looked at.
    if is_fair(k) then redis.call('HSET', k.meta, 'raised', '') else put_back(k, id, now) end
    let_go(k, { [id] = 1 })
  end
  local holder = lives and key ~= '' and hold ~= 'f' and redis.call('HGET', k.keys, key)
  if holder and holder ~= member and holds_key(key, stands_of(k, { holder })[1], redis.call('HGET', k.extra, holder)) then
    -- Two messages cannot hold one key, so this one gives it up.
    rest = format_rest(over, ttl, policy, 'f', key, group, order)
    redis.call('HSET', k.extra, member, format_extra(attempts, counted, max_attempts, priority, rest))
  elseif lives and key ~= '' and hold ~= 'f' then
    redis.call('HSET', k.keys, key, member)
  end
  if not lives then
    free_key(k, member, key)
    redis.call('ZREM', k.first_due, member)
  end
  if not lives or ttl == '' or is_over(over) then
    redis.call('ZREM', k.expires, member)
  elseif not expires then
    -- It is unknown when the message first fell due, so its TTL begins again.
    redis.call('ZADD', k.expires, string.format('%d', math.max(now, due or now) + tonumber(ttl)), member)
  end
  return became, due
end
