//! `dueq load`: stores what a dump holds, in a place that is empty or beside what is there.
//!
//! A file is read twice: it is checked to its end before anything is written. What comes by a pipe is checked on the way; if
//! it turns out to be cut, its topics stay paused until the load is run again with the whole dump.

use super::{
    super::{data::DataArgs, progress::Progress},
    batch::Batches,
    file::Reader,
    line::{End, Header, Line, Schedule, Topic as TopicLine},
    place::Plan,
    source::Failure,
    verify::Tallies,
};
use crate::cli::data::Data;
use clap::Args as ClapArgs;
use dueq_base::files::NewFile;
use dueq_model::CallHost;
use dueq_store::{Store, batch::Command, reply::int, scripts};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Seek as _, Write},
    path::PathBuf,
};

/// Arguments of `dueq load`.
#[derive(ClapArgs)]
pub struct Args {
    #[command(flatten)]
    pub data: DataArgs,
    /// File that dueq dump wrote; `-` reads standard input.
    #[arg(default_value = "-", hide_default_value = true)]
    file: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// How it is loaded.
#[derive(ClapArgs)]
struct Options {
    /// Load beside what is there, under names that begin so. Messages get new ids, pushed topics and schedules are paused.
    #[arg(long, value_name = "PREFIX")]
    into: Option<String>,
    /// File to write the ids to: a line for each message, its id in the dump, a tab, and its id here.
    #[arg(long, value_name = "FILE", requires = "into")]
    map: Option<PathBuf>,
    /// Compare what is there with the dump once it is loaded; with --dry-run only compare.
    #[arg(long)]
    verify: bool,
    /// Check the dump and the place, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Where a dump is read from.
type Source = Box<dyn BufRead + Send>;

/// Loads the dump, or looks whether that can be done. Returns whether all went well.
pub async fn run(args: Args) -> Result<bool, Failure> {
    let Args { data, file, options } = args;
    let (source, total) = open(&file)?;
    let nothing_there = options.dry_run && data.exist().is_err();
    let data = match nothing_there {
        true => None,
        false => Some(data.open_to_move().await.map_err(Failure::other)?),
    };
    let done = match &data {
        None => check(Reader::new(source)).map(|(_, end)| {
            println!("{}: the place is empty", would_load(&end));
            !options.verify
        }),
        Some(Data { store, .. }) => load(store, Reader::new(source), total, options).await,
    };
    if let Some(data) = data {
        data.close().await;
    }
    done
}

/// Opens the dump. One that is a file is checked to its end; then it is known how many messages there are.
fn open(path: &PathBuf) -> Result<(Source, Option<u64>), Failure> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(BufReader::with_capacity(1 << 20, io::stdin())), None));
    }
    let failed = |error| Failure::File(path.display().to_string(), error);
    let file = File::open(path).map_err(failed)?;
    let is_file = file.metadata().map_err(failed)?.is_file();
    let mut source = BufReader::with_capacity(1 << 20, file);
    if !is_file {
        return Ok((Box::new(source), None));
    }
    let (reader, end) = check(Reader::new(source))?;
    source = reader.into_inner();
    source.rewind().map_err(failed)?;
    Ok((Box::new(source), Some(end.messages)))
}

/// Reads a dump to its end.
fn check<R: BufRead>(mut reader: Reader<R>) -> Result<(Reader<R>, End), Failure> {
    let mut progress = Progress::new("checked", None);
    let mut last = End::default();
    while let Some(line) = reader.next()? {
        match line {
            Line::Message(_) => progress.add(1),
            Line::End(end) => last = end,
            _ => {}
        }
    }
    Ok((reader, last))
}

fn would_load(end: &End) -> String {
    let End { topics, schedules, messages, .. } = end;
    format!("{messages} messages of {topics} topics and {schedules} schedules can be loaded")
}

