-- @include waiting
-- swap_host: change what is written of a failing host, unless another instance has changed it meanwhile.
-- KEYS[1] failing
-- ARGV[1] host
-- ARGV[2] what was written of it, or ''
-- ARGV[3] what is to be, or ''
-- ARGV[4] limit: hosts that may be written down
-- ARGV[5] whether all instances must know at once: 1 or 0
-- returns: 'OK', 'CHANGED' or 'FULL'
-- cost: HGET, HDEL; to write HLEN and HSET, to announce PUBLISH
local written = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if written ~= ARGV[2] then return 'CHANGED' end
if written == '' and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then return 'FULL' end
-- The first write removes: at maxmemory Redis then lets everything after it through.
redis.call('HDEL', KEYS[1], ARGV[1])
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
if ARGV[5] == '1' then announce(KEYS[1], '_pushed') end
return 'OK'
