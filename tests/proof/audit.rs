//! What really lies in Redis: every key of a topic's partition read by a connection of the test's
//! own, and the invariants that hold of it at any moment (I8, one place; I9, conservation). They hold of all partitions
//! together too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{self, AsyncConnectionConfig, Value};
use serde_json::Value as Json;

use crate::harness::tag_of_partition;

/// The sorted sets of which a message is in exactly one.
pub const PLACES: [&str; 8] =
    ["delayed", "delayed_prio", "ready", "blocked", "unack", "last", "dead", "acked"];

/// Of these sets the heads of groups, which go where leases look, are members.
const OF_HEADS: [&str; 5] = ["delayed", "delayed_prio", "ready", "unack", "last"];

/// Of these the leased ones, where groups take turns.
const LEASED: [&str; 2] = ["unack", "last"];

/// Deaths that are to be published elsewhere: what is told outlives the message until then.
const UNTOLD: &str = "dead_out";

/// What belongs to a message, by its member.
const SIDES: [&str; 2] = ["expires", "first_due"];

/// The lines of groups: those that have come to the front, and those behind them; and in a fair topic the groups' turns.
const LINES: [&str; 3] = ["heads", "queued", "offers"];

const HASHES: [&str; 5] = ["messages", "extra", "events", "keys", "meta"];

/// What `meta` counts.
pub const TOTALS: [&str; 14] = [
    "published",
    "granted",
    "acked",
    "nacked",
    "released",
    "lease_expired",
    "dead",
    "expired",
    "deleted",
    "purged",
    "redriven",
    "replaced",
    "returned",
    "deleted_leased",
];

const READ: &str = "
    local all = {}
    for i, key in ipairs(KEYS) do
        all[i] = i <= tonumber(ARGV[1]) and redis.call('ZRANGE', key, 0, -1) or redis.call('HGETALL', key)
    end
    return all";

/// A partition as it lies in Redis, members in hex.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    /// Where each member is; more than one place is a violation.
    pub places: BTreeMap<String, Vec<&'static str>>,
    /// Members whose death is to be published elsewhere.
    pub untold: BTreeSet<String>,
    /// The payload of each member's body.
    pub bodies: HashMap<String, String>,
    /// Members with a side entry, and which.
    pub sides: Vec<(String, &'static str)>,
    /// The heads of groups, and those behind them.
    pub heads: Vec<Entry>,
    pub queued: Vec<Entry>,
    /// The groups that a lease looks at.
    pub offered: BTreeSet<String>,
    /// How many leases of a message have ended, of those of which something is noted.
    pub attempts: HashMap<String, i64>,
    /// Totals and settings.
    pub meta: HashMap<String, String>,
}

/// A message's place in the line of its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub group: String,
    /// Hex digits; a later message has more.
    pub order: String,
    pub member: String,
}

/// A partition, and the server that has it.
#[derive(Clone, Debug)]
pub struct Place {
    /// The hash tag of its keys, without braces.
    pub tag: String,
    pub url: String,
}

impl Place {
    /// That of a topic with one partition.
    pub fn only(topic: &str, url: &str) -> Place {
        Place { tag: format!("{topic}:0"), url: url.to_owned() }
    }
}

/// A connection that waits for a slow answer, as one of a whole partition on a busy machine is.
pub async fn connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    let patient = Some(Duration::from_secs(10));
    let config = AsyncConnectionConfig::new().set_response_timeout(patient);
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}

/// The member of an id: of its 32 hex digits the first 12 and the last 10.
pub fn member_of(id: &str) -> String {
    let digits = id.replace('-', "");
    format!("{}{}", &digits[..12], &digits[22..])
}

impl Audit {
    /// Reads everything of a partition in one script, so that it is one moment (a full Redis refuses MULTI), and all
    /// partitions, one after another; fails only with the connection.
    pub async fn read(
        connection: &mut MultiplexedConnection,
        topic: &str,
    ) -> redis::RedisResult<Audit> {
        let mut audit = Audit::read_at(connection, &format!("{topic}:0")).await?;
        for partition in 1..audit.meta.get("partitions").map_or(1, |text| number(text)) {
            let tag = tag_of_partition(topic, u8::try_from(partition).expect("256 at most"));
            audit = audit.plus(Audit::read_at(connection, &tag).await?);
        }
        Ok(audit)
    }

