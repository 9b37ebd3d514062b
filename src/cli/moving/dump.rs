//! `dueq dump`: writes topics, schedules and messages as lines of JSON.

use super::{
    super::{data::DataArgs, progress::Progress},
    line::{End, FORMAT, Header, Line},
    source::{self, Failure, takes},
};
use clap::Args as ClapArgs;
use dueq_base::files::NewFile;
use dueq_model::{TopicName, TopicPattern, format_instant};
use dueq_store::{Partition, SCHEMA_VERSION, Store, batch::Command, reply::int};
use ring::digest::{Context, SHA256};
use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// Arguments of `dueq dump`.
#[derive(ClapArgs)]
pub struct Args {
    #[command(flatten)]
    pub data: DataArgs,
    /// Dump only these topics, and the schedules that publish there: names, and beginnings of names before a *.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    topics: Vec<TopicPattern>,
    /// File to write, instead of standard output. It is there once the dump is complete.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the dump, and says on standard error what came of it. Returns whether all that was found is in it.
pub async fn run(args: Args) -> Result<bool, Failure> {
    let Args { data, topics, output } = args;
    data.exist().map_err(Failure::other)?;
    let from = data.described();
    let data = data.open_to_move().await.map_err(Failure::other)?;
    let dumped = match &output {
        None => dump(&data.store, &topics, from, io::stdout().lock()).await.map(|(_, end)| end),
        Some(path) => dump_to(&data.store, &topics, from, path).await,
    };
    data.close().await;
    let end = dumped?;
    let kept = if end.damaged > 0 {
        format!("; {} were left out, since they are damaged: see dueq audit", end.damaged)
    } else {
        String::new()
    };
    eprintln!(
        "dueq: dumped {} messages of {} topics, {} schedules{kept}",
        end.messages, end.topics, end.schedules
    );
    if !end.changed.is_empty() {
        eprintln!(
            "dueq: the dump is fuzzy, not of one instant: these topics were in use meanwhile: {}",
            end.changed.join(", ")
        );
    }
    Ok(end.damaged == 0)
}

/// Writes a file, which has its name once it is complete and on disk.
async fn dump_to(
    store: &Store,
    patterns: &[TopicPattern],
    from: String,
    path: &Path,
) -> Result<End, Failure> {
    let failed = |error| Failure::File(path.display().to_string(), error);
    let file = NewFile::create(path).map_err(failed)?;
    let (file, end) = dump(store, patterns, from, file).await?;
    file.keep().map_err(failed).map(|()| end)
}

async fn dump<W: Write>(
    store: &Store,
    patterns: &[TopicPattern],
    from: String,
    to: W,
) -> Result<(W, End), Failure> {
    let names = source::topic_names(store).await?;
    let is_unused = |it: &&TopicPattern| !names.iter().any(|name| it.has(name.as_str()));
    if let Some(unused) = patterns.iter().find(is_unused) {
        return Err(Failure::Other(format!("there is no topic {unused}")));
    }
    let mut out = Lines::new(to);
    out.write(&Line::Dump(header(store, from).await?))?;
    let (mut topics, mut total) = (Vec::new(), 0);
    for name in names.iter().filter(|name| takes(patterns, name.as_str())) {
        let (topic, line) = source::topic(store, name).await?;
        if topic.settings.loading.is_some() {
            let loading =
                format!("a dump is being loaded into the topic {name}: finish that first");
            return Err(Failure::Other(loading));
        }
        out.write(&Line::Topic(line))?;
        out.end.topics += 1;
        total += source::count(store, &topic).await?;
        topics.push((source::totals(store, &topic).await?, topic));
    }
    if takes(patterns, TopicName::callbacks().as_str()) {
        for host in store.read_paused_hosts().await?.keys() {
            out.write(&Line::PausedHost(host.clone()))?;
            out.end.paused_hosts += 1;
        }
    }
    for schedule in source::schedules(store, patterns).await? {
        out.write(&Line::Schedule(schedule))?;
        out.end.schedules += 1;
    }
    let mut progress = Progress::new("dumped", Some(total));
    for (_, topic) in &topics {
        for partition in topic.all() {
            partition_lines(store, &partition, &mut out, &mut progress).await?;
        }
    }
    drop(progress);
    for (before, topic) in &topics {
        if *before != source::totals(store, topic).await? {
            out.end.changed.push(topic.name.to_string());
        }
    }
    out.finish()
}

async fn partition_lines<W: Write>(
    store: &Store,
    partition: &Partition,
    out: &mut Lines<W>,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let write = |message: Option<_>| {
        progress.add(1);
        match message {
            Some(message) => {
                out.end.messages += 1;
                out.write(&Line::Message(Box::new(message)))
            }
            None => {
                out.end.damaged += 1;
                Ok(())
            }
        }
    };
    source::messages(store, partition, write).await?;
    let write = |key| {
        out.end.idempotency_keys += 1;
        out.write(&Line::IdempotencyKey(key))
    };
    source::idempotency_keys(store, partition, write).await
}

async fn header(store: &Store, from: String) -> Result<Header, Failure> {
    let instances = Command::new("GET").arg(&store.lanes.shared.keys.instances);
    let mut id = [0; 8];
    getrandom::fill(&mut id).map_err(Failure::other)?;
    Ok(Header {
        format: FORMAT,
        schema: SCHEMA_VERSION,
        dueq: env!("CARGO_PKG_VERSION").to_owned(),
        id: hex::encode(id),
        at: format_instant(store.now()),
        from,
        instances: int(store.lanes.command(instances).await?)?,
    })
}

/// Where lines go. They are counted and hashed on the way.
struct Lines<W: Write> {
    to: BufWriter<W>,
    digest: Context,
    end: End,
}

impl<W: Write> Lines<W> {
    fn new(to: W) -> Self {
        let to = BufWriter::with_capacity(1 << 20, to);
        Self { to, digest: Context::new(&SHA256), end: End::default() }
    }

    fn write(&mut self, line: &Line) -> Result<(), Failure> {
        let text = serde_json::to_vec(line).map(|mut text| {
            text.push(b'\n');
            text
        });
        let text = text.map_err(|error| Failure::Other(format!("a line is no JSON: {error}")))?;
        self.digest.update(&text);
        self.to.write_all(&text).map_err(cannot_write)
    }

    /// Writes the last line.
    fn finish(mut self) -> Result<(W, End), Failure> {
        self.end.sha256 = hex::encode(self.digest.clone().finish().as_ref());
        let end = self.end.clone();
        self.write(&Line::End(end.clone()))?;
        let to = self.to.into_inner().map_err(|error| cannot_write(error.into_error()))?;
        Ok((to, end))
    }
}

fn cannot_write(error: io::Error) -> Failure {
    Failure::File("cannot write the dump".to_owned(), error)
}
