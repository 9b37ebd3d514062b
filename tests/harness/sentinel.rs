//! Sentinels: the server under test with `--sentinel`, each on a free port, in a directory of its own. They know of each
//! other and of replicas from the beginning, so that nobody waits until they have met.

use std::collections::BTreeMap;
use std::fs::{File, create_dir_all, write};
use std::process::{Command, Stdio};
use std::time::Duration;

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{self, FromRedisValue, RedisResult};

use super::eventually;
use super::process::{Process, temp_dir, text_of};
use super::redis::{Redis, RedisOptions, free_port, server};

/// A primary that Sentinels watch over.
#[derive(Clone, Debug)]
pub struct Group {
    pub name: String,
    /// What `sentinel monitor` says.
    pub host: String,
    pub port: u16,
    pub replicas: Vec<u16>,
    /// How long it may be silent, ms.
    pub down_after: u64,
}

impl Group {
    /// One that is down only if a test says so.
    pub fn of(name: &str, primary: &Redis) -> Group {
        let (name, host) = (name.to_owned(), "127.0.0.1".to_owned());
        Group { name, host, port: primary.port(), replicas: Vec::new(), down_after: 60_000 }
    }
}

/// Some Sentinels, which end on drop.
pub struct Sentinels {
    members: Vec<Sentinel>,
}

struct Sentinel {
    process: Process,
    port: u16,
    password: Option<String>,
}

impl Sentinels {
    /// So many that watch over these; `more` are lines for all of their files.
    pub async fn start(number: usize, groups: &[Group], more: &str) -> Sentinels {
        let dir = temp_dir("sentinels");
        let all: Vec<(u16, String)> = (0..number)
            .map(|_| (free_port(), format!("{:040x}", rand::random::<u128>())))
            .collect();
        let mut members = Vec::new();
        for (port, id) in &all {
            let mut lines = format!("port {port}\nbind 127.0.0.1\nsentinel myid {id}\n{more}\n");
            for Group { name, host, port: primary, replicas, down_after } in groups {
                let quorum = number / 2 + 1;
                lines += &format!("sentinel monitor {name} {host} {primary} {quorum}\n");
                lines += &format!("sentinel down-after-milliseconds {name} {down_after}\n");
                lines += &format!("sentinel failover-timeout {name} 4000\n");
                for replica in replicas {
                    lines += &format!("sentinel known-replica {name} 127.0.0.1 {replica}\n");
                }
                for (other, its) in all.iter().filter(|(_, other)| other != id) {
                    lines += &format!("sentinel known-sentinel {name} 127.0.0.1 {other} {its}\n");
                }
            }
            let own = dir.join(port.to_string());
            create_dir_all(&own).expect("a directory");
            write(own.join("sentinel.conf"), lines).expect("a file");
            let log = File::create(own.join("log")).expect("a log file");
            let mut command = Command::new(server());
            command.arg(own.join("sentinel.conf")).arg("--sentinel").current_dir(&own);
            let command = command.stdin(Stdio::null()).stdout(log.try_clone().expect("a handle"));
            let mut process = Process::start(command.stderr(log));
            let password = more.lines().find_map(|line| line.strip_prefix("requirepass "));
            let password = password.map(str::to_owned);
            let answers = url(*port, password.as_deref());
            eventually("a Sentinel that answers", || async {
                connect(&answers).await.ok().map(drop)
            })
            .await;
            assert!(process.ended().is_none(), "{}", text_of(&own.join("log")));
            members.push(Sentinel { process, port: *port, password });
        }
        Sentinels { members }
    }

    /// `host:port` of each.
    pub fn addresses(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect()
    }

    /// The URLs of all, as `--redis-url` takes them.
    pub fn urls(&self) -> String {
        let urls = self.members.iter().map(|member| url(member.port, member.password.as_deref()));
        urls.collect::<Vec<_>>().join(",")
    }

    /// SIGKILL for one of them.
    pub fn kill9(&mut self, member: usize) {
        self.members[member].process.kill9();
    }

    /// The process of one of them.
    pub fn process(&mut self, member: usize) -> &mut Process {
        &mut self.members[member].process
    }

    /// `SENTINEL` and these words, to one of them.
    pub async fn ask<T: FromRedisValue>(&self, member: usize, words: &[&str]) -> RedisResult<T> {
        let Sentinel { port, password, .. } = &self.members[member];
        let mut connection = connect(&url(*port, password.as_deref())).await?;
        redis::cmd("SENTINEL").arg(words).query_async(&mut connection).await
    }

    /// Waits until all of them know that so many replicas of this primary are well.
    pub async fn know_well(&self, name: &str, replicas: usize) {
        for member in 0..self.members.len() {
            eventually("the replicas are known to be well", || async {
                let known: Vec<BTreeMap<String, String>> =
                    self.ask(member, &["REPLICAS", name]).await.ok()?;
                let well = |one: &&BTreeMap<String, String>| {
                    one["flags"] == "slave" && one["master-link-status"] == "ok"
                };
                (known.iter().filter(well).count() == replicas).then_some(())
            })
            .await;
        }
    }

    /// A failover as an operator orders it; the one that is asked leads it.
    pub async fn fail_over(&self, member: usize, name: &str) {
        eventually("a failover begins", || async {
            self.ask::<()>(member, &["FAILOVER", name]).await.ok()
        })
        .await;
    }

    /// Waits until this one says that the primary is there.
    pub async fn names(&self, member: usize, name: &str, port: u16) {
        eventually("another primary", || async {
            let words = ["GET-MASTER-ADDR-BY-NAME", name];
            let (_, now) = self.ask::<(String, u16)>(member, &words).await.ok()?;
            (now == port).then_some(())
        })
        .await;
    }
}

/// A primary and its replica, which has everything.
pub async fn pair(options: RedisOptions) -> [Redis; 2] {
    let options = options.args(["--repl-diskless-sync-delay", "0"]);
    let [primary, replica] = [options.clone().start().await, options.start().await];
    follow(&replica, &primary).await;
    [primary, replica]
}

/// Makes `replica` follow `primary`, and waits until it has everything.
pub async fn follow(replica: &Redis, primary: &Redis) {
    let port = primary.port().to_string();
    let _: () = replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    eventually("the replica has everything", || async {
        let info: String = replica.command(&["INFO", "replication"]).await;
        let own = primary.info("master_repl_offset").await;
        let offset = format!("slave_repl_offset:{own}");
        let has_it = info.contains("master_link_status:up") && info.contains(&offset);
        // A primary counts a replica a moment after that has loaded everything.
        let listed: String = primary.command(&["INFO", "replication"]).await;
        let is_online = listed.contains(&format!("port={},state=online", replica.port()));
        (has_it && is_online).then_some(())
    })
    .await;
}

fn url(port: u16, password: Option<&str>) -> String {
    match password {
        Some(password) => format!("redis://:{password}@127.0.0.1:{port}/"),
        None => format!("redis://127.0.0.1:{port}/"),
    }
}

async fn connect(url: &str) -> RedisResult<MultiplexedConnection> {
    let patient = redis::AsyncConnectionConfig::new()
        .set_response_timeout(Some(Duration::from_secs(5)))
        .set_connection_timeout(Some(Duration::from_secs(5)));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await
}