    /// The same of the partition with this hash tag.
    pub async fn read_at(
        connection: &mut MultiplexedConnection,
        tag: &str,
    ) -> redis::RedisResult<Audit> {
        let mut read = redis::cmd("EVAL");
        let sets = PLACES.len() + 1 + SIDES.len() + LINES.len();
        read.arg(READ).arg(sets + HASHES.len());
        let names = PLACES.iter().chain(&[UNTOLD]).chain(&SIDES).chain(&LINES).chain(&HASHES);
        for name in names {
            read.arg(format!("dueq:{{{tag}}}:{name}"));
        }
        read.arg(sets);
        type Bytes = Vec<u8>;
        let replies: Vec<Value> = read.query_async(connection).await?;
        let mut audit = Audit::default();
        let mut replies = replies.into_iter();
        for place in PLACES {
            let members: Vec<Bytes> = from(replies.next());
            for member in members {
                audit.places.entry(hex(&member)).or_default().push(place);
            }
        }
        let untold: Vec<Bytes> = from(replies.next());
        audit.untold = untold.iter().map(|member| hex(member)).collect();
        for side in SIDES {
            let members: Vec<Bytes> = from(replies.next());
            audit.sides.extend(members.iter().map(|member| (hex(member), side)));
        }
        let mut line = || from::<Vec<Bytes>>(replies.next()).iter().map(|e| entry(e)).collect();
        (audit.heads, audit.queued) = (line(), line());
        let offers: Vec<Bytes> = from(replies.next());
        let group =
            |offer: &Bytes| String::from_utf8_lossy(&offer[..offer.len().min(16)]).into_owned();
        audit.offered = offers.iter().map(group).collect();
        let messages: HashMap<Bytes, Bytes> = from(replies.next());
        audit.bodies = messages.iter().map(|(m, body)| (hex(m), payload(body))).collect();
        for side in ["extra", "events"] {
            let members: HashMap<Bytes, Bytes> = from(replies.next());
            audit.sides.extend(members.keys().map(|member| (hex(member), side)));
            if side == "extra" {
                let ended = |text: &[u8]| {
                    number(String::from_utf8_lossy(text).split(',').next().unwrap_or_default())
                };
                audit.attempts = members.iter().map(|(m, text)| (hex(m), ended(text))).collect();
            }
        }
        let keys: HashMap<Bytes, Bytes> = from(replies.next());
        audit.sides.extend(keys.values().map(|member| (hex(member), "key")));
        audit.meta = from(replies.next());
        Ok(audit)
    }

    /// Both together, of different partitions of a topic: totals are summed, settings are those of the first.
    pub fn plus(mut self, other: Audit) -> Audit {
        for (member, places) in other.places {
            self.places.entry(member).or_default().extend(places);
        }
        for name in TOTALS {
            let sum = self.total(name) + other.meta.get(name).map_or(0, |text| number(text));
            self.meta.insert(name.to_owned(), sum.to_string());
        }
        self.untold.extend(other.untold);
        self.bodies.extend(other.bodies);
        self.sides.extend(other.sides);
        self.heads.extend(other.heads);
        self.queued.extend(other.queued);
        self.offered.extend(other.offered);
        self.attempts.extend(other.attempts);
        self
    }

    /// How many members are in this place.
    pub fn count(&self, place: &str) -> usize {
        self.places.values().filter(|places| places.contains(&place)).count()
    }

    /// Do its groups take turns?
    pub fn is_fair(&self) -> bool {
        self.meta.get("fair").is_some_and(|fair| fair == "1")
    }

    /// A total, 0 where it was never counted.
    pub fn total(&self, name: &str) -> i64 {
        self.meta.get(name).map_or(0, |text| number(text))
    }

