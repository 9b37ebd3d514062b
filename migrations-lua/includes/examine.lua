local function note(wrong, defect, detail)
  wrong[#wrong + 1], wrong[#wrong + 2] = defect, detail
end

-- What is wrong with a message that has a body: a list of defect, detail, … Where one hides others, it stands alone.
local function examine(k, member, stands, extra, expires, first_due)
  if #member ~= 11 then return { 'bad_id', '' } end
  if #stands == 0 then
    -- It has left, and its death is still to be told of elsewhere.
    if redis.call('ZSCORE', k.dead_out, member) then return {} end
    return { 'no_place', '' }
  end
  if #stands > 2 then
    local names, sets = {}, { 'unack', 'last', 'ready', 'delayed_prio', 'delayed', 'dead', 'acked' }
    for i = 1, #stands, 2 do names[#names + 1] = sets[stands[i]] end
    return { 'many_places', table.concat(names, ', ') }
  end
  if not sound_extra(extra) then return { 'bad_extra', extra } end
  local _, _, _, priority, rest = parse_extra(extra)
  local over, ttl, _, hold, key = parse_rest(rest)
  local wrong = {}
  if misplaced(stands[1], stands[2], priority) then note(wrong, 'wrong_place', '') end
  local lives = stands[1] <= 5
  if lives and key ~= '' and hold ~= 'f' and redis.call('HGET', k.keys, key) ~= member then note(wrong, 'lost_key', key) end
  local timed = lives and ttl ~= '' and over == ''
  if timed and not expires then note(wrong, 'no_expires', '') end
  if expires and not timed then note(wrong, 'stray_expires', '') end
  if first_due and not lives then note(wrong, 'stray_first_due', '') end
  return wrong
end
