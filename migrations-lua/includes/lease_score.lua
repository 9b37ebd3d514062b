-- A lease's score packs its deadline (ms) and, in the low 11 bits, the number of the epoch in which it was granted.
local function pack_lease(deadline, epoch)
  return string.format('%d', deadline * 2048 + epoch)
end

-- Returns deadline (ms), epoch.
local function unpack_lease(score)
  local number = tonumber(score)
  local deadline = math.floor(number / 2048)
  return deadline, number - deadline * 2048
end
