//! `rondo read`: reads a job, and shows, counts or writes what it reads.

mod complete;
mod display;
mod element_json;
mod encoder;
mod json_floats;
mod note;
mod output;
mod pass;
mod reading;
mod record_file;
mod resume;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rondo_core::status::Status;
use rondo_proto::admin::{DispatcherStatus, JobStatus};

use super::ask::{ServerArgs, address, name, noticed, said_by};
use super::dataset::{self, CompressionArg, How};
use super::exit::{Exit, Failure, of_status};
use super::from_cluster::{FromCluster, told};
use super::journal::say;
use super::layers::Settings;
use super::units::size;
use crate::reader::{Builder, Mode, OPEN_PATIENCE, OpenError, Reader, ShardingPolicy};
use note::Contents;
use output::Output;
use reading::{End, Reading};

/// What to read, and where to put it.
#[derive(Args, Clone, Debug)]
pub(super) struct ReadArgs {
    /// The server to read by
    #[arg(long, env = "RONDO_SERVER", value_name = "HOST:PORT", default_value = "127.0.0.1:5050",
          value_parser = address)]
    server: String,

    /// The job's name. Readers of one name share what there is to read, and its position
    #[arg(long, env = "RONDO_JOB", value_name = "NAME", value_parser = name)]
    job: String,

    /// The dataset's id; that of the job if there is such a job
    #[arg(long, value_name = "ID", value_parser = name,
          conflicts_with = "pipeline")]
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

    /// The form of the output: count, jsonl, csv or arrow. By default the file's ending decides; without a
    /// file, records are counted. JSON has no NaN and no infinity: jsonl has the texts "NaN", "Infinity" and
    /// "-Infinity"
    #[arg(long, value_name = "FORM")]
    format: Option<Form>,

    /// The file to write, instead of standard output. After a crash the same command goes on with it: it
    /// holds each acknowledged record once. FILE.rondo beside it says how far it is
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Begin at this named position
    #[arg(long, value_name = "NAME", value_parser = name)]
    position: Option<String>,

    /// Save this named position at the end
    #[arg(long, value_name = "NAME", value_parser = name)]
    save_position: Option<String>,

    /// Stop after so many records or elements, with those that the file holds from former runs
    #[arg(long, value_name = "N")]
    max_records: Option<u64>,

    /// Pass over elements that cannot be made, and count them (by element only)
    #[arg(long)]
    continue_on_error: bool,

    /// Memory for what is read ahead
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size(..))]
    buffer_size: u64,

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
    /// Comma-separated values with a line of column names (by split only)
    Csv,
    /// An Arrow IPC stream (by split only)
    Arrow,
}

impl Form {
    /// Its name on the command line.
    const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
        }
    }

    /// The form that a file's ending stands for.
    fn of_ending(file: &Path) -> Option<Self> {
        let ending = file.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "jsonl" | "ndjson" | "json" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            "arrow" | "arrows" => Some(Self::Arrow),
            _ => None,
        }
    }
}

impl ReadArgs {
    /// What to make of what is read.
    fn form(&self) -> Result<Form, Failure> {
        let Some(file) = &self.output else {
            return Ok(self.format.unwrap_or(Form::Count));
        };
        match self.format.or_else(|| Form::of_ending(file)) {
            Some(Form::Count) => {
                let text =
                    "--format count writes no records: leave out -o FILE, or name another form";
                Err(Failure::new(Exit::Usage, text))
            }
            Some(form) => Ok(form),
            None => {
                let text = format!(
                    "the ending of {} stands for no form: say --format jsonl, csv or arrow",
                    file.display()
                );
                Err(Failure::new(Exit::Usage, text))
            }
        }
    }

    /// What the file is for.
    fn contents(&self, form: Form) -> Contents {
        let part = |what: &str, (index, size): (u32, u32)| format!("{what} {index}/{size}");
        let group = self.group.map(|group| part("group", group));
        Contents {
            job: self.job.clone(),
            repetition: self.repetition,
            part: group.or_else(|| self.consumer.map(|consumer| part("consumer", consumer))),
            output: form.name().to_owned(),
        }
    }
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
    crate::allocator::keep_for_batches();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Other, error))?;
    let ended = runtime.block_on(carry_out(args));
    // Nothing that is still under way is waited for.
    runtime.shutdown_background();
    ended
}

async fn carry_out(args: &ReadArgs) -> Result<(), Failure> {
    let Some(output) = Output::open(args).await? else {
        return Ok(());
    };
    match reader_of(args, &output).await {
        Ok(reader) => read_on(args, reader, output).await,
        Err(failure) => {
            output.discard()?;
            Err(failure)
        }
    }
}

