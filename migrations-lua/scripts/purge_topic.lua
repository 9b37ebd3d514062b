-- @include budget
-- @include entry
-- @include expire
-- @include partition
-- @include remove
-- @include time
-- @include waiting
-- purge_topic: remove messages by state, up to a limit.
-- KEYS[1..] all of the partition's
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] limit: at most 128
-- ARGV[3] delayed: 1 to purge delayed messages, and blocked ones
-- ARGV[4] ready: 1 to purge ready messages
-- ARGV[5] dead: 1 to purge dead messages
-- ARGV[6] blocked: 1 to purge blocked messages
-- ARGV[7] leased: 1 to purge leased messages
-- returns: {now, purged, left of these states} or 'STALE'
-- cost: HMGET, ZREM, TIME, up to 8 ranges, and up to 16 calls for each range; one HGET for each key, 6 calls for each
--   group
local k = partition(KEYS)
local meta = redis.call('HMGET', k.meta, 'topic', 'rules', 'short')
if meta[1] ~= ARGV[1] then return 'STALE' end
redis.call('ZREM', k.unack, '')
local now = now_ms()
local limit = tonumber(ARGV[2])
end_leases(k, now, 32, parse_rules(meta[2]).ttl)
local later, purged, left = string.format('(%d', now), 0, 0

-- Removes as many messages of one set as fit into the call, and counts the rest.
local function purge(zset, from, upto)
  if purged < limit then
    local members = redis.call('ZRANGEBYSCORE', zset, from, upto, 'LIMIT', 0, limit - purged)
    members = freeable(k, members)
    if zset == k.unack or zset == k.last then
      if #members > 0 then
        redis.call('ZREM', zset, unpack(members))
        redis.call('HINCRBY', k.meta, 'deleted_leased', #members)
        wake_refused(k.meta, meta[3])
      end
    end
    drop_all(k, members, 'purged')
    purged = purged + #members
  end
  left = left + redis.call('ZCOUNT', zset, from, upto)
end
-- Before the others: what they leave behind is not let go.
local fair = redis.call('EXISTS', k.blocked) == 1 and is_fair(k)
if not fair and (ARGV[3] == '1' or ARGV[6] == '1') then purge(k.blocked, '-inf', '+inf') end
if fair and ARGV[3] == '1' then purge(k.blocked, later, '+inf') end
if fair and ARGV[4] == '1' then purge(k.blocked, '-inf', now) end
if ARGV[3] == '1' then
  purge(k.delayed, later, '+inf')
  purge(k.delayed_prio, later, '+inf')
end
if ARGV[7] == '1' then
  purge(k.unack, '-inf', '+inf')
  purge(k.last, '-inf', '+inf')
end
if ARGV[4] == '1' then
  purge(k.ready, '-inf', '+inf')
  purge(k.delayed, '-inf', now)
  purge(k.delayed_prio, '-inf', now)
end
if ARGV[5] == '1' then purge(k.dead, '-inf', '+inf') end
return { now, purged, left }