/// A load under way.
struct Load<'a> {
    store: &'a Store,
    options: Options,
    header: Option<Header>,
    topics: Vec<TopicLine>,
    hosts: Vec<String>,
    schedules: Vec<Schedule>,
    plan: Option<Plan>,
    batches: Batches,
    tallies: Tallies,
    map: Option<BufWriter<NewFile>>,
    progress: Progress,
}

async fn load(
    store: &Store,
    mut reader: Reader<Source>,
    total: Option<u64>,
    options: Options,
) -> Result<bool, Failure> {
    let map = match &options.map {
        Some(path) if !options.dry_run => {
            let failed = |error| Failure::File(path.display().to_string(), error);
            Some(BufWriter::new(NewFile::create(path).map_err(failed)?))
        }
        _ => None,
    };
    let progress = Progress::new(if options.dry_run { "checked" } else { "loaded" }, total);
    let mut load = Load {
        store,
        options,
        header: None,
        topics: Vec::new(),
        hosts: Vec::new(),
        schedules: Vec::new(),
        plan: None,
        batches: Batches::new(store.clone()),
        tallies: Tallies::default(),
        map,
        progress,
    };
    let mut last = End::default();
    while let Some(line) = match reader.next() {
        Err(error) if load.is_begun() => return Err(load.half_done(error).await),
        line => line?,
    } {
        if let Line::End(end) = line {
            last = end;
        } else {
            load.take(line).await?;
        }
    }
    load.finish(&last).await
}

impl Load<'_> {
    fn is_begun(&self) -> bool {
        self.plan.is_some() && !self.options.dry_run
    }

    /// What is to be said where a dump that came by a pipe turned out not to be whole.
    async fn half_done(&mut self, error: Failure) -> Failure {
        let loaded = self.batches.flush().await.and_then(|()| self.keep_map());
        let loaded = loaded.map(|()| self.batches.stored + self.batches.present).unwrap_or(0);
        Failure::Other(format!(
            "{error}; {loaded} messages before that are loaded, and their topics stay paused until the whole dump is loaded"
        ))
    }

    fn keep_map(&mut self) -> Result<(), Failure> {
        let map = self.map.take().map(|map| map.into_inner().map_err(|error| error.into_error()));
        let kept = map.map_or(Ok(()), |map| map.and_then(NewFile::keep));
        kept.map_err(|error| Failure::File("--map".to_owned(), error))
    }

    async fn take(&mut self, line: Line) -> Result<(), Failure> {
        match line {
            Line::Dump(header) => self.header = Some(header),
            Line::Topic(topic) => self.topics.push(topic),
            Line::PausedHost(host) => self.hosts.push(host),
            Line::Schedule(schedule) => self.schedules.push(schedule),
            Line::Message(message) => {
                self.begin().await?;
                self.progress.add(1);
                let Some(target) = self.plan.iter().find_map(|p| p.targets.get(&message.topic))
                else {
                    return Ok(());
                };
                self.tallies.count(&message);
                if let Some(map) = &mut self.map {
                    let here = self.batches.id_here(target, &message).await?;
                    let written = writeln!(map, "{}\t{here}", message.id);
                    written.map_err(|error| Failure::File("--map".to_owned(), error))?;
                }
                if !target.is_complete && !self.options.dry_run {
                    self.batches.add_message(target, message).await?;
                }
            }
            Line::IdempotencyKey(key) => {
                self.begin().await?;
                let target = self.plan.iter().find_map(|p| p.targets.get(&key.topic));
                if let Some(target) = target.filter(|it| !it.is_complete && !self.options.dry_run) {
                    self.batches.add_key(target, &key).await?;
                }
            }
            Line::End(_) => {}
        }
        Ok(())
    }

    /// All topics are known: looks at the place, and makes them there.
    async fn begin(&mut self) -> Result<(), Failure> {
        if self.plan.is_some() {
            return Ok(());
        }
        let none = || Failure::Other("the dump has no first line".to_owned());
        let header = self.header.as_ref().ok_or_else(none)?;
        let mut plan = Plan::new(header, &self.topics, self.options.into.as_deref())?;
        // To compare with what is there, the place need not be empty.
        if !(self.options.dry_run && self.options.verify) {
            plan.look(self.store).await?;
        }
        if !self.options.dry_run {
            plan.prepare(self.store).await?;
        }
        self.plan = Some(plan);
        Ok(())
    }

    async fn finish(mut self, end: &End) -> Result<bool, Failure> {
        self.begin().await?;
        self.keep_map()?;
        let Some(mut plan) = self.plan.take() else { return Ok(false) };
        let Options { dry_run, verify, into, .. } = &self.options;
        if !dry_run {
            self.batches.flush().await?;
        }
        drop(self.progress);
        let mut is_same = true;
        if *verify {
            for line in self.tallies.compare(self.store, &plan).await? {
                is_same = false;
                println!("{line}");
            }
            if is_same {
                println!("verified: the data match the dump");
            }
        }
        if *dry_run {
            if !verify {
                println!("{}", would_load(end));
            }
            return Ok(is_same);
        }
        if !is_same {
            let paused = "what is there differs from the dump: the topics stay paused and marked";
            return Err(Failure::Other(paused.to_owned()));
        }
        // Only now, since it removes what has expired since the dump.
        plan.sweep(self.store).await?;
        plan.complete(self.store).await?;
        if into.is_none() {
            for host in &self.hosts {
                let host = CallHost::parse(host).map_err(Failure::other)?;
                self.store.set_host_paused(&host, true).await?;
            }
        }
        for schedule in &self.schedules {
            load_schedule(self.store, schedule, into.as_deref(), &mut plan).await?;
        }
        plan.release(self.store).await?;
        let Batches { stored, present, taken, .. } = self.batches;
        let before = match present {
            0 => String::new(),
            before => format!("; {before} were there before"),
        };
        let (topics, schedules) = (plan.targets.len(), self.schedules.len());
        println!("loaded {stored} messages of {topics} topics, {schedules} schedules{before}");
        if taken > 0 {
            println!("{taken} messages gave up their key to another: the dump was fuzzy");
        }
        plan.remarks.iter().for_each(|remark| println!("{remark}"));
        Ok(true)
    }
}

