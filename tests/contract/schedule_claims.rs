//! Schedules whose claimer died, or that change while their ticks are being made. A claim that nobody finishes is written
//! into Redis by hand, as a claimer that was killed leaves it.

use serde_json::{Value, json};

use crate::harness::*;

const HOUR: i64 = 3_600_000;
const STATES: &str = "dueq:{schedules}:states";
const DUE: &str = "dueq:{schedules}:due";

/// A schedule that ticks every hour, and the topic that it publishes in.
async fn hourly(client: &Client, name: &str, more: Value) -> Value {
    let mut schedule = json!({"every_ms": HOUR, "topic": name, "message": {"payload": 1}});
    for (field, value) in more.as_object().unwrap() {
        schedule[field] = value.clone();
    }
    client.put_schedule(name, &schedule).await.expect(201);
    schedule
}

/// Notes that a tick is to be made, and that somebody has claimed it (0: nobody) and holds it for so long.
async fn claimed(name: &str, tick: i64, claimed_at: i64, held_until: i64) {
    let redis = &shared().await.redis;
    let state: String = redis.command(&["HGET", STATES, name]).await;
    let mut words: Vec<String> = state.splitn(7, ' ').map(str::to_owned).collect();
    (words[2], words[3]) = (tick.to_string(), claimed_at.to_string());
    redis.command::<i64>(&["HSET", STATES, name, &words.join(" ")]).await;
    redis.command::<i64>(&["ZADD", DUE, &held_until.to_string(), name]).await;
}

/// The words of its state, once nobody has claimed it.
async fn unclaimed(name: &str) -> Option<Vec<String>> {
    let state: String = shared().await.redis.command(&["HGET", STATES, name]).await;
    let words: Vec<String> = state.splitn(7, ' ').map(str::to_owned).collect();
    (words[3] == "0").then_some(words)
}

async fn published(client: &Client, topic: &str) -> i64 {
    let answer = client.topic(topic).await;
    if answer.status == 404 { 0 } else { number(&answer.json()["totals"], "published") }
}

/// Waits until nobody makes ticks of the schedule any more.
async fn finished(client: &Client, name: &str) -> Value {
    eventually("the claim finished", || async {
        let seen = client.schedule(name).await;
        let next = instant_ms(text(&seen, "next_at"));
        (next > shared().await.redis.time_ms().await).then_some(seen)
    })
    .await
}

#[tokio::test]
async fn what_nothing_makes_up_for_is_not_made_hours_late_after_its_claimer_died() {
    let client = client().await;
    for (catch_up, made) in [("none", 0), ("one", 1)] {
        let name = topic("claimed");
        hourly(&client, &name, json!({"catch_up": catch_up})).await;
        let now = shared().await.redis.time_ms().await;
        let tick = now - 5 * HOUR / 2;
        claimed(&name, tick, tick + 3, now).await;
        let seen = finished(&client, &name).await;
        assert_eq!(published(&client, &name).await, made, "{catch_up}: {seen}");
        assert_eq!(seen.get("last_at").is_some(), made > 0, "{seen}");
        let missed = seen["missed_ticks"].as_array().cloned().unwrap_or_default();
        let missed: Vec<_> = missed.iter().map(|at| instant_ms(at.as_str().unwrap())).collect();
        assert_eq!(missed, if made > 0 { vec![] } else { vec![tick] }, "{catch_up}");
        client.delete_schedule(&name).await.expect(204);
    }
}

#[tokio::test]
async fn what_nothing_makes_up_for_is_made_in_place_of_a_claimer_that_just_died() {
    let (client, name) = (client().await, topic("claimed"));
    hourly(&client, &name, json!({"catch_up": "none"})).await;
    let now = shared().await.redis.time_ms().await;
    claimed(&name, now - 100, now - 90, now).await;
    finished(&client, &name).await;
    assert_eq!(published(&client, &name).await, 1);
    client.delete_schedule(&name).await.expect(204);
}

#[tokio::test]
async fn a_tick_that_was_claimed_is_made_in_the_topic_of_its_claim() {
    let (client, name, other) = (client().await, topic("claimed"), topic("moved"));
    let mut schedule = hourly(&client, &name, json!({})).await;
    let now = shared().await.redis.time_ms().await;
    claimed(&name, now - 100, now - 90, now + 600).await;
    schedule["topic"] = json!(other);
    let moved = client.put_schedule(&name, &schedule).await.expect(200).json();
    assert_eq!(published(&client, &name).await, 1, "whoever took over had ticked");
    assert_eq!((&moved["topic"], published(&client, &other).await), (&json!(other), 0));
    finished(&client, &name).await;
    claimed(&name, now - 50, 0, now).await;
    finished(&client, &name).await;
    assert_eq!((published(&client, &name).await, published(&client, &other).await), (1, 1));
    client.delete_schedule(&name).await.expect(204);
}

