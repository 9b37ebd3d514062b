-- Counts a revision up, and returns it as text. A Redis that lost its newest changes must not give a revision out twice, so
-- it is never less than the milliseconds of its clock × 1024: all that it lost were given out earlier.
local function next_revision(key, counter, now)
  local last = tonumber(redis.call('HGET', key, counter) or 0) or 0
  local revision = int(math.max(last + 1, now * 1024))
  redis.call('HSET', key, counter, revision)
  return revision
end
