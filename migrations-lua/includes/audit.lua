-- @include group
-- @include message
-- @include remove
-- @include waiting
-- The checks of an audit, and their repairs.

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

-- Whether this entry of a group is in `heads`, and whether it is in `queued`.
local function line_of(k, entry)
  return redis.call('ZSCORE', k.heads, entry) ~= false, redis.call('ZSCORE', k.queued, entry) ~= false
end

-- Returns whether an entry in `heads` or `queued` belongs to a live message of that group.
local function sound_entry(k, entry)
  local member = string.sub(entry, 29)
  local extra = redis.call('HGET', k.extra, member)
  if #member ~= 11 or not extra or not sound_extra(extra) then return false end
  local _, _, _, _, rest = parse_extra(extra)
  local _, known = entry_of(member, rest)
  local at = stands_of(k, { member })[1][1]
  return known == entry and at ~= nil and at <= 6
end

-- Returns the defects of a message that has a body: defect, detail, …. A defect that hides others is listed alone.
local function examine(k, member, stands, extra, expires, first_due, now)
  if #member ~= 11 then return { 'bad_id', '' } end
  if #stands == 0 then
    -- The message has left, but its death is still to be published.
    if redis.call('ZSCORE', k.dead_out, member) then return {} end
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
    local head, queued = line_of(k, entry or '')
    if head ~= (lives and stands[1] ~= 6) or queued ~= (stands[1] == 6) then note(wrong, 'wrong_line', group) end
    if queued and entries_of(k.heads, id) == 0 then note(wrong, 'stuck_group', group) end
  end
  if lives and key ~= '' and hold ~= 'f' and redis.call('HGET', k.keys, key) ~= member then note(wrong, 'lost_key', key) end
  local timed = lives and ttl ~= '' and over == ''
  if timed and not expires then note(wrong, 'no_expires', '') end
  if expires and not timed then note(wrong, 'stray_expires', '') end
  if first_due and not lives then note(wrong, 'stray_first_due', '') end
  return wrong
end

-- Repairs all defects of a message. `drop`: its body cannot be read. Returns what it did, 'dropped', 'ready' (due now),
-- 'kept' (in one of several sets), 'mended' or 'sound'; and its new due time if it has one.
local function mend(k, member, now, drop)
  local extra = redis.call('HGET', k.extra, member)
  local stands = stands_of(k, { member })[1]
  if drop or #member ~= 11 or redis.call('HEXISTS', k.messages, member) == 0 then
    for _, key in ipairs({ k.unack, k.last, k.acked, k.ready, k.delayed_prio, k.delayed, k.blocked, k.dead }) do
      redis.call('ZREM', key, member)
    end
    forget_all(k, { member }, { sound_extra(extra) and extra })
    return 'dropped'
  end
  if not stands[1] and redis.call('ZSCORE', k.dead_out, member) then return 'sound' end
  local became, new_due = 'sound', nil
  if not sound_extra(extra) then
    redis.call('HDEL', k.extra, member)
    extra, became = false, 'mended'
  end
  local attempts, counted, max_attempts, priority, rest = parse_extra(extra)
  local over, ttl, policy, hold, key, group, order = parse_rest(rest)

  local at, score = stands[1], stands[2]
  if #stands > 2 then
    -- Of two leases the one that ends later counts, because no other consumer may hold the message before its end.
    if at == 1 and stands[3] == 2 and stands[4] > score then at, score = 2, stands[4] end
    for number, zset in ipairs({ k.unack, k.last, k.ready, k.delayed_prio, k.delayed, k.blocked, k.dead, k.acked }) do
      if number ~= at then redis.call('ZREM', zset, member) end
    end
    became = 'kept'
  end
  if at == 6 and group == '' then
    -- It lost its group with its `extra`.
    redis.call('ZREM', k.blocked, member)
    at = nil
  elseif at == 6 and not (math.abs(score) < 35184372088832) then
    redis.call('ZADD', k.blocked, now, member)
  end
  if at and mistimed(at, score, now) then
    -- The lease ends now, so that it counts as one that expired; what is dead or acked is kept as long as if it were so now.
    for _, zset in ipairs({ k.unack, k.last, k.acked }) do
      redis.call('ZADD', zset, 'XX', string.format('%d', now * 2048), member)
    end
    redis.call('ZADD', k.dead, 'XX', now, member)
    if became == 'sound' then became = 'mended' end
  end
  if not at then
    at, new_due, became = 5, now, 'ready'
  elseif misplaced(at, score, priority) then
    for _, zset in ipairs({ k.ready, k.delayed_prio, k.delayed }) do redis.call('ZREM', zset, member) end
    new_due = at == 3 and rank_due(score) or score
    if not (new_due >= 0 and new_due < 35184372088832) then new_due = now end
    if became == 'sound' then became = 'mended' end
  end
  if new_due then place(member, priority, new_due, now, k.delayed, k.delayed_prio, k.ready) end

  local lives = at <= 6
  local changed = 0
  local id, entry = entry_of(member, rest)
  if id then
    local head, queued = line_of(k, entry)
    if head ~= (lives and at ~= 6) or queued ~= (at == 6) then
      redis.call('ZREM', k.heads, entry)
      redis.call('ZREM', k.queued, entry)
      if lives then redis.call('ZADD', at == 6 and k.queued or k.heads, 0, entry) end
      changed = changed + 1
    end
    local before = entries_of(k.queued, id)
    let_go(k, { [id] = 1 })
    changed = changed + before - entries_of(k.queued, id)
    if at == 6 and not redis.call('ZSCORE', k.blocked, member) then at = 5 end
  end
  if lives and key ~= '' and hold ~= 'f' then
    local holder = redis.call('HGET', k.keys, key)
    if holder ~= member then
      if holder and holds_key(key, stands_of(k, { holder })[1], redis.call('HGET', k.extra, holder)) then
        -- Two messages cannot hold one key, so this one gives it up.
        rest = format_rest(over, ttl, policy, 'f', key, group, order)
        redis.call('HSET', k.extra, member, format_extra(attempts, counted, max_attempts, priority, rest))
      else
        redis.call('HSET', k.keys, key, member)
      end
      changed = changed + 1
    end
  end
  if not lives then
    free_key(k, member, key)
    changed = changed + redis.call('ZREM', k.first_due, member)
  end
  if lives and ttl ~= '' and over == '' then
    -- It is unknown when the message first fell due, so its TTL begins again.
    if not redis.call('ZSCORE', k.expires, member) then
      local due = new_due or ((at == 4 or at == 5 or at == 6) and score) or now
      redis.call('ZADD', k.expires, string.format('%d', math.max(now, due) + tonumber(ttl)), member)
      changed = changed + 1
    end
  else
    changed = changed + redis.call('ZREM', k.expires, member)
  end
  if changed > 0 and became == 'sound' then became = 'mended' end
  return became, new_due
end
