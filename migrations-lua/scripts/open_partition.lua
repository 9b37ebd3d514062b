-- @include message
-- @include waiting
-- open_partition: write a partition's topic, and the configuration that its scripts need.
-- KEYS[1] meta
-- KEYS[2] first_due
-- KEYS[3] rates
-- KEYS[4] history
-- KEYS[5] recent
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] max_attempts
-- ARGV[3] backoff policy, as `backoff` reads it
-- ARGV[4] lease_ms
-- ARGV[5] rules without their first part, as `parse_rules` reads them
-- ARGV[6] dead topic: where deaths are published, or ''
-- ARGV[7] acked_max: how many acked messages are retained, or '' for the default
-- ARGV[8] partitions: how many the topic has
-- ARGV[9] paused: 1 or 0; '' to leave it as it is
-- ARGV[10] group rules, as `group_rules` reads them, or '' for the default
-- ARGV[11] fair: 1 if groups take turns, or ''
-- ARGV[12] 1 to open the partition although the topic was deleted here, since its first partition is open; or absent
-- returns: 'OK'; 'STALE paused' (1 or 0) if a later revision is there, 'REPLACED' if a later topic of this name is;
--   'DELETED' if the topic was deleted; 'GROUPS paused' if it has messages in groups and the registry
--   does not say so; 'OLDER' or 'NEWER' if the partition has another version of the schema; 'SPLIT n paused' if
--   the topic has more partitions than the registry says
-- cost: HMGET, HDEL, HSET, HSETNX, six times HSET or HDEL, PUBLISH, maybe HSET, HDEL and 3 UNLINK
local meta = redis.call('HMGET', KEYS[1], 'topic', 'rules', 'max_attempts', 'partitions', 'sleep', 'group_rules', 'published', 'lease_ms', 'fair')
local paused, known_lease = string.sub(meta[2] or '0', 1, 1), meta[8]
if meta[1] then
  local number, revision, schema = string.match(ARGV[1], '^(%d+) (%d+) (%d+)$')
  local gone, known, changed, its_schema = string.match(meta[1], '^(%-?)(%d+) ?(%d*) ?(%d*)$')
  number, revision, schema = tonumber(number), tonumber(revision), tonumber(schema)
  -- Version 1 did not write its number.
  known, changed, its_schema = tonumber(known), tonumber(changed) or 0, tonumber(its_schema) or 1
  if gone == '-' and known >= number and not ARGV[12] then return 'DELETED' end
  if gone == '' and known > number then return 'REPLACED' end
  -- Also of a topic before it that the registry has lost: what lies in its partitions would be out of sight.
  if gone == '' and tonumber(meta[4] or 1) > tonumber(ARGV[8]) then return table.concat({ 'SPLIT ', meta[4], ' ', paused }) end
  if gone == '' and its_schema == 4 and schema < 4 then return table.concat({ 'GROUPS ', paused }) end
  if gone == '' and its_schema > schema then return 'NEWER' end
  if gone == '' and its_schema < schema and its_schema == 1 then return 'OLDER' end
  if known == number and changed > revision then return table.concat({ 'STALE ', paused }) end
  if known == number and changed == revision then return 'OK' end
  if known ~= number then paused, meta[3], meta[6], meta[9] = '0', false, false, false end
end
-- A first write that removes nothing: a new configuration is accepted at maxmemory too.
redis.call('HDEL', KEYS[1], '')
if ARGV[9] ~= '' then paused = ARGV[9] end
local rules = table.concat({ paused, ',', ARGV[5] })
redis.call('HSET', KEYS[1], 'topic', ARGV[1], 'max_attempts', ARGV[2], 'backoff', ARGV[3], 'lease_ms', ARGV[4])
redis.call('PERSIST', KEYS[1])
if known_lease and tonumber(known_lease) < tonumber(ARGV[4]) then note_short_lease(KEYS[1], tonumber(known_lease)) end
-- Its history begins with it, without what an older dueq may have left of a deleted topic. That of a partition that an older
-- dueq made begins when it is first noted.
if not meta[7] then
  redis.call('HSETNX', KEYS[1], 'noted', '')
  redis.call('UNLINK', KEYS[4], KEYS[5])
end
local function set(field, value, default)
  if value == default then redis.call('HDEL', KEYS[1], field) else redis.call('HSET', KEYS[1], field, value) end
end
set('partitions', ARGV[8], '1')
set('rules', rules, '0,,,,,,')
set('dead_topic', ARGV[6], '')
set('acked_max', ARGV[7], '')
set('group_rules', ARGV[10], '')
-- Until a sweep has put the messages that wait in the order of publishing, a topic that was fair is not strict: 's'.
local fair, was_fair = ARGV[11] == '' and meta[9] and 's' or ARGV[11], meta[9] == '1' and '1' or ''
set('fair', fair, '')
-- What was taken of another rate counts no more.
local interval, before = string.match(ARGV[10], ',(%d*),'), string.match(meta[6] or '', ',(%d*),')
if (interval or '') ~= (before or '') or was_fair ~= ARGV[11] then redis.call('UNLINK', KEYS[3]) end
-- More messages of each group may go now, or fewer, or other ones, so a sweep looks for them.
if meta[1] and (was_fair ~= ARGV[11] or ARGV[10] ~= (meta[6] or '')) then
  redis.call('HSET', KEYS[1], 'raised', fair == '1' and '' or 'h')
end
-- Messages may have failed more often than is allowed now, so leases check that from now on.
if tonumber(ARGV[2]) < tonumber(meta[3] or 0) then redis.call('HSET', KEYS[1], 'lowered', '1') end
-- Without a TTL nothing keeps `first_due` up to date.
if string.byte(ARGV[5]) == 44 then redis.call('UNLINK', KEYS[2]) end
-- Consumers may have waited for the topic before it existed, or under another configuration.
if meta[5] == '-1' then redis.call('HDEL', KEYS[1], 'sleep') end
announce(KEYS[1])
return 'OK'
