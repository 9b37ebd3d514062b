-- Tells the consumers that wait for this topic, at every instance, to look now. The wake-up leaves with the script itself: no
-- lost answer and no instance that dies can come between a change and its wake-up. Where Redis forbids the channel, nobody
-- could subscribe to it either, and consumers look twice a second instead.
local function announce(key, topic)
  local prefix = string.match(key, '^[^{]*')
  redis.pcall('PUBLISH', table.concat({ prefix, 'wake' }), table.concat({ '- ', topic or string.match(key, '{([^:}]*)') }))
end
