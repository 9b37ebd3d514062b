-- @include entry
-- @include message
-- Why messages wait, as far as their partition knows.

-- What holds for all messages of a partition: now (ms), whether the topic is paused (0|1), how many messages are leased, and where
-- the calls so far end at the topic's rate (µs; in the first partition only).
local function topic_reasons(k, now, rules)
  local held = string.format('(%d', now * 2048 + 2047)
  local leases = redis.call('ZCOUNT', k.unack, held, '+inf') + redis.call('ZCOUNT', k.last, held, '+inf')
  return { now, rules.paused and 1 or 0, leases, redis.call('HGET', k.meta, 'call_at') or 0 }
end

-- Why these waiting messages (at most 256) are held up in their groups: three fields for each, or none at all where there are no
-- groups. '', 0, '': they are not. 'group_paused', 0, ''. 'group', how many are ahead, the first of these. 'rate', when its turn
-- comes (ms), ''. 'turn', its own due time (ms), '': its due time is that of a turn at the group's rate. `dues` are those in their sets
-- (ms), `blocked` says whether that is `blocked` in a strict topic.
local function group_reasons(k, now, members, dues, extras, blocked)
  local found = {}
  if #members == 0 or redis.call('EXISTS', k.heads, k.queued) == 0 then return found end
  local turns = redis.call('EXISTS', k.turns) == 1 and redis.call('ZMSCORE', k.turns, unpack(members))
  local ids, heads, firsts = {}, {}, {}
  for i = 1, #members do
    local reason, number, ahead = '', 0, ''
    local attempts, _, _, priority, rest = parse_extra(extras[i])
    local _, _, _, _, _, group, order = parse_rest(rest)
    local id = group ~= '' and (ids[group] or group_id(group))
    if id then
      ids[group] = id
      local most, interval, burst, fair = rules_of(k, id)
      if fair == '1' or blocked then
        local from, upto = bounds_of(id)
        heads[id] = heads[id] or entries_of(k.heads, id)
        local entry = fair == '1' and fair_entry(id, priority, dues[i], members[i]) or table.concat({ id, order, members[i] })
        local before = redis.call('ZLEXCOUNT', k.queued, from, '(' .. entry)
        if most == 0 then
          reason = 'group_paused'
        elseif heads[id] >= most or (fair ~= '1' and heads[id] + before > 0) then
          firsts[id] = firsts[id] or redis.call('ZRANGEBYLEX', k.heads, from, upto, 'LIMIT', 0, 1)[1]
            or redis.call('ZRANGEBYLEX', k.queued, from, upto, 'LIMIT', 0, 1)[1]
          -- While the order of the topic changes, it may be the first itself.
          local first = entry_member(firsts[id])
          if first ~= members[i] then reason, number, ahead = 'group', heads[id] + before, first end
        elseif fair == '1' and interval and attempts == 0 then
          local ends = tonumber(redis.call('ZSCORE', k.rates, granted_turns(id)) or 0)
          local turn = math.ceil((math.max(ends, now * 1000) + (before - burst + 1) * interval) / 1000)
          if turn > now then reason, number = 'rate', turn end
        end
      elseif turns and turns[i] and tonumber(turns[i]) < dues[i] then
        reason, number = 'turn', tonumber(turns[i])
      end
    end
    local n = #found
    found[n + 1], found[n + 2], found[n + 3] = reason, number, ahead
  end
  return found
end

-- As `snapshot`, and for a message that waits also what the two functions above return.
local function reasoned(k, now, member, state, at, extra, topic_max, rules, bodyless)
  local shown = snapshot(k, member, state, at, extra, topic_max, rules.ttl, bodyless)
  if state == 'delayed' or state == 'ready' or state == 'blocked' then
    shown[10] = topic_reasons(k, now, rules)
    shown[11] = group_reasons(k, now, { member }, { at }, { extra }, state == 'blocked')
  end
  return shown
end
