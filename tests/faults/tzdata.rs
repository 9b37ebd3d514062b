//! Time zone databases of two versions on the same data, and a clock of Redis that was ahead: schedules tick when they should
//! by the newest database and by the present clock.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Client, Dueq, Launch, Redis, eventually, instant_ms, number, temp_dir, text};
use crate::proof::shim::Shim;
use crate::schedules::{keep, state};

const HOUR: i64 = 3_600_000;

/// A zone as a file of a database: at UTC and an hour ahead in turn, and so much ahead from 2026 on.
fn zone_file(ahead: i8) -> Vec<u8> {
    // 2025-03-01, 2025-11-01 and 2026-01-01.
    let changes = [(1_740_787_200_i64, 1_i8), (1_761_955_200, 0), (1_767_225_600, ahead)];
    let mut file = Vec::new();
    for changes in [&[][..], &changes] {
        file.extend(b"TZif2");
        file.extend([0; 15]);
        let count = changes.len() as u32;
        for count in [0, 0, 0, count, count.max(1), 4] {
            file.extend(count.to_be_bytes());
        }
        changes.iter().for_each(|(at, _)| file.extend(at.to_be_bytes()));
        file.extend(0..count as u8);
        for (_, hours) in if changes.is_empty() { &[(0, 0)][..] } else { changes } {
            file.extend((i32::from(*hours) * 3_600).to_be_bytes());
            file.extend([0, 0]);
        }
        file.extend(b"XYZ\0");
    }
    file.extend(format!("\n<XYZ>{}\n", -ahead).as_bytes());
    file
}

/// A database with two zones: how far they are ahead.
fn database(version: &str, late: i8, early: i8) -> PathBuf {
    let dir = temp_dir("tzdata");
    std::fs::write(dir.join("Late"), zone_file(late)).unwrap();
    std::fs::write(dir.join("Early"), zone_file(early)).unwrap();
    std::fs::write(dir.join("tzdata.zi"), format!("# version {version}\n")).unwrap();
    dir
}

fn with(redis: &Redis, database: &Path) -> Launch {
    Dueq::on(redis).args(["--tzdata-dir", database.to_str().unwrap()])
}

/// The expression for every day at this time of day.
fn daily(local_ms: i64) -> String {
    let second = local_ms / 1_000;
    format!("{} {} {} * * *", second % 60, second / 60 % 60, second / 3_600 % 24)
}

fn path(name: &str) -> String {
    format!("/schedules/{name}")
}

async fn next_at(client: &Client, name: &str) -> i64 {
    let schedule = client.get_path(&path(name)).await.expect(200).json();
    schedule["next_at"].as_str().map_or(0, instant_ms)
}

async fn published(client: &Client, topic: &str) -> i64 {
    let answer = client.get_path(&format!("/topics/{topic}")).await;
    if answer.status == 404 { 0 } else { number(&answer.json()["totals"], "published") }
}

