//! `dueq dump` and `dueq load`: topics, schedules and messages as lines of JSON, out of one Redis and into another. The lines
//! are [`dueq_store::export`]'s.

use super::{data::DataArgs, fail, progress::Progress};
use clap::Args;
use dueq_base::files::NewFile;
use dueq_model::TopicPattern;
use dueq_store::{
    Store,
    export::{self, End, ExportError, Line, LoadOptions, Loaded, Loader, Reader},
};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Seek as _, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Arguments of `dueq dump`.
#[derive(Args)]
pub struct DumpArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Dump only these topics, and the schedules that publish there: names, and beginnings of names before a *.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    topics: Vec<TopicPattern>,
    /// File to write, instead of standard output. It is there once the dump is complete.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Arguments of `dueq load`.
#[derive(Args)]
pub struct LoadArgs {
    #[command(flatten)]
    data: DataArgs,
    /// File that dueq dump wrote; `-` reads standard input.
    #[arg(default_value = "-", hide_default_value = true)]
    file: PathBuf,
    #[command(flatten)]
    options: LoadOptions,
    /// File to write the ids to: a line for each message, its id in the dump, a tab, and its id here.
    #[arg(long, value_name = "FILE", requires = "into")]
    map: Option<PathBuf>,
}

/// Where a dump is read from.
type Source = Box<dyn BufRead + Send>;

/// Runs `dueq dump`. Exit code 0: all is dumped; 1: it is not.
pub async fn dump(args: DumpArgs) -> ExitCode {
    ended(write_dump(args).await)
}

/// Runs `dueq load`. Exit code 0: all is loaded, or the same; 1: it is not.
pub async fn load(args: LoadArgs) -> ExitCode {
    ended(read_dump(args).await)
}

/// The exit code of a command that returns whether all went well.
fn ended(outcome: Result<bool, ExportError>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            fail(&error);
            ExitCode::FAILURE
        }
    }
}

/// Writes the dump, and the result on standard error. Returns whether nothing was left out.
async fn write_dump(DumpArgs { data, topics, output }: DumpArgs) -> Result<bool, ExportError> {
    data.exist().map_err(ExportError::other)?;
    let from = data.described();
    let data = data.open(false, true).await.map_err(ExportError::other)?;
    let mut bar = Progress::new("dumped", None);
    let progress = |done, total| {
        if bar.appears() {
            bar.set_total(total);
        }
        bar.set(done);
    };
    let dumped = match &output {
        None => {
            let out = io::stdout().lock();
            export::dump(&data.store, &topics, from, out, progress).await.map(|(_, end)| end)
        }
        // The file has its name once it is complete and on disk.
        Some(path) => match NewFile::create(path) {
            Ok(file) => match export::dump(&data.store, &topics, from, file, progress).await {
                Ok((file, end)) => file.keep().map(|()| end).map_err(|error| at(path, error)),
                Err(error) => Err(error),
            },
            Err(error) => Err(at(path, error)),
        },
    };
    drop(bar);
    data.close().await;
    let End { messages, topics, schedules, damaged, changed, .. } = dumped?;
    let left_out = match damaged {
        0 => String::new(),
        damaged => format!("; {damaged} were left out, since they are damaged: see dueq audit"),
    };
    eprintln!(
        "dueq: dumped {messages} messages of {topics} topics, {schedules} schedules{left_out}"
    );
    if !changed.is_empty() {
        let changed = changed.join(", ");
        eprintln!(
            "dueq: the dump is fuzzy, not of one instant: these topics were in use meanwhile: {changed}"
        );
    }
    Ok(damaged == 0)
}

fn at(path: &Path, error: io::Error) -> ExportError {
    ExportError::File(path.display().to_string(), error)
}

/// Loads the dump, or checks whether that is possible. Returns whether all went well.
///
/// A file is read twice: it is checked to its end before anything is written. A pipe is checked on the way; if it turns out to
/// be cut, its topics stay paused until the load is run again with the whole dump.
async fn read_dump(LoadArgs { data, file, options, map }: LoadArgs) -> Result<bool, ExportError> {
    let (source, total) = open(&file)?;
    if options.dry_run && data.exist().is_err() {
        let (_, end) = check(Reader::new(source))?;
        println!("{}: the place is empty", would_load(&end));
        return Ok(!options.verify);
    }
    let data = data.open(false, true).await.map_err(ExportError::other)?;
    let done = load_into(&data.store, Reader::new(source), total, options, map).await;
    data.close().await;
    done
}

