-- Does a message that stands there live, and hold this key by what its `extra` says?
local function holds_key(key, stands, extra)
  if not stands[1] or stands[1] > 5 or not extra or not sound_extra(extra) then return false end
  local _, _, _, _, rest = parse_extra(extra)
  local _, _, _, hold, named = parse_rest(rest)
  return named == key and hold ~= 'f'
end
