//! `rondo read`: reads a job, and shows, counts or writes what it reads.

mod display;
mod element_json;
mod output;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rondo_core::status::{Code, Status};
use rondo_proto::admin::{GetStatusRequest, GetStatusResponse};
use rondo_proto::convert::GET_STATUS_PATH;
use tokio::time::Instant;

use super::ask::ServerArgs;
use super::dataset::{self, CompressionArg, How};
use super::exit::{Exit, Failure};
use super::from_cluster::{FromCluster, told};
use super::journal::say;
use super::layers::Settings;
use crate::reader::{Builder, Delivery, Mode, OpenError, Origin, Reader, ShardingPolicy};
use display::Display;
use output::Output;

/// What was written is synced and acknowledged this often at least.
const SYNC_INTERVAL: Duration = Duration::from_millis(200);
/// How often to look how far the reader has come.
const SHOW_INTERVAL: Duration = Duration::from_millis(200);
/// Records written between two syncs at most.
const UNSYNCED_MAX: u64 = 1 << 20;

/// What to read, and where to put it.
#[derive(Args, Clone, Debug)]
pub(super) struct ReadArgs {
    /// The dispatcher to read by
    #[arg(
        long,
        env = "RONDO_DISPATCHER",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:5050"
    )]
    dispatcher: String,

    /// The job's name. Readers of one name share what there is to read, and its position
    #[arg(long, env = "RONDO_JOB", value_name = "NAME")]
    job: String,

    /// The dataset's id; that of the job if there is such a job
    #[arg(long, value_name = "ID", conflicts_with = "pipeline")]
    dataset: Option<String>,

    /// A pipeline in YAML or JSON to register and read
    #[arg(long, value_name = "FILE")]
    pipeline: Option<PathBuf>,

    /// Pass over records of the pipeline's files that cannot be read, and count them
    #[arg(long, requires = "pipeline")]
    skip_corrupt: bool,

    /// How to read: by split (every record once, of Rondo's workers) or by element
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: ModeArg,

    /// How the dataset is divided among workers; that of the job if there is such a job, else dynamic
    #[arg(long, value_name = "POLICY")]
    sharding: Option<ShardingArg>,

    /// Which of how many consumers of a coordinated read this is, such as 0/2
    #[arg(long, value_name = "I/N", value_parser = part)]
    consumer: Option<(u32, u32)>,

    /// Which of how many readers this is among whom splits are dealt out in turn, such as 0/2
    #[arg(long, value_name = "I/N", value_parser = part, conflicts_with = "consumer")]
    group: Option<(u32, u32)>,

    /// Which pass of the job to read, from 0 on
    #[arg(long, value_name = "N", default_value_t = 0)]
    repetition: i64,

    /// What to make of it
    #[arg(long, value_name = "FORM", default_value = "count")]
    output: Form,

    /// The file to write, instead of standard output. What is there is replaced
    #[arg(short = 'o', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,

    /// Begin at this named position
    #[arg(long, value_name = "NAME")]
    position: Option<String>,

    /// Save this named position at the end
    #[arg(long, value_name = "NAME")]
    save_position: Option<String>,

    /// Stop after so many records or elements
    #[arg(long, value_name = "N")]
    max_records: Option<u64>,

    /// Pass over elements that cannot be made, and count them (by element only)
    #[arg(long)]
    continue_on_error: bool,

    /// Bytes read ahead
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    buffer_bytes: u64,

    /// Tell of the progress in plain lines, also on a terminal
    #[arg(long)]
    plain: bool,

    #[command(flatten)]
    from_cluster: FromCluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// By split if that is possible
    Auto,
    /// By split
    Split,
    /// By element
    Element,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ShardingArg {
    Off,
    Dynamic,
    File,
    Data,
    FileOrData,
    Hint,
}

/// What to make of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Only count
    Count,
    /// A line of JSON for each record
    Jsonl,
    /// An Arrow IPC stream (by split only)
    Arrow,
}