/// Opens the dump. A file is checked to its end; then it is known how many messages there are.
fn open(path: &Path) -> Result<(Source, Option<u64>), ExportError> {
    if path.as_os_str() == "-" {
        return Ok((Box::new(BufReader::with_capacity(1 << 20, io::stdin())), None));
    }
    let file = File::open(path).map_err(|error| at(path, error))?;
    let is_file = file.metadata().map_err(|error| at(path, error))?.is_file();
    let mut source = BufReader::with_capacity(1 << 20, file);
    if !is_file {
        return Ok((Box::new(source), None));
    }
    let (reader, end) = check(Reader::new(source))?;
    source = reader.into_inner();
    source.rewind().map_err(|error| at(path, error))?;
    Ok((Box::new(source), Some(end.messages)))
}

/// Reads a dump to its end.
fn check<R: BufRead>(mut reader: Reader<R>) -> Result<(Reader<R>, End), ExportError> {
    let mut progress = Progress::new("checked", None);
    let mut last = End::default();
    while let Some(line) = reader.next_line()? {
        match line {
            Line::Message(_) => progress.add(1),
            Line::End(end) => last = end,
            _ => {}
        }
    }
    Ok((reader, last))
}

fn would_load(End { topics, schedules, messages, .. }: &End) -> String {
    format!("{messages} messages of {topics} topics and {schedules} schedules can be loaded")
}

async fn load_into(
    store: &Store,
    mut reader: Reader<Source>,
    total: Option<u64>,
    options: LoadOptions,
    map: Option<PathBuf>,
) -> Result<bool, ExportError> {
    let LoadOptions { dry_run, verify, .. } = options;
    let map = map.filter(|_| !dry_run).map(|path| match NewFile::create(&path) {
        Ok(file) => Ok((path, BufWriter::new(file))),
        Err(error) => Err(at(&path, error)),
    });
    let mut map = map.transpose()?;
    let mut progress = Progress::new(if dry_run { "checked" } else { "loaded" }, total);
    let (mut loader, mut last) = (Loader::new(store, options), End::default());
    loop {
        let line = match reader.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) => return Err(loader.cut(error).await),
        };
        let mut id = None;
        match &line {
            Line::Message(message) => {
                progress.add(1);
                id = map.is_some().then(|| message.id.clone());
            }
            Line::End(end) => last = end.clone(),
            _ => {}
        }
        let here = loader.take(line).await?;
        if let (Some((path, map)), Some(id), Some(here)) = (&mut map, id, here) {
            writeln!(map, "{id}\t{here}").map_err(|error| at(path, error))?;
        }
    }
    if let Some((path, map)) = map {
        let kept = map.into_inner().map_err(|error| error.into_error()).and_then(NewFile::keep);
        kept.map_err(|error| at(&path, error))?;
    }
    let Loaded { stored, present, taken, topics, schedules, differences, remarks } =
        loader.finish().await?;
    drop(progress);
    differences.iter().for_each(|line| println!("{line}"));
    match (differences.is_empty(), dry_run) {
        (true, _) if verify => println!("verified: data matches the dump"),
        (true, true) => println!("{}", would_load(&last)),
        (true, false) => {}
        (false, true) => return Ok(false),
        (false, false) => {
            let paused = "the data differs from the dump: the topics stay paused and marked";
            return Err(ExportError::other(paused));
        }
    }
    if !dry_run {
        let before = match present {
            0 => String::new(),
            before => format!("; {before} were there before"),
        };
        println!("loaded {stored} messages of {topics} topics, {schedules} schedules{before}");
        if taken > 0 {
            println!("{taken} messages gave up their key to another: the dump was fuzzy");
        }
        remarks.iter().for_each(|remark| println!("{remark}"));
    }
    Ok(true)
}
