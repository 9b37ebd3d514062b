//! Redis CPU of a message's life: over HTTP at every number of connections,
//! and on Redis alone, where the scripts stand against the same commands as
//! pipelines without Lua.

use serde_json::json;

use super::report::{Section, Table};
use super::servers::{Mode, Server};
use super::site::Site;
use super::stats::thousands;
use super::targets::{Target, Verdict};
use super::wire::PAYLOAD_BYTES;
use super::{Bench, Fallible, ROUNDS};
use crate::store::lab::{Lab, Way};

/// Sizes of the groups that are compared on Redis alone.
const GROUPS: [(usize, Target); 2] = [(16, Target::ScriptCost16), (64, Target::ScriptCost64)];

/// Calls in flight there, as in `design.md`'s measurement.
const FLOWS: usize = 4;

/// Lives for each of its figures.
const LIVES: usize = 40_000;

/// `--only cpu`.
pub async fn measure(bench: &Bench) -> Fallible<Section> {
    let server = bench.group().await?;
    let redis = server.redis().await?.ok_or("cpu wants --redis-url")?;
    let columns = ["what", "publish", "lease + ack", "life", "mean group", "of no Lua"];
    let mut table = Table::new("Redis CPU of a message, µs", &columns);
    let mut over_http = Vec::new();
    let mut site = Site::new(&server, Mode::Group, bench.topic("cpu"));
    for &connections in &bench.args.connections {
        bench.say(format_args!("cpu: over HTTP at {connections}"));
        let life = http_life(bench, &server, &redis, &mut site, connections).await?;
        table.row([
            format!("HTTP, {connections} connections"),
            format!("{:.1}", life.publish_us),
            format!("{:.1}", life.loop_us),
            format!("{:.1}", life.publish_us + life.loop_us),
            life.mean_group.map_or("-".to_owned(), |mean| format!("{mean:.1}")),
            "-".to_owned(),
        ]);
        over_http.push(json!({
            "connections": connections,
            "publish_us": life.publish_us,
            "lease_and_ack_us": life.loop_us,
            "life_us": life.publish_us + life.loop_us,
            "mean_group": life.mean_group,
        }));
    }
    let (mut alone, mut verdicts) = (Vec::new(), Vec::new());
    for (group, target) in GROUPS {
        bench.say(format_args!("cpu: Redis alone, groups of {group}"));
        let (scripts, no_lua) = alone_life(&redis, group).await?;
        let ratio = scripts / no_lua;
        for (what, life, of_no_lua) in [("no Lua", no_lua, 1.0), ("scripts", scripts, ratio)] {
            let none = || "-".to_owned();
            table.row([
                format!("Redis alone, {what}"),
                none(),
                none(),
                format!("{life:.1}"),
                group.to_string(),
                format!("{of_no_lua:.2} x"),
            ]);
        }
        verdicts.push(Verdict { target, measured: ratio });
        alone.push(json!({
            "group": group,
            "no_lua_us": no_lua,
            "scripts_us": scripts,
            "of_no_lua": ratio,
        }));
    }
    table.note("main thread's CPU from INFO; a life is publish, lease and ack");
    Ok(Section {
        name: "cpu",
        table,
        figures: json!({"over_http": over_http, "alone": alone}),
        verdicts,
    })
}

/// Redis CPU for each message, µs.
struct HttpLife {
    publish_us: f64,
    loop_us: f64,
    mean_group: Option<f64>,
}

async fn http_life(
    bench: &Bench,
    server: &Server,
    redis: &Lab,
    site: &mut Site<'_>,
    connections: usize,
) -> Fallible<HttpLife> {
    let groups_before = groups(server).await?;
    let start = redis.facts().await?;
    let published = site.publish(connections, bench.whole() / 2).await?;
    let between = redis.facts().await?;
    // Consumed until the topic is empty, or twice the time is over.
    let consumed = site.consume(connections, bench.whole(), 1).await?;
    let end = redis.facts().await?;
    let groups_after = groups(server).await?;
    bench.say(format_args!(
        "cpu: {} published, {} consumed",
        thousands(published.done as f64),
        thousands(consumed.done as f64)
    ));
    let each = |cpu: f64, messages: u64| cpu / messages.max(1) as f64;
    let calls = groups_after.1 - groups_before.1;
    Ok(HttpLife {
        publish_us: each(between.cpu_us - start.cpu_us, published.done),
        loop_us: each(end.cpu_us - between.cpu_us, consumed.done),
        mean_group: (calls > 0.0).then(|| (groups_after.0 - groups_before.0) / calls),
    })
}

/// Items and calls so far, from the server's own histogram of group sizes.
async fn groups(server: &Server) -> Fallible<(f64, f64)> {
    let (_, metrics) = server.get("/metrics").await?;
    let sum = |name| sum_of(&metrics, name);
    Ok((sum("dueq_group_size_sum"), sum("dueq_group_size_count")))
}

/// The sum of a metric over all its labels, in Prometheus's text format.
fn sum_of(metrics: &str, name: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with(['{', ' ']) {
            return None;
        }
        rest.rsplit_once(' ')?.1.parse::<f64>().ok()
    };
    metrics.lines().filter_map(value).sum()
}

/// Redis CPU of a life on Redis alone, µs: by the scripts, and as pipelines
/// without Lua. Both take turns, and the cheapest round of each counts: what
/// disturbs only ever adds.
async fn alone_life(redis: &Lab, group: usize) -> Fallible<(f64, f64)> {
    let (mut scripts, mut no_lua) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..2 * ROUNDS {
        for (way, least) in [(Way::Scripts, &mut scripts), (Way::NoLua, &mut no_lua)] {
            let life = redis.life_cpu(way, group, LIVES, FLOWS, PAYLOAD_BYTES).await?;
            *least = least.min(life);
        }
    }
    Ok((scripts, no_lua))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels() {
        let metrics = "# TYPE dueq_group_size histogram\n\
            dueq_group_size_sum{script=\"publish\"} 30.0\n\
            dueq_group_size_sum{script=\"lease\"} 12.0\n\
            dueq_group_size_summary 7\n\
            dueq_group_size_count 4\n";
        assert_eq!(sum_of(metrics, "dueq_group_size_sum"), 42.0);
        assert_eq!(sum_of(metrics, "dueq_group_size_count"), 4.0);
        assert_eq!(sum_of(metrics, "nothing"), 0.0);
    }
}
