-- Order among ready messages with a priority: higher first, then earlier due (45 bits of ms reach the year 3084).
local function rank(priority, due)
  return string.format('%d', (255 - priority) * 35184372088832 + due)
end

-- The due time (ms) inside a rank.
local function rank_due(score)
  return tonumber(score) % 35184372088832
end
