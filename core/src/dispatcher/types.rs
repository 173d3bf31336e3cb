//! The dispatcher's vocabulary: values that requests, records and replies share.
//!
//! Names and numbers are those of TensorFlow 2.21's `tensorflow.data` protos.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::ids::{DatasetId, Digest, IterationId, TaskId};
use crate::status::Code;

/// How a dataset is divided among workers (`ProcessingModeDef.ShardingPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardingPolicy {
    /// Each worker produces the whole dataset.
    Off,
    /// The dispatcher hands out splits one by one.
    Dynamic,
    /// Workers divide by file.
    File,
    /// Workers divide by element.
    Data,
    /// By file where possible, else by element.
    FileOrData,
    /// Where the user placed a `shard` hint.
    Hint,
}

impl ShardingPolicy {
    /// True for the policies where a worker needs its index in the configured worker list.
    pub const fn is_static(self) -> bool {
        matches!(self, Self::File | Self::Data | Self::FileOrData | Self::Hint)
    }

    /// The name of the value in TensorFlow's proto.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "OFF",
            Self::Dynamic => "DYNAMIC",
            Self::File => "FILE",
            Self::Data => "DATA",
            Self::FileOrData => "FILE_OR_DATA",
            Self::Hint => "HINT",
        }
    }
}

/// Which workers a client reads from (`TargetWorkers`). Stored and compared, never acted on here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetWorkers {
    /// Not said (old clients).
    Unspecified,
    /// The client's runtime decides.
    Auto,
    /// Any worker.
    Any,
    /// Only workers in the client's process.
    Local,
}

impl TargetWorkers {
    /// The word TensorFlow uses for it in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "UNSPECIFIED",
            Self::Auto => "AUTO",
            Self::Any => "ANY",
            Self::Local => "LOCAL",
        }
    }
}

/// Where workers run (`DeploymentMode`). Told to clients, never acted on here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeploymentMode {
    /// Not configured.
    #[default]
    Unspecified,
    /// In the clients' processes.
    Colocated,
    /// In processes of their own.
    Remote,
    /// Both.
    Hybrid,
}

/// How elements travel (`DataServiceMetadata.Compression`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not said.
    Unspecified,
    /// Uncompressed.
    Off,
    /// Snappy; may be switched off at run time.
    Snappy,
    /// Snappy, always.
    ForcedSnappy,
}

/// What a client said of a dataset's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetMetadata {
    /// `DataServiceMetadata` exactly as received; answered byte for byte.
    pub encoded: Bytes,
    /// Hash of the element spec in a canonical encoding (fields sorted, repeated fields as sets),
    /// so that equal structures compare equal whatever order their maps were written in.
    pub structure: Digest,
    /// The compression field.
    pub compression: Compression,
    /// Elements: -1 infinite, -2 unknown.
    pub cardinality: i64,
}

/// A dataset definition: a cleaned `DatasetDef`, named by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Hash of the bytes.
    pub digest: Digest,
    /// Length of the bytes.
    pub size_bytes: u64,
    /// The bytes, when no larger than [`crate::limits::DEFINITION_INLINE_BYTES_MAX`]; else they
    /// lie in the driver's blob store under `digest`.
    pub inline: Option<Bytes>,
}

/// One source of splits: the arithmetic sequence `start, start + step, …` before `stop`.
///
/// Every source TensorFlow can split without running it is such a sequence: a range is itself, a
/// list of n things is `0..n`, an endless random source is `0..i64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitSource {
    /// The first split.
    pub start: i64,
    /// The bound, never handed out.
    pub stop: i64,
    /// The difference between splits; never zero.
    pub step: i64,
}

impl SplitSource {
    /// The sequence `0, 1, …, count - 1`; empty for a negative count.
    pub const fn counting(count: i64) -> Self {
        Self { start: 0, stop: count, step: 1 }
    }

    /// How many splits the sequence has.
    pub const fn len(&self) -> u64 {
        let (distance, stride) = if self.step > 0 && self.stop > self.start {
            (self.stop.abs_diff(self.start), self.step.unsigned_abs())
        } else if self.step < 0 && self.stop < self.start {
            (self.start.abs_diff(self.stop), self.step.unsigned_abs())
        } else {
            return 0;
        };
        distance.div_ceil(stride)
    }

    /// True when the sequence has no split at all.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The split at `index`, `None` past the end.
    pub fn split_at(&self, index: u64) -> Option<i64> {
        if index >= self.len() {
            return None;
        }
        let offset = i128::from(index).checked_mul(i128::from(self.step))?;
        i64::try_from(i128::from(self.start).checked_add(offset)?).ok()
    }
}

/// What can be split in a dataset, derived from its graph once, at registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitPlan {
    /// The sources, in the order in which a worker's dataset numbers its split providers.
    Splittable(Vec<SplitSource>),
    /// Not possible; the refusal for whoever asks for dynamic sharding.
    Unsplittable {
        /// The status code to answer.
        code: Code,
        /// The text to answer.
        message: String,
    },
}

/// An address at which a worker serves elements by some protocol (`DataTransferServerInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferServer {
    /// The protocol's name, such as `grpc`.
    pub protocol: String,
    /// Where it listens.
    pub address: String,
    /// Opaque to the dispatcher; handed on byte for byte.
    pub compatibility_info: Bytes,
    /// Whether a client may fall back to gRPC when it cannot connect.
    pub fall_back_to_grpc_at_client_creation_time: bool,
    /// Whether a client may fall back to gRPC when a read fails.
    pub fall_back_to_grpc_at_get_element_time: bool,
}

/// A task as a client sees it (`TaskInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// The worker to read from.
    pub worker_address: Arc<str>,
    /// The task.
    pub task: TaskId,
    /// Its iteration.
    pub iteration: IterationId,
    /// First round that includes the task (coordinated reads), else 0.
    pub starting_round: i64,
    /// The worker's tags.
    pub worker_tags: Arc<[String]>,
    /// The worker's unique id, as it reported it.
    pub worker_uid: i64,
    /// How else the worker serves elements.
    pub transfer_servers: Arc<[TransferServer]>,
}

/// A task as a worker is told of it (`TaskDef`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDef {
    /// The task.
    pub task: TaskId,
    /// Its iteration.
    pub iteration: IterationId,
    /// The dataset's id.
    pub dataset: DatasetId,
    /// The dataset's definition; the driver writes it inline or as a path the worker resolves by
    /// `GetDatasetDef`.
    pub definition: Definition,
    /// The worker's own address string, letter by letter.
    pub worker_address: Arc<str>,
    /// How the dataset is divided.
    pub sharding: ShardingPolicy,
    /// Number of consumers of a coordinated read; absent otherwise.
    pub consumers: Option<i64>,
    /// Split providers under dynamic sharding, else 0.
    pub split_providers: i64,
    /// Configured workers under static sharding, else 0.
    pub workers: i64,
    /// This worker's index under static sharding, else 0.
    pub worker_index: i64,
    /// Whether workers keep elements for other trainers.
    pub use_cross_trainer_cache: bool,
}
