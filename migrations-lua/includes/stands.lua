-- Where these messages (at most 256) stand: for each a list of set, score, … The sets are numbered in the order in which
-- a message that stands in several is best kept: 1 unack, 2 last, 3 ready, 4 delayed_prio, 5 delayed, 6 dead, 7 acked.
-- Up to 5 it lives.
local function stands_of(k, members)
  local stands = {}
  for i = 1, #members do stands[i] = {} end
  for number, key in ipairs({ k.unack, k.last, k.ready, k.delayed_prio, k.delayed, k.dead, k.acked }) do
    local scores = redis.call('ZMSCORE', key, unpack(members))
    for i = 1, #members do
      if scores[i] then
        local found = stands[i]
        found[#found + 1], found[#found + 2] = number, tonumber(scores[i])
      end
    end
  end
  return stands
end

-- Can this `extra` be read by those who take that for granted?
local function sound_extra(extra)
  if not extra then return true end
  local priority, rest = string.match(extra, '^%d+,%d+,%d*,(%d+)(.*)$')
  if not priority or tonumber(priority) > 255 then return false end
  return rest == '' or string.match(rest, '^,o?%d*,[^,]*,%a?,.*$') ~= nil
end

-- Does a message that waits stand in a set that is not for its priority, or out of its order there?
local function misplaced(number, score, priority)
  if number < 3 or number > 5 then return false end
  if not (math.abs(score) < 9007199254740992) then return true end
  if number == 5 then return priority ~= 0 end
  if priority == 0 then return true end
  return number == 3 and math.floor(score / 35184372088832) ~= 255 - priority
end