#[tokio::test]
async fn a_tick_is_found_by_its_repetition_until_it_is_noted_and_a_while_longer() {
    let (client, name) = (client().await, topic("claimed"));
    hourly(&client, &name, json!({})).await;
    let redis = &shared().await.redis;
    let now = redis.time_ms().await;
    claimed(&name, now - 100, 0, now).await;
    let first = finished(&client, &name).await;
    // As if whoever made it had not come to note it.
    claimed(&name, now - 100, now - 90, now).await;
    let again = finished(&client, &name).await;
    assert_eq!(published(&client, &name).await, 1);
    assert_eq!(first["last_message_id"], again["last_message_id"]);
    let due = format!("dueq:{{{name}:0}}:idem_due");
    let until = eventually("an end of the repetition", || async {
        // The keys are dueq's own and no text.
        let ends: Vec<Vec<u8>> = redis.command(&["ZRANGE", &due, "0", "-1", "WITHSCORES"]).await;
        let until: i64 = std::str::from_utf8(ends.last()?).ok()?.parse().ok()?;
        (until < now + 30 * 24 * HOUR).then_some(until)
    })
    .await;
    assert!(until > now + 6 * 24 * HOUR, "a thousand ticks, a week at most: {}", until - now);
    client.delete_schedule(&name).await.expect(204);
}

#[tokio::test]
async fn whoever_takes_over_a_claim_that_is_noted_releases_its_ticks_and_publishes_nothing() {
    let (client, name) = (client().await, topic("claimed"));
    let yearly = json!({"cron": "0 0 1 1 *", "topic": name, "message": {"payload": 1}});
    client.put_schedule(&name, &yearly).await.expect(201);
    let redis = &shared().await.redis;
    let now = redis.time_ms().await;
    claimed(&name, now - 370 * 24 * HOUR, 0, now).await;
    finished(&client, &name).await;
    let due = format!("dueq:{{{name}:0}}:idem_due");
    let released = || async {
        let year = (now + 365 * 24 * HOUR).to_string();
        (redis.command::<i64>(&["ZCOUNT", &due, &year, "+inf"]).await == 0).then_some(())
    };
    eventually("the tick released", released).await;
    let before = eventually("the end of the claim", || async { unclaimed(&name).await }).await;
    // As its claimer leaves it that dies after noting the tick.
    const STRETCH: &str = "
        local all = redis.call('HGETALL', KEYS[1])
        for i = 1, #all, 2 do
            local over = string.format('%d', ARGV[1])
            redis.call('HSET', KEYS[1], all[i], (string.gsub(all[i + 1], '^%d+', over)))
            redis.call('ZADD', KEYS[2], over, all[i])
        end
        return #all / 2";
    let (idem, years) = (format!("dueq:{{{name}:0}}:idem"), (now + 87_600 * HOUR).to_string());
    let ticks: i64 = redis.command(&["EVAL", STRETCH, "2", &idem, &due, &years]).await;
    assert_eq!(ticks, 1);
    let next: i64 = before[2].parse().unwrap();
    claimed(&name, next, now - 50, now).await;
    let after = eventually("the end of the claim", || async { unclaimed(&name).await }).await;
    eventually("the tick released", released).await;
    assert_eq!((&after, published(&client, &name).await), (&before, 1));
    client.delete_schedule(&name).await.expect(204);
}

#[tokio::test]
async fn a_schedule_put_anew_while_it_ticks_notes_what_was_made() {
    let (client, name) = (client().await, topic("claimed"));
    let many = json!({"cron": "* * * * * *", "topic": name, "catch_up": "all",
        "message": {"payload": "x".repeat(32_000)}});
    // Early in a second, so that no tick of its own comes before those that are claimed.
    eventually("the beginning of a second", || async {
        (shared().await.redis.time_ms().await % 1_000 < 300).then_some(())
    })
    .await;
    client.put_schedule(&name, &many).await.expect(201);
    let now = shared().await.redis.time_ms().await;
    claimed(&name, (now / 1_000 - 990) * 1_000, 0, now).await;
    eventually("a tick", || async { (published(&client, &name).await > 0).then_some(()) }).await;
    let rare = json!({"every_ms": HOUR, "topic": name, "message": {"payload": 1}});
    let put = client.put_schedule(&name, &rare).await.expect(200).json();
    assert!(put.get("last_at").is_none(), "it had ticked a thousand times before: {put}");
    let last = eventually("the ticks noted", || async {
        let seen = client.schedule(&name).await;
        seen.get("last_at").is_some().then_some(seen)
    })
    .await;
    assert!(last.get("last_message_id").is_some(), "{last}");
    assert!(instant_ms(text(&last, "last_at")) <= now + 1_000, "{last}");
    assert!(instant_ms(text(&last, "next_at")) > now + HOUR / 2, "{last}");
    client.delete_schedule(&name).await.expect(204);
    client.delete_topic(&name, "?force=true").await.expect(204);
}
