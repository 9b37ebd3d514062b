//! Bugs of what is around messages: Redis, callbacks, the bounds of the service, and the program itself.

use super::probes::{
    bounds, calls, counts, deaths, forgets, keys, leftovers, links, moves, replicas, told, waits,
};
use super::{Bug, bug, scenario};
use crate::proof::scenarios::{clock, cluster_clocks, endurance, failover, memory_stays, snapshot};

pub(super) fn bugs() -> Vec<Bug> {
    vec![
        // On a Redis that is full, that is a replica by now, or that has gone back.
        bug("resume refused at maxmemory", &["the contract"], scenario!(memory_stays::memory_stays))
            .does("a pause or resume begins with a write that a full Redis refuses")
            .patch("pause_topic", "redis.call('HDEL', KEYS[1], '')\n", ""),
        bug("epochs by run_id", &["I5"], scenario!(failover::failover))
            .does("leases are fenced by the process that granted them, which lives through a demotion and a promotion")
            .patch(
                "lease",
                "local info = redis.pcall('INFO', 'replication')\n  local digits = type(info) == 'string' and string.match(info, 'master_replid:(",
                "local info = redis.pcall('INFO', 'server')\n  local digits = type(info) == 'string' and string.match(info, 'run_id:(",
            ),
        bug("revisions counted up from what is left", &["I13"], scenario!(snapshot::snapshot_restored))
            .does("a revision that Redis lost with its newest seconds is given out again, for another configuration")
            .patch(
                "*",
                "local revision = int(math.max(last + 1, now * 1024))",
                "local revision = int(last + 1)",
            ),
        bug("lanes stay at a replica", &["I12"], scenario!(failover::failover_idle))
            .does("a lane does not mind that its server has become a replica"),
        // A registry that has gone back, while the partitions have not.
        bug("partitions fewer again", &["I1", "I12"], scenario!(forgets::a_registry_set_back))
            .does("a registry that has forgotten a growth is believed")
            .patch(
                "open_partition",
                "if gone == '' and tonumber(meta[4] or 1) > tonumber(ARGV[8]) then",
                "if false then",
            )
            .patch("open_partition", "if known == number and changed > revision then", "if false then"),
        bug("a pause forgotten", &["I15"], scenario!(forgets::a_registry_set_back))
            .does("a registry that has forgotten a pause is believed")
            .patch("open_partition", "if known == number and changed > revision then", "if false then"),
        bug("one partition's mark believed", &["I1"], scenario!(forgets::a_deletion_forgotten))
            .does("a topic is deleted since one of its partitions says so, though its first is open"),
        bug("one clock", &["I2", "I12"], scenario!(cluster_clocks::cluster_clocks))
            .does("an instance takes the clocks of all nodes of a Cluster for one"),
        // Answers that wait for replicas.
        bug("no fence on acks", &["I13"], scenario!(replicas::unconfirmed))
            .does("an ack is answered before the replica has it"),
        bug("replicas connected", &["I13"], scenario!(replicas::unconfirmed))
            .does("a primary whose replicas have left waits for none"),
        bug("fence refused", &["I13"], scenario!(replicas::unconfirmed))
            .does("a full primary refuses the write that replicas are to confirm, and an earlier one counts for it"),
        bug("fence without its epoch", &["I13"], scenario!(replicas::unconfirmed))
            .does("what an old primary has written is confirmed by the replicas of the new one"),
        bug("one replica is enough", &["I13"], scenario!(replicas::a_lagging_replica))
            .does("where all replicas are to confirm, dueq waits for one"),
        bug("a shard that cannot confirm stops all", &["I12"], scenario!(replicas::a_lost_replica))
            .does("what one server cannot confirm is taken for what none can")
            .patch("fence", "return 'OK'", "return 'NO'"),
        bug("closed connections look open", &["I15"], scenario!(links::closed))
            .does("what Redis has closed is used for the next request"),
        // What no answer shows: the watch over every run is there for it.
        bug("script that holds Redis", &["I12"], scenario!(waits::waiting_consumers))
            .does("a lease takes tens of milliseconds of Redis's CPU")
            .patch(
                "lease",
                "local now, up = now_ms()\n",
                "local now, up = now_ms()\nfor i = 1, 4000000 do end\n",
            ),
        bug("panic in the background", &["no panic"], scenario!(counts::leases_nobody_asks_for))
            .does("housekeeping panics, and no request notices"),
        bug("ticks that stay where they were", &["I14"], scenario!(clock::clock_of_schedules))
            .does("the tick that a clock that was ahead, or an older time zone database, has put elsewhere is not moved")
            .patch(
                "finish_schedule",
                "local lost = next_at ~= ARGV[2] or claimed_at ~= ARGV[3]",
                "local lost = next_at ~= ARGV[2] or claimed_at ~= ARGV[3] or ARGV[5] == '0'",
            ),
        bug("loop that ends", &["I14"], scenario!(told::ticks))
            .does("schedules tick once and no more, and no request notices"),
        bug("memory kept", &["no growth"], scenario!(endurance::endurance))
            .does("16 KiB of every look at a message are never freed"),
        bug("descriptor kept", &["no growth"], scenario!(endurance::endurance))
            .does("every look at a message leaves a file open"),
        // Callbacks, and deaths that are told of elsewhere.
        bug("a letter goes with its message", &["I1"], scenario!(calls::letters))
            .does("what is deleted before its death was told of elsewhere is never told of")
            .patch("*", "  if died then members = but_untold(k, members) end\n", ""),
        bug("a move without a claim", &["I8"], scenario!(moves::moves))
            .does("what was redriven or deleted since it was read moves all the same")
            .patch("claim_dead", "elseif stands[i][1] ~= 7 then", "elseif false then"),
        bug("moved on and on", &["the contract"], scenario!(moves::a_circle))
            .does("what moved here when it died moves on when it dies again")
            .patch(
                "take_dead",
                "not bodyless and redis.call('HGET', k.messages, member) or ''",
                "(string.gsub(redis.call('HGET', k.messages, member) or '', '\"o\":', '\"x\":'))",
            ),
        bug("redriven past the limit", &["the contract"], scenario!(moves::a_full_topic))
            .does("a redrive makes more messages live than the topic may hold")
            .patch("*", "if room >= wanted then return room end", "if true then return math.huge end"),
        bug("a key for its message", &["I2"], scenario!(moves::a_key_that_passes_on))
            .does("a change by a key writes the content of one message into the next of that key")
            .patch("update", "member ~= ARGV[10] or ", ""),
        bug("called as it was", &["I14"], scenario!(calls::a_pause))
            .does("what waited for a place is called though its topic has been paused"),
        bug("a park is a grant", &["I10"], scenario!(calls::a_key_that_waits))
            .does("a message that waits for a place has given up the key that it holds until it is granted")
            .patch(
                "lease",
                "key, group = lib.call_key(rest)",
                "key, group = lib.grant_key(k, members[i], extras[i], rest)",
            ),
        bug("broken off is no attempt", &["I7"], scenario!(calls::a_drain))
            .does("a call that the end of an instance breaks off does not count"),
        bug("parked to the end", &["I12"], scenario!(calls::a_pulled_topic))
            .does("what was parked stays so when its topic is pushed no more")
            .patch("fetch_parked", "    redis.call('ZADD', k.delayed, due, member)\n", ""),
        // What scripts compute before they write, and what they write.
        bug("key cut at a NUL", &["I8", "I10"], scenario!(keys::a_key_with_a_nul))
            .does("what is written of a message that failed ends where its key has a NUL")
            .patch(
                "nack",
                "  return table.concat({ string.format('%d,%d,', attempts, counted), max_attempts, string.format(',%d', priority), rest })",
                "  return string.format('%d,%d,%s,%d%s', attempts, counted, max_attempts, priority, rest)",
            ),
        bug("removed before it is placed", &["I1", "I8"], scenario!(deaths::a_backoff))
            .does("a nack ends the lease, and then falls over the backoff that it computes")
            .patch(
                "nack",
                "        after = backoff(policy, counted, ARGV[at + 3])",
                "        redis.call('ZREM', k.unack, member)\n        after = backoff(policy, counted, ARGV[at + 3]) + nil",
            ),
        // What is left, and what is damaged.
        bug("history of a deleted topic", &["I8"], scenario!(leftovers::a_deleted_topic))
            .does("a deleted topic leaves its history")
            .patch("close_partition", " k.history, k.recent,", ""),
        bug("a damaged body fails its call", &["I12"], scenario!(leftovers::a_damaged_body))
            .does("a lease that looks at sizes falls over a body that is too short")
            .patch("*", "  if tag == 1 and low then size = size - 3", "  if tag == 1 then size = size - 3"),
        // What bounds the service.
        bug("budget not kept", &["I15"], scenario!(bounds::half_bodies))
            .does("bodies and answers in flight may take any amount of memory"),
        bug("refused grants kept", &["I12"], scenario!(bounds::grants_without_room))
            .does("what is granted and finds no room in the answer waits out its lease"),
    ]
}