    /// I8 and I9 of this moment; each violation in words.
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (member, places) in &self.places {
            if places.len() > 1 {
                found.push(format!("I8 one place: {member} is in {places:?}"));
            }
            if !self.bodies.contains_key(member) {
                found.push(format!("I8 one place: {member} in {places:?} has no body"));
            }
        }
        let stray = |m: &&String| !self.places.contains_key(*m) && !self.untold.contains(*m);
        for member in self.bodies.keys().filter(stray) {
            found.push(format!("I8 one place: the body of {member} has no place"));
        }
        for (member, side) in self.sides.iter().filter(|(m, _)| !self.bodies.contains_key(m)) {
            found.push(format!("I8 one place: {member} has an entry in {side} and no message"));
        }
        self.lines(&mut found);
        let gone: i64 =
            ["acked", "expired", "deleted", "purged"].map(|t| self.total(t)).iter().sum();
        // What is retained after its ack is counted as acked.
        let there = self.places.values().filter(|places| !places.contains(&"acked")).count() as i64;
        if self.total("published") != there + gone {
            found.push(format!(
                "I9 conservation: published {} is not there {there} + gone {gone}: {:?}",
                self.total("published"),
                self.meta
            ));
        }
        let leased = (self.count("unack") + self.count("last")) as i64;
        let ended = ["acked", "nacked", "released", "lease_expired", "deleted_leased", "returned"];
        let ended: i64 = ended.map(|total| self.total(total)).iter().sum();
        if self.total("granted") != ended + leased {
            found.push(format!(
                "I9 conservation: granted {} is not ended {ended} + leased {leased}: {:?}",
                self.total("granted"),
                self.meta
            ));
        }
        found
    }

    /// I8, I17 and I19 of groups: heads are where leases look, or are leased if groups take turns; the others wait behind them, or
    /// for turns.
    fn lines(&self, found: &mut Vec<String>) {
        let lies = |entry: &Entry| self.places.get(&entry.member).map_or(&[][..], Vec::as_slice);
        let fair = self.is_fair();
        let of_heads = if fair { &LEASED[..] } else { &OF_HEADS };
        let mut last_head: HashMap<&str, &str> = HashMap::new();
        for head in &self.heads {
            let (member, places) = (&head.member, lies(head));
            if !places.iter().any(|place| of_heads.contains(place)) {
                found
                    .push(format!("I8 one place: {member}, a head of its group, is in {places:?}"));
            }
            let last = last_head.entry(&head.group).or_default();
            // One that was granted may be a later one, if the topic was fair then; the checker sees to the order of grants.
            let leased = places.iter().any(|place| LEASED.contains(place));
            if !leased && self.attempts.get(member).is_none_or(|attempts| *attempts == 0) {
                *last = (*last).max(&head.order);
            }
        }
        let rules = self.meta.get("group_rules").map_or("1", String::as_str);
        let limited = !rules.starts_with("0,");
        // What holds for a group with settings of its own may be that it is paused.
        let own = |entry: &Entry| self.meta.contains_key(&format!("group:{}", entry.group));
        let mut behind = BTreeSet::new();
        for entry in &self.queued {
            let (member, places) = (&entry.member, lies(entry));
            behind.insert(member);
            if !places.contains(&"blocked") {
                found.push(format!("I8 one place: {member}, behind a head, is in {places:?}"));
            }
            match last_head.get(&*entry.group) {
                _ if self.meta.contains_key("raised") || own(entry) => {}
                // What ends a lease of a group that may have no more of them has leases look at it.
                held if fair
                    && !self.offered.contains(&entry.group)
                    && (held.is_none() || !limited) =>
                {
                    found.push(format!("I19 fairness: no lease looks at the group of {member}"));
                }
                _ if fair => {}
                None => found.push(format!("I17 groups: {member} is blocked, and by nobody")),
                Some(last) if **last > *entry.order => {
                    found.push(format!("I17 groups: {member} is blocked by a later one"));
                }
                Some(_) => {}
            }
        }
        let blocked = self.places.iter().filter(|(_, places)| places.contains(&"blocked"));
        for (member, _) in blocked.filter(|(member, _)| !behind.contains(member)) {
            found.push(format!("I8 one place: {member} is blocked, and in no line"));
        }
    }
}

/// I9 of an answer of getTopic: the same formulas over its counts and totals.
pub fn conserved(topic: &Json) -> Vec<String> {
    let number = |part: &str, name: &str| topic[part][name].as_i64().unwrap_or(0);
    let sum = |part: &str, names: &[&str]| names.iter().map(|n| number(part, n)).sum::<i64>();
    let mut found = Vec::new();
    let there = sum("counts", &["delayed", "ready", "leased", "blocked", "dead"]);
    let gone = sum("totals", &["acked", "expired", "deleted", "purged"]);
    if number("totals", "published") != there + gone {
        found.push(format!("I9 conservation: published ≠ {there} + {gone} in {topic}"));
    }
    let ended = ["acked", "nacked", "released", "lease_expired", "deleted_leased", "returned"];
    let granted = sum("totals", &ended) + number("counts", "leased");
    if number("totals", "granted") != granted {
        found.push(format!("I9 conservation: granted ≠ {granted} in {topic}"));
    }
    found
}

fn number(text: &str) -> i64 {
    text.parse().unwrap_or(0)
}

fn from<T: redis::FromRedisValue>(value: Option<Value>) -> T {
    let value = value.expect("a reply for every command");
    redis::from_redis_value(value).expect("a reply of the right type")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An entry of a line: 16 digits of the group, those of the order, the member's 11 bytes.
fn entry(bytes: &[u8]) -> Entry {
    let (rest, member) = bytes.split_at(bytes.len().saturating_sub(11));
    let (group, order) = rest.split_at(16.min(rest.len()));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Entry { group: text(group), order: text(order), member: hex(member) }
}

/// The payload of a stored body: after a tag 0; after a tag 1, two bytes of length and a header.
fn payload(body: &[u8]) -> String {
    let payload = match body {
        [0, payload @ ..] => payload,
        [1, high, low, rest @ ..] => {
            rest.get(usize::from(*high) << 8 | usize::from(*low)..).unwrap_or_default()
        }
        _ => b"a body that cannot be read",
    };
    String::from_utf8_lossy(payload).into_owned()
}