async fn put(client: &Client, name: &str, mut schedule: Value) -> Value {
    schedule["topic"] = json!(name);
    schedule["message"] = json!({"payload": 1});
    client.send_json("PUT", &path(name), &schedule).await.check().json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_time_zones_decide_when_a_schedule_ticks_from_the_first_tick_on() {
    let redis = Redis::start().await;
    let (older, newer) = (database("2030a", 0, 1), database("2030b", 1, 0));
    let old = with(&redis, &older).start().await;
    let soon = (redis.time_ms().await + 15_000) / 1_000 * 1_000;
    // By the newer database the one is to tick soon, and the other in an hour.
    let (late, early) = (daily(soon + HOUR), daily(soon + HOUR));
    let here = old.client();
    put(&here, "late", json!({"cron": late, "timezone": "late"})).await;
    put(&here, "early", json!({"cron": early, "timezone": "early"})).await;
    put(&here, "even", json!({"every_ms": HOUR})).await;
    let even = next_at(&here, "even").await;
    assert_eq!(next_at(&here, "late").await, soon + HOUR);
    assert_eq!(next_at(&here, "early").await, soon);

    let new = with(&redis, &newer).start().await;
    let client = new.client();
    let source = newer.to_str().unwrap();
    let ready = client.get_path("/readyz").await.expect(200).json();
    assert_eq!(ready["tzdata"], json!({"version": "2030b", "source": source}), "{ready}");
    assert!(new.log().contains("2030b") && new.log().contains(source), "{}", new.log());
    let instances = client.get_path("/instances").await.expect(200).json();
    let versions: Vec<_> =
        instances["items"].as_array().unwrap().iter().map(|it| text(it, "tzdata")).collect();
    assert_eq!(versions, ["2030a", "2030b"], "{instances}");
    eventually("both ticks are moved", || async {
        let moved = (next_at(&client, "late").await, next_at(&client, "early").await);
        (moved == (soon, soon + HOUR) || published(&client, "late").await == 1).then_some(())
    })
    .await;
    assert_eq!(next_at(&client, "early").await, soon + HOUR);
    assert_eq!(next_at(&client, "even").await, even);

    // What the older one works out is put right soon, and no tick comes twice.
    eventually("the tick", || async { (published(&client, "late").await == 1).then_some(()) })
        .await;
    eventually("the tick of tomorrow", || async {
        (next_at(&client, "late").await == soon + 24 * HOUR).then_some(())
    })
    .await;
    put(&here, "later", json!({"cron": daily(soon + HOUR), "timezone": "Late"})).await;
    eventually("the tick of tomorrow", || async {
        (next_at(&client, "later").await == soon + 24 * HOUR).then_some(())
    })
    .await;
    assert_eq!(published(&client, "late").await, 1);
    assert_eq!(published(&client, "early").await, 0);
    assert_eq!(next_at(&client, "early").await, soon + HOUR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_changes_under_a_running_instance_moves_the_ticks() {
    let redis = Redis::start().await;
    let zones = database("2030a", 0, 1);
    let dueq = with(&redis, &zones).start().await;
    let client = dueq.client();
    let noon = redis.time_ms().await / 1_000 * 1_000 + 12 * HOUR;
    put(&client, "noon", json!({"cron": daily(noon), "timezone": "Late"})).await;
    assert_eq!(next_at(&client, "noon").await, noon);
    std::fs::write(zones.join("Late"), zone_file(1)).unwrap();
    std::fs::write(zones.join("tzdata.zi"), "# version 2030b\n").unwrap();
    eventually("the tick is an hour earlier", || async {
        (next_at(&client, "noon").await == noon - HOUR).then_some(())
    })
    .await;
    let ready = client.get_path("/readyz").await.expect(200).json();
    assert_eq!(ready["tzdata"]["version"], "2030b", "{ready}");
}

#[tokio::test]
async fn an_old_database_is_warned_of_and_one_that_is_none_is_refused() {
    let redis = Redis::start().await;
    let dueq = with(&redis, &database("2024a", 0, 1)).start().await;
    let ready = dueq.client().get_path("/readyz").await.expect(200).json();
    assert!(ready["warnings"].to_string().contains("2024a"), "{ready}");
    assert!(dueq.log().contains("more than a year old"), "{}", dueq.log());
    let empty = temp_dir("tzdata");
    let refused = with(&redis, &empty).finish().await;
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("--tzdata-dir"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_tick_on_after_the_clock_of_redis_was_ahead_for_a_while() {
    let shim = Shim::new();
    let redis = shim.redis(Redis::options()).start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let names = ["even", "cron", "none", "minutes"];
    put(&client, "even", json!({"every_ms": 1_000})).await;
    put(&client, "cron", json!({"cron": "* * * * * *", "timezone": "Europe/Berlin"})).await;
    put(&client, "none", json!({"every_ms": 1_000, "catch_up": "none"})).await;
    put(&client, "minutes", json!({"cron": "* * * * *", "catch_up": "none"})).await;
    eventually("ticks", || async { (published(&client, "cron").await > 1).then_some(()) }).await;
    shim.set_clock(HOUR);
    sleep(Duration::from_secs(4)).await;
    shim.set_clock(0);
    for name in names {
        eventually(&format!("{name} ticks soon"), || async {
            let ahead = next_at(&client, name).await - redis.time_ms().await;
            (ahead <= 60_000).then_some(())
        })
        .await;
    }
    let before = [published(&client, "even").await, published(&client, "cron").await];
    eventually("they tick on", || async {
        let now = [published(&client, "even").await, published(&client, "cron").await];
        (now[0] > before[0] + 2 && now[1] > before[1] + 2).then_some(())
    })
    .await;
    let last = client.get_path(&path("even")).await.expect(200).instant("last_at");
    assert!(last < redis.time_ms().await + 1_000, "the last tick is not an hour ahead");
}

/// Keeps that a schedule has ticked by a clock that was an hour ahead, and is claimed since `claimed_at`; 0 is not at all.
async fn has_ticked_ahead(redis: &Redis, name: &str, claimed_at: i64) -> i64 {
    let mut words = state(redis, name).await;
    let ahead = (redis.time_ms().await + HOUR) / 60_000 * 60_000;
    (words[2], words[3]) = (ahead.to_string(), claimed_at.to_string());
    words[4] = (ahead - 60_000).to_string();
    keep(redis, name, &words, if claimed_at == 0 { ahead } else { claimed_at + 60_000 }).await;
    ahead
}

#[tokio::test]
async fn a_tick_that_is_being_published_during_a_look_is_put_right_by_the_next_one() {
    let redis = Redis::start().await;
    {
        let dueq = Dueq::on(&redis).start().await;
        let client = dueq.client();
        for name in ["claimed", "free"] {
            put(&client, name, json!({"every_ms": 60_000})).await;
        }
    }
    has_ticked_ahead(&redis, "free", 0).await;
    has_ticked_ahead(&redis, "claimed", redis.time_ms().await).await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let soon = async |name: &str| {
        let next = next_at(&client, name).await - redis.time_ms().await;
        (next <= 60_000).then_some(())
    };
    // One look reads both.
    eventually("a look", || soon("free")).await;
    assert_eq!(soon("claimed").await, None, "a look does not move what is claimed");
    has_ticked_ahead(&redis, "claimed", 0).await;
    eventually("another look", || soon("claimed")).await;
}

#[tokio::test]
async fn the_same_put_puts_a_tick_right_that_is_kept_for_a_clock_that_was_ahead() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    for (name, schedule) in [
        ("even", json!({"every_ms": 60_000})),
        ("cron", json!({"cron": "* * * * *", "timezone": "Europe/Berlin"})),
    ] {
        put(&client, name, schedule.clone()).await;
        let ahead = has_ticked_ahead(&redis, name, 0).await;
        assert_eq!(next_at(&client, name).await, ahead);
        put(&client, name, schedule).await;
        let next = next_at(&client, name).await - redis.time_ms().await;
        assert!((-1_000..=60_000).contains(&next), "{name}: {next}");
    }
}
