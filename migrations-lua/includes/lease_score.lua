-- A lease's score packs its deadline (ms) and, in the low 11 bits, the generation of the Redis run that granted it.
local function pack_lease(deadline, generation)
  return string.format('%d', deadline * 2048 + generation)
end

-- Returns deadline (ms), generation.
local function unpack_lease(score)
  local number = tonumber(score)
  local deadline = math.floor(number / 2048)
  return deadline, number - deadline * 2048
end
