-- @include time
-- @include waiting
-- pause_host: pause or resume the calls to a host.
-- KEYS[1] paused
-- ARGV[1] host
-- ARGV[2] paused: 1 or 0
-- ARGV[3] limit: hosts that may be paused
-- returns: 'OK', 'FULL', or 'NONE' where there was no pause to end
-- cost: HDEL, PUBLISH; to pause also HEXISTS, HLEN, TIME, HSET
-- The first write removes: at maxmemory Redis then lets everything after it through. A host that is paused already stays so
-- since then.
if ARGV[2] == '1' then
  if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 'FULL' end
    redis.call('HDEL', KEYS[1], '')
    redis.call('HSET', KEYS[1], ARGV[1], int(now_ms()))
  end
elseif redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return 'NONE'
end
-- Also makes instances read again which hosts are paused.
announce(KEYS[1], '_pushed')
return 'OK'