fn part(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('/').and_then(|(index, size)| {
        let (index, size) = (index.parse::<u32>().ok()?, size.parse::<u32>().ok()?);
        (index < size).then_some((index, size))
    });
    parts.ok_or_else(|| "it must be I/N with I below N, such as 0/2".to_owned())
}

/// Reads as the arguments say.
pub(super) fn read(args: &ReadArgs, settings: &Settings) -> Result<(), Failure> {
    if let Some(told) = told(settings) {
        display::line(&told);
    }
    super::memory::keep_for_batches();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Other, error))?;
    let ended = runtime.block_on(carry_out(args));
    // Nothing that is still under way is waited for.
    runtime.shutdown_background();
    ended
}

async fn carry_out(args: &ReadArgs) -> Result<(), Failure> {
    let builder = builder(args).await?;
    let output = Output::open(args.output, args.file.as_deref())?;
    let reader = builder.open().await.map_err(|error| not_opened(args, &error))?;
    let display = Display::new(args.plain);
    let mut reading = Reading { args, reader, output, display, records: 0, unacknowledged: vec![] };
    let ended = reading.read_all().await;
    // What was written is good whatever came behind it.
    let kept = reading.finish();
    let saved = match (&args.save_position, &ended) {
        (Some(name), Ok(())) if kept.is_ok() => reading.save(name).await,
        _ => Ok(()),
    };
    let summary = reading.summary().await;
    reading.display.end();
    let left = reading.reader.close().await;
    let left = left.map_err(|status| Failure::new(exit_of(&status), status.to_string()));
    ended.and(kept).and(saved).and(left)?;
    match args.output == Form::Count || args.file.is_some() {
        true => say(&summary),
        false => {
            display::line(&summary);
            Ok(())
        }
    }
}

fn not_opened(args: &ReadArgs, error: &OpenError) -> Failure {
    match error {
        OpenError::Settings(text) => Failure::new(Exit::Usage, text),
        OpenError::Dispatcher { status, .. } => {
            Failure::new(exit_of(status), format!("{}: {error}", args.dispatcher))
        }
    }
}

fn exit_of(status: &Status) -> Exit {
    match status.code {
        Code::Unavailable | Code::DeadlineExceeded => Exit::Unreachable,
        _ => Exit::Other,
    }
}

async fn builder(args: &ReadArgs) -> Result<Builder, Failure> {
    let (dataset, sharding) = match (&args.dataset, &args.pipeline) {
        (Some(id), _) => (id.clone(), None),
        (None, Some(file)) => {
            let how = How { compression: CompressionArg::None, skip_corrupt: args.skip_corrupt };
            let id = dataset::register(&args.dispatcher, None, file, how).await?;
            (id, None)
        }
        (None, None) => of_job(args).await?,
    };
    let chosen = args.sharding.map(policy).or(sharding);
    let usual = if args.consumer.is_some() { ShardingPolicy::Off } else { ShardingPolicy::Dynamic };
    let mut builder = Reader::builder(&args.dispatcher)
        .job(&args.job)
        .dataset(&dataset)
        .sharding(chosen.unwrap_or(usual))
        .repetition(args.repetition)
        .buffer(args.buffer_bytes, 1024)
        .mode(match args.mode {
            ModeArg::Auto => Mode::Auto,
            ModeArg::Split => Mode::Split,
            ModeArg::Element => Mode::Element,
        })
        .acknowledge_by_hand();
    if let Some((index, size)) = args.consumer {
        builder = builder.consumer(index, size);
    }
    if let Some((index, size)) = args.group {
        builder = builder.group(index, size);
    }
    if let Some(position) = &args.position {
        builder = builder.resume(position);
    }
    if args.continue_on_error {
        builder = builder.continue_on_error();
    }
    Ok(builder)
}

const fn policy(sharding: ShardingArg) -> ShardingPolicy {
    match sharding {
        ShardingArg::Off => ShardingPolicy::Off,
        ShardingArg::Dynamic => ShardingPolicy::Dynamic,
        ShardingArg::File => ShardingPolicy::File,
        ShardingArg::Data => ShardingPolicy::Data,
        ShardingArg::FileOrData => ShardingPolicy::FileOrData,
        ShardingArg::Hint => ShardingPolicy::Hint,
    }
}

