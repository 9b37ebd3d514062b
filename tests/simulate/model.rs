//! One topic of many partitions over the primaries of a Redis Cluster, as a discrete-event simulation. A primary is one
//! processor with a queue. An instance has one pipeline under way to each primary; what comes meanwhile goes together.
//! Times are µs. [`plan`](super::plan) has what anything costs.

use std::collections::{BTreeMap, VecDeque};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::plan::*;

enum Event {
    Publish(usize),
    Done(usize, usize),
    Wake(usize),
    Arrive(usize, usize, Load),
    Reply(usize, usize, Answer),
    Up,
}

/// What goes to one primary together, by partition: when each publish was asked for, and whether it has a key; how many
/// acks; for how many consumers.
#[derive(Default)]
struct Load {
    publishes: BTreeMap<usize, Vec<(f64, bool)>>,
    acks: BTreeMap<usize, usize>,
    leases: Vec<(usize, usize)>,
}

/// What each lease was granted, of how many; and publishes that go round a primary.
#[derive(Default)]
struct Answer {
    leases: Vec<(usize, usize, usize)>,
    round: Vec<f64>,
}

#[derive(Default)]
struct Lane {
    busy: bool,
    next: Load,
}

#[derive(Clone, Default)]
struct Primary {
    free: f64,
    used: f64,
    heard: u64,
}

#[derive(Clone, Default)]
struct Partition {
    ready: VecDeque<f64>,
    marked: bool,
}

struct Instance {
    idle: usize,
    /// Partitions that may have messages, in turn; and those that are among them or are being asked.
    hot: VecDeque<usize>,
    known: Vec<bool>,
    current: usize,
}

struct World {
    plan: Plan,
    random: StdRng,
    now: f64,
    events: BTreeMap<(u64, u64), Event>,
    numbered: u64,
    owners: Vec<usize>,
    lanes: Vec<Lane>,
    primaries: Vec<Primary>,
    partitions: Vec<Partition>,
    instances: Vec<Instance>,
    wakes: u64,
    groups: (u64, u64),
    waits: Vec<f64>,
    counted: Outcome,
}

impl World {
    fn at(&mut self, time: f64, event: Event) {
        self.numbered += 1;
        self.events.insert(((time * 1_000.) as u64, self.numbered), event);
    }

    fn after(&mut self, mean: f64) -> f64 {
        self.now - mean * (1. - self.random.random::<f64>()).ln()
    }

    fn is_down(&self, partition: usize) -> bool {
        let gone = |(from, how)| self.now >= from && self.now < from + how;
        self.owners[partition] == 0 && self.plan.down.is_some_and(gone)
    }

    fn lane(&mut self, instance: usize, partition: usize) -> &mut Lane {
        &mut self.lanes[instance * self.plan.primaries + self.owners[partition]]
    }

    fn publish(&mut self, instance: usize, asked: f64, keyed: bool) {
        let any = self.random.random_range(0..self.plan.partitions);
        let partition = if keyed { any } else { self.instances[instance].current };
        let lane = self.lane(instance, partition);
        lane.next.publishes.entry(partition).or_default().push((asked, keyed));
        self.send(instance, self.owners[partition]);
    }

    /// Asks hot partitions on behalf of those who have nothing to do.
    fn ask(&mut self, instance: usize) {
        for _ in 0..self.instances[instance].hot.len() {
            let claim = self.instances[instance].idle.min(WAITERS);
            let Some(partition) = self.instances[instance].hot.pop_front() else { return };
            let lane = self.lane(instance, partition);
            if claim == 0 || lane.next.leases.len() >= LEASES {
                self.instances[instance].hot.push_back(partition);
                continue;
            }
            lane.next.leases.push((partition, claim));
            self.instances[instance].idle -= claim;
            self.send(instance, self.owners[partition]);
        }
    }

