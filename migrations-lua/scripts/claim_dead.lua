-- @include partition
-- @include remove
-- @include waiting
-- claim_dead: take dead messages out of the topic, to move them to its dead topic. One that was redriven or deleted meanwhile
-- does not move.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2..] for each, at most 128: member, score of its death in dead_out, its events as they were read: every change of its
--   body adds one
-- returns: for each the score of its death by now, or '' if it is not claimed; or 'STALE'. A claim that was there before is marked
--   with half a ms: what came of it is not known
-- cost: HGET, ZREM, 9 ZMSCORE; up to 2 calls for each, and 12 where some are claimed or gone; one HGET for each key
local k = partition(KEYS)
if redis.call('HGET', k.meta, 'topic') ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local members, claimed, gone, reply = {}, {}, {}, {}
for i = 2, #ARGV, 3 do members[#members + 1] = ARGV[i] end
local stands, scores = stands_of(k, members), redis.call('ZMSCORE', k.dead_out, unpack(members))
for i = 1, #members do
  local member, score = members[i], ARGV[3 * i]
  reply[i] = ''
  if scores[i] == score then
    if string.find(score, '.', 1, true) then
      -- It has left by the end of its retention, or by a claim that is marked.
      reply[i] = score
    elseif string.byte(score) == 45 then
      reply[i] = table.concat({ score, '.5' })
      redis.call('ZADD', k.dead_out, reply[i], member)
    elseif stands[i][1] ~= 7 then
      redis.call('ZREM', k.dead_out, member)
      if not stands[i][1] then gone[#gone + 1] = member end
    elseif (redis.call('HGET', k.events, member) or '') == ARGV[3 * i + 1] then
      claimed[#claimed + 1], reply[i] = member, table.concat({ '-', score })
      redis.call('ZADD', k.dead_out, reply[i], member)
    end
  end
end
drop_all(k, claimed, 'deleted')
if #gone > 0 then forget_all(k, gone, redis.call('HMGET', k.extra, unpack(gone))) end
return reply
