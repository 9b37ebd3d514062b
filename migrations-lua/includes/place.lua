-- Puts a message that nobody holds where it waits: by its priority and whether it is due.
local function place(member, priority, due, now, delayed, delayed_prio, ready)
  if priority == 0 then
    redis.call('ZADD', delayed, due, member)
  elseif due > now then
    redis.call('ZADD', delayed_prio, due, member)
  else
    redis.call('ZADD', ready, rank(priority, due), member)
  end
end