    fn send(&mut self, instance: usize, primary: usize) {
        let lane = &mut self.lanes[instance * self.plan.primaries + primary];
        let Load { publishes, acks, leases } = &lane.next;
        if lane.busy || publishes.len() + acks.len() + leases.len() == 0 {
            return;
        }
        lane.busy = true;
        let load = std::mem::take(&mut lane.next);
        // Its group has been taken: the next partition's turn.
        let mut current = self.instances[instance].current;
        while load.publishes.contains_key(&current) || self.is_down(current) {
            current = (current + 1) % self.plan.partitions;
        }
        self.instances[instance].current = current;
        self.at(self.now + HOP, Event::Arrive(instance, primary, load));
    }

    /// A pipeline has arrived: all of it runs, in its turn.
    fn arrive(&mut self, instance: usize, primary: usize, load: Load) {
        let counts = self.now >= self.plan.seconds * 2e5;
        let (mut answer, mut spent, mut woken) = (Answer::default(), 0., Vec::new());
        let unheard =
            self.wakes - std::mem::replace(&mut self.primaries[primary].heard, self.wakes);
        spent += if self.plan.whole_bus { unheard as f64 * RECEIVE } else { 0. };
        for (partition, group) in load.publishes {
            if self.is_down(partition) {
                let (keyed, free): (Vec<_>, Vec<_>) =
                    group.into_iter().partition(|(_, keyed)| *keyed);
                self.counted.refused += keyed.len() as u64;
                answer.round.extend(free.iter().map(|(asked, _)| asked));
                continue;
            }
            spent += cost(group.len());
            self.groups = (self.groups.0 + group.len() as u64, self.groups.1 + 1);
            let own = &mut self.partitions[partition];
            own.ready.extend(group.iter().map(|(asked, _)| asked));
            if std::mem::take(&mut own.marked) {
                let nodes = if self.plan.whole_bus { self.plan.primaries } else { 1 };
                spent += PUBLISH + PUBLISH_PEER * (nodes * (1 + self.plan.replicas) - 1) as f64;
                woken.push(partition);
            }
        }
        spent += load.acks.into_values().map(cost).sum::<f64>();
        for (partition, claim) in load.leases {
            let down = self.is_down(partition);
            let own = &mut self.partitions[partition];
            let granted = if down { 0 } else { claim.min(own.ready.len()) };
            let waited = own.ready.drain(..granted).map(|asked| self.now + HOP - asked);
            if counts {
                self.waits.extend(waited);
                self.counted.empty += f64::from(u8::from(granted == 0));
            } else {
                drop(waited);
            }
            spent += if granted == 0 { EMPTY_LEASE } else { cost(granted) };
            own.marked |= granted < claim;
            answer.leases.push((partition, granted, claim));
        }
        let own = &mut self.primaries[primary];
        own.free = own.free.max(self.now) + spent;
        own.used += if counts { spent } else { 0. };
        let end = own.free + HOP;
        self.wakes += woken.len() as u64;
        self.counted.wakes += if counts { woken.len() as f64 } else { 0. };
        woken.into_iter().for_each(|partition| self.at(end, Event::Wake(partition)));
        self.at(end, Event::Reply(instance, primary, answer));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Publish(instance) => {
                let keyed = self.random.random::<f64>() < self.plan.keyed;
                self.publish(instance, self.now, keyed);
                let next = self.after(self.plan.instances as f64 * 1e6 / self.plan.rate);
                self.at(next, Event::Publish(instance));
            }
            Event::Done(instance, partition) => {
                *self.lane(instance, partition).next.acks.entry(partition).or_default() += 1;
                self.instances[instance].idle += 1;
                self.ask(instance);
                self.send(instance, self.owners[partition]);
            }
            Event::Wake(partition) => {
                for instance in 0..self.plan.instances {
                    let own = &mut self.instances[instance];
                    if !std::mem::replace(&mut own.known[partition], true) {
                        own.hot.push_back(partition);
                        self.ask(instance);
                    }
                }
            }
            Event::Arrive(instance, primary, load) => self.arrive(instance, primary, load),
            Event::Reply(instance, primary, answer) => {
                self.lanes[instance * self.plan.primaries + primary].busy = false;
                for (partition, granted, claim) in answer.leases {
                    for _ in 0..granted {
                        let end = self.after(self.plan.work);
                        self.at(end, Event::Done(instance, partition));
                    }
                    let own = &mut self.instances[instance];
                    own.idle += claim - granted;
                    own.known[partition] = granted == claim;
                    own.hot.extend((granted == claim).then_some(partition));
                }
                answer.round.into_iter().for_each(|asked| self.publish(instance, asked, false));
                self.ask(instance);
                self.send(instance, primary);
            }
            Event::Up => {
                for partition in 0..self.plan.partitions {
                    if self.owners[partition] == 0 {
                        self.counted.held_up += self.partitions[partition].ready.len() as u64;
                        self.happen(Event::Wake(partition));
                    }
                }
            }
        }
    }

    fn outcome(mut self) -> Outcome {
        let (seconds, primaries) = (self.plan.seconds * 0.8, self.plan.primaries as f64);
        self.waits.sort_by(f64::total_cmp);
        let wait = |part: f64| self.waits.get((self.waits.len() as f64 * part) as usize);
        let used = || self.primaries.iter().map(|primary| primary.used / seconds / 1e6);
        let wakes = self.counted.wakes / seconds;
        let heard = if self.plan.whole_bus { wakes } else { wakes / primaries };
        Outcome {
            granted: self.waits.len() as f64 / seconds,
            group: self.groups.0 as f64 / self.groups.1.max(1) as f64,
            p50: wait(0.5).map_or(0., |wait| wait / 1e3),
            p99: wait(0.99).map_or(0., |wait| wait / 1e3),
            wakes,
            empty: self.counted.empty / seconds,
            bus: heard * BUS_BYTES / 1e6,
            busy: used().sum::<f64>() / primaries,
            busiest: used().fold(0., f64::max),
            ..self.counted
        }
    }
}

