//! `rondo bench read`: records from files to a consumer, through the service, beside a plain loop over
//! the same files, a bare connection, and TensorFlow's own service.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use rondo_data::{Dataset, Pipeline, Stores, plan};
use serde::Serialize;
use tempfile::TempDir;

use super::super::exit::{Exit, Failure};
use super::super::local::LocalCluster;
use super::output::Format;
use super::process::Process;
use super::read_files::Shape;
use super::read_tensorflow::TensorFlow;
use super::{read_figures, read_loopback};
use crate::reader::{Builder, Reader};

/// Workers that serve.
const WORKERS: usize = 2;
/// Files that records are divided over.
const FILES: u64 = 8;
/// Bytes of a small record, and of a large element.
const SMALL_BYTES: usize = 1 << 10;
/// See [`SMALL_BYTES`].
const LARGE_BYTES: usize = 1 << 20;
/// Records of a batch when TensorFlow reads by batches.
const BATCH: u32 = 256;
/// Bytes that a bare connection carries.
const LOOPBACK_BYTES: u64 = 1 << 30;

/// What to read, and beside whom.
#[derive(Args, Clone, Debug, PartialEq)]
pub(in crate::cli) struct ReadArgs {
    /// Records of 1 KiB in an epoch
    #[arg(long, value_name = "COUNT", default_value_t = 400_000,
          value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    records: u64,

    /// Elements of 1 MiB in an epoch
    #[arg(long, value_name = "COUNT", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(10..=100_000))]
    elements: u64,

    /// Rounds; the middle of each figure is told
    #[arg(long, value_name = "COUNT", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// A Python that has tensorflow-cpu==2.21.0, whose own service reads the same small records
    #[arg(long, env = "RONDO_TENSORFLOW_PYTHON", value_name = "PROGRAM")]
    tensorflow: Option<PathBuf>,

    /// Form of the figures
    #[arg(long, value_name = "FORM", default_value = "table")]
    format: Format,
}

/// What a round of one thing brought, in units a second.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Rounds {
    /// Small records by Rondo's reader.
    pub(super) small: Vec<f64>,
    /// Small records by a plain loop.
    pub(super) small_local: Vec<f64>,
    /// Small records by TensorFlow, one by one.
    pub(super) small_tensorflow: Vec<f64>,
    /// Small records by TensorFlow, in batches.
    pub(super) small_tensorflow_batched: Vec<f64>,
    /// Bytes of large elements by Rondo's reader.
    pub(super) large: Vec<f64>,
    /// Bytes over a bare connection.
    pub(super) loopback: Vec<f64>,
    /// Milliseconds from opening a reader to its first record.
    pub(super) first_ms: Vec<f64>,
    /// Most memory a worker, and then this process, had in RAM, in MiB.
    pub(super) resident_mib: Vec<(f64, f64)>,
}

/// Measures, and prints what was found.
pub(super) fn run(args: &ReadArgs) -> Result<(), Failure> {
    crate::allocator::keep_for_batches();
    let runtime = super::super::threads::pool(None)?;
    let rounds = runtime.block_on(measure(args))?;
    args.format.print_rounds(&rounds, read_figures::table)
}

async fn measure(args: &ReadArgs) -> Result<Rounds, Failure> {
    let folder = TempDir::with_prefix("rondo-bench-").map_err(other)?;
    let small = Shape { records: args.records, record_bytes: SMALL_BYTES, files: FILES };
    let large = Shape { records: args.elements, record_bytes: LARGE_BYTES, files: FILES };
    let (small, small_files) = Sample::of(small, folder.path(), "small").await?;
    let (large, _) = Sample::of(large, folder.path(), "large").await?;
    let cluster = LocalCluster::start(folder.path(), WORKERS).await?;
    cluster.register("small", &small.dataset).await?;
    cluster.register("large", &large.dataset).await?;
    let start = |python: &PathBuf| TensorFlow::start(python, &small_files, folder.path());
    let mut tensorflow = args.tensorflow.as_ref().map(start).transpose()?;
    let mut rounds = Rounds::default();
    for number in 0..args.rounds {
        let local = small.local().await?;
        let (served, first) = small.served(&cluster, &format!("small-{number}")).await?;
        let (bytes, _) = large.served(&cluster, &format!("large-{number}")).await?;
        rounds.small_local.push(local);
        rounds.small.push(served);
        rounds.first_ms.push(first.as_secs_f64() * 1e3);
        rounds.large.push(bytes * mib() * mib());
        rounds.loopback.push(loopback().await?);
        rounds.resident_mib.push(resident(&cluster));
        if let Some(tensorflow) = &mut tensorflow {
            let records = small.shape.records;
            rounds.small_tensorflow.push(tensorflow.epoch(0, records)?);
            rounds.small_tensorflow_batched.push(tensorflow.epoch(BATCH, records)?);
        }
    }
    Ok(rounds)
}

