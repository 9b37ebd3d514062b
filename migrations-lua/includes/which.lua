-- The message that is meant: `member`, or, where that is '', the live one that has `key`; false when there is none.
local function which_member(k, member, key)
  if member ~= '' then return member end
  return redis.call('HGET', k.keys, key)
end