/// The primary of each partition: by tags steered to even slots from any on, or by chance.
pub fn owners(
    primaries: usize,
    partitions: usize,
    steered: bool,
    random: &mut StdRng,
) -> Vec<usize> {
    let first = random.random_range(0..16_384);
    let mut slot = |partition: usize| match steered {
        true => (first + 64 * usize::from((partition as u8).reverse_bits())) % 16_384,
        false => random.random_range(0..16_384),
    };
    (0..partitions).map(|partition| slot(partition) * primaries / 16_384).collect()
}

/// Runs a plan. The same seed makes the same outcome.
pub fn simulate(plan: Plan, seed: u64) -> Outcome {
    let mut random = StdRng::seed_from_u64(seed);
    let instance = |index: usize| Instance {
        idle: plan.consumers / plan.instances,
        hot: (0..plan.partitions).collect(),
        known: vec![true; plan.partitions],
        current: index * plan.partitions / plan.instances,
    };
    let mut world = World {
        plan,
        owners: owners(plan.primaries, plan.partitions, true, &mut random),
        random,
        now: 0.,
        events: BTreeMap::new(),
        numbered: 0,
        lanes: (0..plan.instances * plan.primaries).map(|_| Lane::default()).collect(),
        primaries: vec![Primary::default(); plan.primaries],
        partitions: vec![Partition::default(); plan.partitions],
        instances: (0..plan.instances).map(instance).collect(),
        wakes: 0,
        groups: (0, 0),
        waits: Vec::new(),
        counted: Outcome::default(),
    };
    for instance in 0..plan.instances {
        world.ask(instance);
        world.happen(Event::Publish(instance));
    }
    if let Some((from, how)) = plan.down {
        world.at(from + how, Event::Up);
    }
    while let Some(((at, _), event)) = world.events.pop_first() {
        world.now = at as f64 / 1e3;
        if world.now >= plan.seconds * 1e6 {
            break;
        }
        world.happen(event);
    }
    world.outcome()
}