async fn reader_of(args: &ReadArgs, output: &Output) -> Result<Reader, Failure> {
    let status = status_of(args).await?;
    // A position sets the job back.
    let begins = args.position.is_none() && !output.goes_on();
    if begins && pass::is_over(&status, &args.job, args.repetition) {
        match &args.output {
            Some(file) => return Err(over_before(args, file)),
            None => display::line(&over(args)),
        }
    }
    open(args, output, &status).await
}

async fn read_on(args: &ReadArgs, reader: Reader, output: Output) -> Result<(), Failure> {
    output.check_mode(reader.is_by_split())?;
    let (summary, end) = Reading::new(args, reader, output).run().await?;
    match args.form()? == Form::Count || args.output.is_some() {
        true => say(&summary)?,
        false => display::line(&summary),
    }
    match end {
        End::Interrupted => Err(Failure::new(Exit::Interrupted, "interrupted before the end")),
        End::All | End::Stopped => Ok(()),
    }
}

async fn open(
    args: &ReadArgs,
    output: &Output,
    status: &DispatcherStatus,
) -> Result<Reader, Failure> {
    let builder = builder(args, output.goes_on(), &status.jobs).await?;
    let opened = noticed(&args.server, OPEN_PATIENCE, builder.open()).await;
    opened.map_err(|error| not_opened(args, &error))
}

fn not_opened(args: &ReadArgs, error: &OpenError) -> Failure {
    match error {
        OpenError::Settings(text) => Failure::new(Exit::Usage, text),
        OpenError::Dispatcher { status, .. } => {
            Failure::new(of_status(status), said_by(&args.server, &error.to_string()))
        }
    }
}

/// `goes_on` if a former run has begun to read: the job stands behind what that one acknowledged, and not
/// at the position where it began.
async fn builder(args: &ReadArgs, goes_on: bool, jobs: &[JobStatus]) -> Result<Builder, Failure> {
    let job = jobs.iter().rev().find(|job| job.name == args.job);
    let wished = match (&args.dataset, &args.pipeline) {
        (Some(id), _) => Some(id.clone()),
        (None, Some(file)) => {
            let (compression, skip_corrupt) = (CompressionArg::None, args.skip_corrupt);
            let how = How { compression, skip_corrupt, replaces: false };
            Some(dataset::register(&args.server, None, file, how).await?)
        }
        (None, None) => None,
    };
    let dataset = match (wished, job) {
        (Some(wished), _) => wished,
        (None, Some(job)) => job.dataset.clone(),
        (None, None) => {
            let text = format!("there is no job {:?} yet: give --dataset or --pipeline", args.job);
            return Err(Failure::new(Exit::Usage, text));
        }
    };
    let chosen = args.sharding.map(policy).or(job.and_then(|job| policy_named(&job.sharding)));
    let usual = if args.consumer.is_some() { ShardingPolicy::Off } else { ShardingPolicy::Dynamic };
    let mut builder = Reader::builder(&args.server)
        .job(&args.job)
        .dataset(&dataset)
        .sharding(chosen.unwrap_or(usual))
        .repetition(args.repetition)
        .buffer(args.buffer_size, 1024)
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
    if let Some(position) = args.position.as_ref().filter(|_| !goes_on) {
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

/// What the dispatcher has.
async fn status_of(args: &ReadArgs) -> Result<DispatcherStatus, Failure> {
    let server = ServerArgs::of(&args.server);
    Ok(server.status().await?.dispatcher.unwrap_or_default())
}

/// The policy of this name.
fn policy_named(name: &str) -> Option<ShardingPolicy> {
    let all = [
        ShardingPolicy::Off,
        ShardingPolicy::Dynamic,
        ShardingPolicy::File,
        ShardingPolicy::Data,
        ShardingPolicy::FileOrData,
        ShardingPolicy::Hint,
    ];
    all.into_iter().find(|policy| policy.name() == name)
}

fn over_before(args: &ReadArgs, file: &Path) -> Failure {
    Failure::new(Exit::Other, format!("{}; {} is not written", over(args), file.display()))
}

fn over(args: &ReadArgs) -> String {
    format!(
        "pass {} of job {:?} has been read to its end before, or was given up. To read the dataset again, \
         name another job, or another pass with --repetition",
        args.repetition, args.job
    )
}

fn failure(status: &Status) -> Failure {
    Failure::new(of_status(status), &status.message)
}
