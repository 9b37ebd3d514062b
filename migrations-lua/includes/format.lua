-- A whole number as text. `..` and tostring go through %.14g, which loses the low digits of a packed score.
local function int(number)
  return string.format('%d', number)
end
