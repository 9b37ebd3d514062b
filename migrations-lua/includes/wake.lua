-- Does a message due at `due` concern consumers that sleep? They wrote until when they sleep; the first that
-- comes earlier wakes them, says so (1), and moves the mark, so that one message causes one wake-up.
local function wake(meta_key, sleep, due)
  if not sleep or due >= tonumber(sleep) then return 0 end
  redis.call('HSET', meta_key, 'sleep', string.format('%d', due))
  announce(meta_key)
  return 1
end
