//! Memory: what a delayed message takes of Redis beyond its payload, from the
//! difference that many of them make to `used_memory`.

use std::time::Duration;

use serde_json::json;

use super::report::{Section, Table};
use super::servers::Mode;
use super::site::Site;
use super::stats::thousands;
use super::targets::{Target, Verdict};
use super::wire::PAYLOAD_BYTES;
use super::{Bench, Fallible};
use crate::store::lab::{Facts, Lab};

/// How many messages. The tables of Redis's hashes grow in powers of two: at
/// this number they are three quarters full, neither flattering nor the worst.
const MESSAGES: u64 = 100_000;

/// `--only memory`.
pub async fn measure(bench: &Bench) -> Fallible<Section> {
    let server = bench.group().await?;
    let redis = server.redis().await?.ok_or("memory wants --redis-url")?;
    let mut site = Site::new(&server, Mode::Group, bench.topic("memory"));
    // Due while the bench no longer looks, but not for ever in a foreign Redis.
    let delays = (3_600_000, 7_200_000);
    site.fill_delayed(1, delays).await?;
    let before = settled(&redis).await?;
    bench.say(format_args!("memory: {} delayed messages", thousands(MESSAGES as f64)));
    site.fill_delayed(MESSAGES, delays).await?;
    let after = settled(&redis).await?;

    let whole = after.memory.saturating_sub(before.memory) as f64 / MESSAGES as f64;
    let beyond = whole - PAYLOAD_BYTES as f64;
    let mut table = Table::new(
        "Redis memory of a delayed message",
        &["messages", "payload B", "beyond it B", "Redis", "allocator"],
    );
    table.row([
        thousands(MESSAGES as f64),
        PAYLOAD_BYTES.to_string(),
        format!("{beyond:.1}"),
        after.version.clone(),
        after.allocator.clone(),
    ]);
    Ok(Section {
        name: "memory",
        table,
        figures: json!({
            "messages": MESSAGES,
            "payload_bytes": PAYLOAD_BYTES,
            "beyond_payload_bytes": beyond,
            "redis_version": after.version,
            "mem_allocator": after.allocator,
        }),
        verdicts: vec![Verdict { target: Target::Memory, measured: beyond }],
    })
}

/// The counters once the memory no longer moves: tables that are being
/// enlarged exist twice for a while, and the log's buffer comes and goes.
async fn settled(redis: &Lab) -> Fallible<Facts> {
    let mut last = redis.facts().await?;
    let mut still = 0;
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = redis.facts().await?;
        still = match now.memory.abs_diff(last.memory) {
            0..16_384 => still + 1,
            _ => 0,
        };
        last = now;
        if still == 5 {
            break;
        }
    }
    Ok(last)
}