/// Stores a schedule, unless it is there. Beside others it is paused, so that nothing is published twice.
async fn load_schedule(
    store: &Store,
    schedule: &Schedule,
    prefix: Option<&str>,
    plan: &mut Plan,
) -> Result<(), Failure> {
    let keys = &store.lanes.shared.keys;
    let keys =
        [&*keys.schedules, &keys.schedule_states, &keys.schedules_due, &keys.schedules_index];
    let mut definition = schedule.definition.get().to_owned();
    let (mut name, mut paused, mut last_id) =
        (schedule.name.clone(), schedule.paused, schedule.last_id.clone());
    if let Some(prefix) = prefix {
        let bad = |_| Failure::Other(format!("the schedule {name} cannot be read"));
        let mut value: serde_json::Value = serde_json::from_str(&definition).map_err(bad)?;
        let topic = value["topic"].as_str().unwrap_or_default();
        let Some(target) = plan.targets.get(topic) else {
            plan.remarks.push(format!("the schedule {name} was left out, since its topic was"));
            return Ok(());
        };
        value["topic"] = target.name.as_str().into();
        definition = value.to_string();
        (name, last_id) = (format!("{prefix}{name}"), "-".to_owned());
        if !paused {
            plan.remarks.push(format!("the schedule {name} is paused, so that it is not doubled"));
        }
        paused = true;
    }
    let (next, claimed) = if paused { (0, 0) } else { (schedule.next_ms, schedule.claimed_ms) };
    let load = Command::eval(&scripts::LOAD_SCHEDULE, &keys);
    let load = load.arg((name, definition, paused, next, claimed));
    let load = load.arg((schedule.last_ms, last_id, &schedule.last_error));
    int(store.lanes.command(load).await?)?;
    Ok(())
}
