-- The number of the topic that a partition belongs to, as text: after '-' where that topic was deleted, '' where nothing
-- that can be read says so.
local function owner(meta_key)
  return string.match(redis.call('HGET', meta_key, 'topic') or '', '^%-?%d+') or ''
end
