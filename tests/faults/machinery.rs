//! What causes the faults does what it says: a power loss takes what was not synced, and only that,
//! a clock moves, a disk fills, a proxy loses what it is told to.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::timeout;

use crate::harness::{Redis, eventually};
use crate::proof::disk::Disk;
use crate::proof::proxy::{Mode, Proxy};
use crate::proof::shim::{Cut, Shim};

/// A Redis of this `appendfsync` that loses its power, and another value of `key` each time.
async fn after_power_loss(shim: &Shim, redis: &mut Redis, value: &str) -> (Cut, Option<String>) {
    let _: String = redis.command(&["SET", "key", value]).await;
    let cut = shim.power_loss(redis, &mut StdRng::from_os_rng());
    redis.restart().await;
    (cut, redis.command(&["GET", "key"]).await)
}

async fn appending(shim: &Shim, fsync: &str) -> Redis {
    let options = Redis::options().appendonly().args(["--appendfsync", fsync]);
    shim.redis(options).start().await
}

#[tokio::test]
async fn a_power_loss_takes_nothing_that_was_synced_before_the_answer() {
    let shim = Shim::new();
    let mut redis = appending(&shim, "always").await;
    for value in ["1", "2", "3"] {
        let (_, kept) = after_power_loss(&shim, &mut redis, value).await;
        assert_eq!(kept.as_deref(), Some(value));
    }
}

#[tokio::test]
async fn a_power_loss_takes_what_was_never_synced() {
    let shim = Shim::new();
    let mut redis = appending(&shim, "no").await;
    let mut taken = 0;
    for value in 0..8 {
        let (cut, kept) = after_power_loss(&shim, &mut redis, &value.to_string()).await;
        assert!(cut.unsynced > 0, "{cut:?}");
        let gone = kept != Some(value.to_string());
        assert_eq!(gone, cut.lost > 0, "{cut:?}");
        taken += u32::from(gone);
    }
    assert!(taken > 0, "nothing was lost");
}

#[tokio::test]
async fn with_everysec_a_power_loss_takes_what_is_newer_than_the_last_sync() {
    let shim = Shim::new();
    let mut redis = appending(&shim, "everysec").await;
    let mut taken = 0;
    for value in 0..6 {
        let _: String = redis.command(&["SET", "old", &value.to_string()]).await;
        // In the second after the next its fsync has ended.
        tokio::time::sleep(Duration::from_millis(2_300)).await;
        let _: String = redis.command(&["SET", "between", "1"]).await;
        let (cut, kept) = after_power_loss(&shim, &mut redis, &value.to_string()).await;
        let old: String = redis.command(&["GET", "old"]).await;
        assert_eq!(old, value.to_string(), "{cut:?}");
        taken += u32::from(kept != Some(value.to_string()));
        if taken > 0 {
            return;
        }
    }
    panic!("nothing was lost");
}

#[tokio::test]
async fn a_clock_goes_forward_and_back_while_redis_runs() {
    let shim = Shim::new();
    let redis = shim.redis(Redis::options()).start().await;
    let _: String = redis.command(&["SET", "key", "1", "PX", "60000"]).await;
    let (real, mut last) = (redis.time_ms().await, 0);
    for ahead in [3_600_001, -3_600_999, 0, 30_000, 120_000] {
        shim.set_clock(ahead);
        let off = redis.time_ms().await - real - ahead;
        assert!((0..5_000).contains(&off), "{off} ms beside {ahead}");
        last = ahead;
    }
    assert_eq!(shim.clock(), last);
    let gone: Option<String> = redis.command(&["GET", "key"]).await;
    assert_eq!(gone, None, "a key that expires in a minute, two minutes later");
}

#[tokio::test]
async fn a_filled_disk_takes_nothing_until_there_is_room() {
    let Some(disk) = Disk::mount(8).await else { return };
    let options = Redis::options().appendonly().args(["--appendfsync", "everysec"]);
    let redis = disk.redis(options).start().await;
    assert!(disk.seen().join("appendonlydir").exists());
    assert!(!disk.dir().join("appendonlydir").exists(), "only processes within see it");
    disk.fill();
    let set = async || {
        let mut connection = redis.connection().await;
        let mut set = deadpool_redis::redis::cmd("SET");
        set.arg("key").arg("x".repeat(5_000));
        set.query_async::<String>(&mut connection).await.map_err(|error| error.to_string())
    };
    let error = eventually("a refusal", || async { set().await.err() }).await;
    assert!(error.contains("MISCONF"), "{error}");
    disk.make_room();
    eventually("room", || async { set().await.ok() }).await;
}

#[tokio::test]
async fn a_proxy_passes_loses_delays_cuts_and_refuses() {
    let redis = Redis::start().await;
    let proxy = Proxy::of(&redis).await;
    let ask = async |words: &[&str]| -> Result<String, String> {
        let client = deadpool_redis::redis::Client::open(proxy.url()).unwrap();
        let mut connection =
            client.get_multiplexed_async_connection().await.map_err(|error| error.to_string())?;
        let mut command = deadpool_redis::redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut connection).await.map_err(|error| error.to_string())
    };
    assert_eq!(ask(&["ECHO", "passes"]).await.unwrap(), "passes");
    for mode in [Mode::Swallow, Mode::CutAfter(3), Mode::CutInTheMiddle] {
        proxy.set(mode);
        let limit = Duration::from_millis(300);
        let lost = timeout(limit, ask(&["ECHO", "gone"])).await;
        assert!(!matches!(lost, Ok(Ok(_))), "{mode:?}: {lost:?}");
        proxy.set(Mode::Pass);
        assert_eq!(ask(&["ECHO", "again"]).await.unwrap(), "again");
    }
    assert!(proxy.swallowed() > 0 && proxy.cut() >= 2);
    proxy.set(Mode::Delay(Duration::from_millis(150)));
    let begin = std::time::Instant::now();
    assert_eq!(ask(&["ECHO", "late"]).await.unwrap(), "late");
    assert!(begin.elapsed() >= Duration::from_millis(150) && proxy.delayed() > 0);
    proxy.set(Mode::Refuse);
    eventually("a refusal", || async { ask(&["ECHO", "no"]).await.err() }).await;
    proxy.set(Mode::Pass);
    eventually("a connection", || async { ask(&["ECHO", "yes"]).await.ok() }).await;
}