/// The dataset of the job of this name, and how it is divided.
async fn of_job(args: &ReadArgs) -> Result<(String, Option<ShardingPolicy>), Failure> {
    let server = ServerArgs { server: args.dispatcher.clone(), timeout_ms: 10_000 };
    let status: GetStatusResponse = server.ask(GET_STATUS_PATH, &GetStatusRequest {}).await?;
    let jobs = status.dispatcher.unwrap_or_default().jobs;
    let Some(job) = jobs.into_iter().rev().find(|job| job.name == args.job) else {
        let text = format!("there is no job {:?} yet: give --dataset or --pipeline", args.job);
        return Err(Failure::new(Exit::Usage, text));
    };
    let all = [
        ShardingPolicy::Off,
        ShardingPolicy::Dynamic,
        ShardingPolicy::File,
        ShardingPolicy::Data,
        ShardingPolicy::FileOrData,
        ShardingPolicy::Hint,
    ];
    Ok((job.dataset, all.into_iter().find(|policy| policy.name() == job.sharding)))
}

/// A reader, and what becomes of what it reads.
struct Reading<'a> {
    args: &'a ReadArgs,
    reader: Reader,
    output: Output,
    display: Display,
    records: u64,
    /// Written and not synced.
    unacknowledged: Vec<Origin>,
}

impl Reading<'_> {
    async fn read_all(&mut self) -> Result<(), Failure> {
        let spec = self.reader.element_spec();
        self.output.expect(spec.map_err(|status| failure(&status))?);
        let (mut synced, mut shown) = (Instant::now(), Instant::now());
        let mut unsynced = 0_u64;
        let stop = tokio::signal::ctrl_c();
        tokio::pin!(stop);
        loop {
            let enough = self.args.max_records.is_some_and(|max| self.records >= max);
            if enough || self.output.is_closed() {
                return Ok(());
            }
            tokio::select! {
                biased;
                _ = &mut stop => return Ok(()),
                next = self.reader.next() => match next {
                    None => return Ok(()),
                    Some(Err(status)) => return Err(failure(&status)),
                    Some(Ok(delivery)) => {
                        unsynced = unsynced.saturating_add(delivery.records());
                        self.write(delivery)?;
                    }
                },
                () = tokio::time::sleep_until(synced + SYNC_INTERVAL) => {}
            }
            if synced.elapsed() >= SYNC_INTERVAL || unsynced >= UNSYNCED_MAX {
                self.sync_and_acknowledge()?;
                (synced, unsynced) = (Instant::now(), 0);
            }
            if shown.elapsed() >= SHOW_INTERVAL {
                shown = Instant::now();
                let progress = self.reader.progress().await;
                self.display.show(&progress, self.records);
            }
        }
    }

    fn write(&mut self, delivery: Delivery) -> Result<(), Failure> {
        let left = self.args.max_records.map(|max| max.saturating_sub(self.records));
        let delivery = delivery.first(left.unwrap_or(u64::MAX));
        self.records = self.records.saturating_add(delivery.records());
        self.output.write(&delivery.content)?;
        self.unacknowledged.extend(delivery.identity);
        Ok(())
    }

    /// What is acknowledged is on the disk, or was taken by whoever reads standard output.
    fn sync_and_acknowledge(&mut self) -> Result<(), Failure> {
        self.output.sync()?;
        if self.output.is_closed() {
            self.unacknowledged.clear();
        }
        self.reader.acknowledge_records(&self.unacknowledged);
        self.unacknowledged.clear();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.output.finish()?;
        self.sync_and_acknowledge()
    }

    async fn save(&mut self, name: &str) -> Result<(), Failure> {
        self.reader.checkpoint(name).await.map_err(|status| failure(&status))
    }

    async fn summary(&mut self) -> String {
        let progress = self.reader.progress().await;
        display::summary(&progress, self.records, self.reader.is_by_split())
    }
}

fn failure(status: &Status) -> Failure {
    Failure::new(exit_of(status), &status.message)
}
