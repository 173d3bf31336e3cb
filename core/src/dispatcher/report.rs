//! A picture of the dispatcher for people and scripts: what `rondo status` prints.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The whole dispatcher at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Registered datasets, by id.
    pub datasets: Vec<DatasetReport>,
    /// Registered workers, in order of registration.
    pub workers: Vec<WorkerReport>,
    /// Jobs, by id.
    pub jobs: Vec<JobReport>,
    /// Named jobs that were freed, by name.
    pub freed_jobs: Vec<FreedJobReport>,
    /// Iterations, by id.
    pub iterations: Vec<IterationReport>,
    /// Tasks, by id.
    pub tasks: Vec<TaskReport>,
    /// Clients, by id.
    pub clients: Vec<ClientReport>,
}

/// A dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetReport {
    /// Its id.
    pub id: String,
    /// Hash of its definition, in hexadecimal.
    pub digest: String,
    /// Size of its definition, in bytes.
    pub size_bytes: u64,
    /// Elements: -1 infinite, -2 unknown.
    pub cardinality: i64,
    /// Number of sources of splits; absent when it cannot be split.
    pub split_sources: Option<u64>,
    /// Why it cannot be split, if so.
    pub unsplittable: Option<String>,
    /// Whether compression was switched off at run time, once decided.
    pub compression_disabled: Option<bool>,
    /// The name of the dataset that it is a version of, if that was replaced.
    pub version_of: Option<String>,
    /// Whether new jobs read it under its name.
    pub current: bool,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Its address.
    pub address: String,
    /// Its process's unique id.
    pub uid: i64,
    /// Its tags.
    pub tags: Vec<String>,
    /// Unfinished tasks it has.
    pub tasks: u64,
    /// Time since its last heartbeat to this process, in ms; absent before the first.
    pub silent_ms: Option<u64>,
    /// Whether it was silent for too long and has not been heard since.
    pub lost: bool,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// Its id.
    pub id: i64,
    /// The id of the first of the jobs that it continues, its own if there is none; absent if not known.
    pub first_id: Option<i64>,
    /// Its name.
    pub name: String,
    /// Its dataset's id.
    pub dataset: String,
    /// Its sharding policy.
    pub sharding: String,
    /// Number of consumers of a coordinated read.
    pub consumers: Option<i64>,
    /// Which workers its clients read from.
    pub target_workers: String,
    /// Whether workers keep elements for other trainers.
    pub use_cross_trainer_cache: bool,
    /// Ranges of repetitions that were read to their end and freed, such as `0-4`.
    pub finished: Vec<String>,
    /// Ranges of repetitions that were given up before their end.
    pub abandoned: Vec<String>,
}

/// A named job that was freed. What was read of it stays known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FreedJobReport {
    /// Its name.
    pub name: String,
    /// Its id; absent if not known.
    pub id: Option<i64>,
    /// The id of the first of the jobs that it continued, its own if there is none; absent if not known.
    pub first_id: Option<i64>,
    /// Ranges of repetitions that were read to their end, such as `0-4`.
    pub finished: Vec<String>,
    /// Ranges of repetitions that were given up before their end.
    pub abandoned: Vec<String>,
}

/// An iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IterationReport {
    /// Its id.
    pub id: i64,
    /// Its job's name.
    pub job: String,
    /// Which pass of the job.
    pub repetition: i64,
    /// `running`, `finished` or `collected`.
    pub state: String,
    /// Number of clients.
    pub clients: u64,
    /// Active tasks.
    pub tasks: u64,
    /// Active tasks that are finished.
    pub tasks_finished: u64,
    /// Tasks waiting for consumers to agree on a round.
    pub tasks_pending: u64,
    /// Highest round any consumer reported to this process (coordinated reads).
    pub round: Option<i64>,
    /// The round before which consumers are asked to block.
    pub block_round: Option<i64>,
    /// Where its sources of splits stand.
    pub sources: Vec<SourceReport>,
    /// Splits that were handed to workers now lost, and not finished by them as far as one knows.
    pub splits_lost: u64,
    /// Splits of lost workers that wait to be handed out again.
    pub splits_again: u64,
    /// Splits of which nobody knows who took them, handed out while workers now lost were at work:
    /// as many may be missing beside those lost.
    pub splits_in_doubt: u64,
    /// Splits that clients hold and have not read to their end.
    pub splits_held: u64,
    /// Splits that wait for a client: given up with one, passed over for one, or restored.
    pub splits_waiting: u64,
    /// Records that clients have acknowledged, of all splits.
    pub records_acknowledged: u64,
}

/// A source of splits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// The current pass.
    pub repetition: i64,
    /// Splits of this pass handed out.
    pub produced: u64,
    /// Splits of a whole pass.
    pub total: u64,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Its id.
    pub id: i64,
    /// Its iteration's id.
    pub iteration: i64,
    /// Its worker's address.
    pub worker: String,
    /// `running`, `pending` or `finished`.
    pub state: String,
    /// First round that includes it.
    pub starting_round: i64,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientReport {
    /// Its id.
    pub id: i64,
    /// Its iteration's id.
    pub iteration: i64,
    /// Time since its last heartbeat to this process, in ms; absent before the first.
    pub silent_ms: Option<u64>,
    /// Splits it holds.
    pub splits_held: u64,
    /// The place of the first of those.
    pub first_split: Option<u64>,
    /// Records of those that it has acknowledged.
    pub records_acknowledged: u64,
}

/// A named position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PositionReport {
    /// Its name.
    pub name: String,
    /// The name of the job it was saved of.
    pub job: String,
    /// The id of the dataset that the job read; `None` for positions of former releases.
    #[serde(default)]
    pub dataset: Option<String>,
    /// When it was saved, in ms since the driver's origin of time.
    pub saved_ms: u64,
    /// Ranges of finished repetitions, such as `0-4`.
    pub finished: Vec<String>,
    /// Repetitions that were not finished.
    pub reading: Vec<SavedRepetitionReport>,
    /// Names of the jobs that wait at it, to begin there.
    pub waiting: Vec<String>,
}

/// Where a repetition stood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedRepetitionReport {
    /// Which pass of the job.
    pub repetition: i64,
    /// Its sources of splits.
    pub sources: Vec<SavedSourceReport>,
    /// Splits that were being read, or waited to be.
    pub splits: Vec<SavedSplitReport>,
}

/// Where a source of splits stood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedSourceReport {
    /// The pass over the source.
    pub repetition: i64,
    /// Splits of that pass handed out.
    pub produced: u64,
}

/// A split that was being read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedSplitReport {
    /// Its place.
    pub place: u64,
    /// Records of it that were acknowledged: the first to be read is the one behind them.
    pub records: u64,
}
