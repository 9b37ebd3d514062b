-- The epoch in which this runs: the time between two restarts or promotions of Redis, told by its replication ID, which
-- is new after each (`run_id` is not: it lives through a demotion and a promotion). `hidden` is what to go by where
-- Redis shows scripts no replication ID. Returns the epoch's first 12 digits, and its number in this partition's leases.
-- Read before anything is removed: it may write.
local function present_epoch(meta, hidden)
  local info = redis.pcall('INFO', 'replication')
  local digits = type(info) == 'string' and string.match(info, 'master_replid:(%x%x%x%x%x%x%x%x%x%x%x%x)')
  if not digits or digits == '000000000000' then digits = hidden end
  local field = table.concat({ 'epoch:', digits })
  local number = redis.call('HGET', meta, field)
  if number then return digits, number % 2048 end
  number = redis.call('HINCRBY', meta, 'epochs', 1)
  redis.call('HSET', meta, field, number)
  if number > 64 then
    local all = redis.call('HGETALL', meta)
    for i = 1, #all, 2 do
      if string.sub(all[i], 1, 6) == 'epoch:' and tonumber(all[i + 1]) <= number - 64 then redis.call('HDEL', meta, all[i]) end
    end
  end
  return digits, number % 2048
end
