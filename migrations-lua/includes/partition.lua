-- A partition: its keys, its topic and that topic's rules.

-- The keys of a partition by name. A script that gets all of them gets them in this order.
local function partition(keys)
  return {
    unack = keys[1], last = keys[2], delayed = keys[3], messages = keys[4], meta = keys[5], extra = keys[6],
    delayed_prio = keys[7], ready = keys[8], dead = keys[9], keys = keys[10], expires = keys[11],
    first_due = keys[12], events = keys[13], acked = keys[14], dead_out = keys[15], heads = keys[16], queued = keys[17],
    blocked = keys[18], rates = keys[19], turns = keys[20], offers = keys[21], idem = keys[22], idem_due = keys[23], held = keys[24],
    -- Of the scripts that get these, too.
    history = keys[25], recent = keys[26],
  }
end

-- The number of the topic that a partition belongs to, as text. It has a '-' before it if the topic was deleted, and is ''
-- if it cannot be read.
local function owner(meta_key)
  return string.match(redis.call('HGET', meta_key, 'topic') or '', '^%-?%d+') or ''
end

-- The part of a topic's configuration that scripts need, from meta's field `rules`:
-- 'paused,ttl,acked_ms,dead_ms,dead_max,max_messages,on_full'. All but the first may be ''. A topic with defaults has no
-- such field.
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