/// A thousand and twenty-four.
const fn mib() -> f64 {
    1024.0
}

async fn loopback() -> Result<f64, Failure> {
    let measured = tokio::task::spawn_blocking(|| read_loopback::bytes_a_second(LOOPBACK_BYTES));
    measured.await.map_err(other)?.map_err(other)
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn resident(cluster: &LocalCluster) -> (f64, f64) {
    let of = |process: Process| process.resident_bytes().unwrap_or_default();
    let workers = cluster.workers.iter().filter_map(|worker| worker.pid().map(Process::of)).map(of);
    let in_mib = |bytes: u64| bytes as f64 / (mib() * mib());
    (in_mib(workers.max().unwrap_or_default()), in_mib(of(Process::this())))
}

/// Files of records, and what they are as a dataset.
struct Sample {
    shape: Shape,
    dataset: Dataset,
    stores: Stores,
}

impl Sample {
    async fn of(shape: Shape, folder: &Path, name: &str) -> Result<(Self, Vec<PathBuf>), Failure> {
        let files = shape.write(folder, name).map_err(other)?;
        let pipeline = Pipeline::tfrecord(files.iter().map(|file| file.display().to_string()));
        let stores = Stores::from_env();
        let dataset = plan(&pipeline, &stores).await.map_err(other)?;
        Ok((Self { shape, dataset, stores }, files))
    }

    /// Records a second by a plain loop over all splits.
    async fn local(&self) -> Result<f64, Failure> {
        let (began, mut records) = (Instant::now(), 0_u64);
        for split in 0..self.dataset.splits() {
            let number = i64::try_from(split).unwrap_or(i64::MAX);
            let mut reader = self.dataset.read_split(&self.stores, number, 0, 0);
            while let Some(batch) = reader.next().await.map_err(other)? {
                records = records.saturating_add(batch.records.num_rows() as u64);
            }
        }
        self.rate(records, began.elapsed())
    }

    /// Records a second through the service, and the time to the first.
    async fn served(&self, cluster: &LocalCluster, job: &str) -> Result<(f64, Duration), Failure> {
        let id = job.split('-').next().unwrap_or(job);
        let builder = Reader::builder(&cluster.dispatcher()).job(job).dataset(id);
        let (records, first, elapsed) = epoch(builder).await?;
        let rate = self.rate(records, elapsed);
        rate.map(|rate| (rate, first))
    }

    fn rate(&self, records: u64, elapsed: Duration) -> Result<f64, Failure> {
        if records == self.shape.records {
            return Ok(rate(records, elapsed.as_secs_f64()));
        }
        Err(other(format!("{records} records were read of {}", self.shape.records)))
    }
}

/// Reads an epoch: its records, the time to the first, and to the last.
async fn epoch(builder: Builder) -> Result<(u64, Duration, Duration), Failure> {
    let (began, mut records, mut first) = (Instant::now(), 0_u64, Duration::ZERO);
    let mut reader = builder.open().await.map_err(other)?;
    while let Some(delivery) = reader.next().await {
        let delivery = delivery.map_err(other)?;
        if records == 0 {
            first = began.elapsed();
        }
        records = records.saturating_add(delivery.records());
    }
    let elapsed = began.elapsed();
    reader.close().await.map_err(other)?;
    Ok((records, first, elapsed))
}

/// So many a second.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn rate(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(1e-9)
}

fn other(error: impl ToString) -> Failure {
    Failure::new(Exit::Other, error)
}
