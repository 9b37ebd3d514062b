-- exists: return whether a message exists. Called only for a token that was never issued.
-- KEYS[1] messages
-- KEYS[2] meta
-- ARGV[1] topic: number, revision and version of the schema
-- ARGV[2] member
-- returns: 1, 0 or 'STALE'
-- cost: HGET, HEXISTS
if redis.call('HGET', KEYS[2], 'topic') ~= ARGV[1] then return 'STALE' end
return redis.call('HEXISTS', KEYS[1], ARGV[2])
