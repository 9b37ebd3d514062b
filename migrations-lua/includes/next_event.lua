-- When something next happens here by itself (a message falls due, a lease ends), in ms; 0 when nothing will.
local function next_event(unack, last, delayed, delayed_prio)
  local earliest = 0
  for i, key in ipairs({ delayed, delayed_prio, unack, last }) do
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if first[2] then
      local at = tonumber(first[2])
      if i > 2 then at = math.floor(at / 2048) end
      if earliest == 0 or at < earliest then earliest = at end
    end
  end
  return earliest
end
