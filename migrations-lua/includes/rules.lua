-- What a topic's configuration makes scripts mind, from meta's field `rules`, which is not there while it says nothing:
-- 'paused,ttl,acked_ms,dead_ms,dead_max,max_messages,on_full', each but the first maybe ''.
local function parse_rules(rules)
  local paused, ttl, acked_ms, dead_ms, dead_max, max_messages, on_full
  if rules then
    paused, ttl, acked_ms, dead_ms, dead_max, max_messages, on_full =
      string.match(rules, '^(%d),(%d*),(%d*),(%d*),(%d*),(%d*),([%a_]*)$')
  end
  return {
    paused = paused == '1', ttl = tonumber(ttl or ''), acked_ms = tonumber(acked_ms or '') or 0,
    dead_ms = tonumber(dead_ms or '') or 1209600000, dead_max = tonumber(dead_max or '') or 100000,
    max_messages = tonumber(max_messages or ''), drops_oldest = on_full == 'drop_oldest',
  }
end
