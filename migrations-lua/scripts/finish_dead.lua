-- @include partition
-- @include remove
-- @include waiting
-- finish_dead: record what became of deaths and completions, unless a message has died again or was claimed by another since. Of those that are
-- done with, messages that have left are deleted.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2..] for each, at most 128: its member in dead_out, score there, what became of it: 'done'; 'failed' if it is not
--   published, so what this caller claimed is dead again; 'kept' if it is not to be published, so what anybody claimed is
-- returns: how many of them were still noted, or 'STALE'
-- cost: HGET, ZREM, up to 3 calls for each, ZREM, 8 ZMSCORE; 6 calls where some had left
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local done, left, found, back = {}, {}, 0, 0
for i = 2, #ARGV, 3 do
  local member, score, became = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('ZSCORE', k.dead_out, member) == score then
    found = found + 1
    local claimed = string.byte(score) == 45
    if became == 'done' or (became == 'kept' and not claimed) then
      done[#done + 1] = member
    elseif claimed and (became == 'kept' or not string.find(score, '.', 1, true)) then
      -- Completions are never claimed.
      local died = math.floor(-tonumber(score))
      redis.call('ZADD', k.dead, died, member)
      redis.call('ZADD', k.dead_out, died, member)
      back = back + 1
    end
  end
end
if back > 0 then redis.call('HINCRBY', k.meta, 'deleted', -back) end
if #done == 0 then return found end
redis.call('ZREM', k.dead_out, unpack(done))
local members, seen = {}, {}
for i = 1, #done do
  -- A message may have two ends here.
  local member = string.sub(done[i], 1, 11)
  if not seen[member] then members[#members + 1] = member end
  seen[member] = true
end
local stands = stands_of(k, members)
for i = 1, #members do
  if not stands[i][1] then left[#left + 1] = members[i] end
end
erase(k, but_untold(k, left))
return found
