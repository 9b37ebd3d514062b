-- The keys of a partition by name, for scripts that get all of them, in this order.
local function partition(keys)
  return {
    unack = keys[1], last = keys[2], delayed = keys[3], messages = keys[4], meta = keys[5], extra = keys[6],
    delayed_prio = keys[7], ready = keys[8], dead = keys[9], keys = keys[10], expires = keys[11],
    first_due = keys[12], events = keys[13], acked = keys[14], dead_out = keys[15], idem = keys[16], idem_due = keys[17],
  }
end
