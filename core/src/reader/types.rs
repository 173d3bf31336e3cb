//! What happens to a reader, and what it asks its driver to do.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::element::Element;
use crate::ids::{CallId, ClientId, JobId, TaskId};
use crate::status::Status;
use crate::time::Duration;

/// A call to the dispatcher or a worker, or a worker's stream; counted from 1 in each reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RpcId(pub u64);

/// What happens to a reader.
#[derive(Clone, Debug)]
pub enum Input {
    /// The application takes so many more deliveries.
    Wanted {
        /// How many, beside those it was to take before.
        deliveries: u64,
    },
    /// The application has consumed records. One acknowledgement tells the dispatcher of all of them.
    Consumed {
        /// By the splits' places: how many of a split's records, from the first on.
        upto: Vec<(u64, u64)>,
    },
    /// Everything consumed so far is to be acknowledged now.
    Flush {
        /// Names the call in [`Effect::Flushed`].
        call: CallId,
    },
    /// A call was answered, or has failed; a stream has brought something, or is broken.
    Answered {
        /// Which.
        rpc: RpcId,
        /// What came.
        result: Result<Answer, Status>,
        /// A fresh random number.
        entropy: u64,
    },
    /// The application wants no more: what it consumed is acknowledged, and the reader leaves.
    Close,
    /// Time has passed. Early and repeated ticks do nothing.
    Tick,
}

/// What a reader asks of its driver, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Call the dispatcher.
    Ask {
        /// Names the call.
        rpc: RpcId,
        /// What for.
        request: Request,
        /// How long it may take.
        deadline: Duration,
    },
    /// Call `ReadSplit` of the worker at this address, and take the first message of its stream.
    Open {
        /// Names the stream.
        rpc: RpcId,
        /// Where the worker serves records, `host:port`.
        address: Arc<str>,
        /// What to read.
        read: ReadSplit,
    },
    /// Take one more message of an open stream.
    Take {
        /// The stream.
        rpc: RpcId,
    },
    /// Call `GetElement` of the worker at this address.
    Fetch {
        /// Names the call.
        rpc: RpcId,
        /// Where the worker serves elements, `host:port`.
        address: Arc<str>,
        /// What for.
        fetch: FetchElement,
    },
    /// Take a call back, or close a stream. It is not answered any more.
    Withdraw {
        /// Which.
        rpc: RpcId,
    },
    /// Hand this to the application, behind what was handed to it before.
    Deliver(Delivery),
    /// Tell the application that it was handed all there is for now, when reading by split: for more,
    /// or the end, to come it must consume that.
    Drained,
    /// What was consumed before the call is acknowledged, or will not be.
    Flushed {
        /// The application's call.
        call: CallId,
        /// Whether it is.
        result: Result<(), Status>,
    },
    /// Tell the application, once, that nothing more is delivered: all was read, or why not.
    Ended {
        /// Which of the two.
        result: Result<(), Status>,
    },
}

/// A request to the dispatcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `GetOrCreateJob`; the driver knows of which dataset, and how it is divided.
    CreateJob,
    /// `GetOrCreateIteration`.
    CreateIteration {
        /// The job.
        job: JobId,
        /// Which pass of the job.
        repetition: i64,
    },
    /// `ClientHeartbeat`.
    Heartbeat {
        /// This reader.
        client: ClientId,
        /// The last round it has begun, in coordinated reads.
        current_round: Option<i64>,
        /// The round it does not begin before it is told otherwise.
        blocked_round: Option<i64>,
    },
    /// `rondo.v1.Splits/HoldSplits`.
    HoldSplits {
        /// This reader.
        client: ClientId,
        /// Unfinished splits to hold altogether.
        hold: u32,
        /// How far splits were consumed, by place.
        progress: Vec<SplitProgress>,
        /// Its part of a group, if splits are dealt out by place.
        group: Option<Member>,
    },
    /// `MaybeRemoveTask`.
    RemoveTask {
        /// The task that is out of reach.
        task: TaskId,
        /// Which consumer this is.
        consumer: i64,
        /// The round in which the consumers are to agree on that; see docs/round_robin.md.
        round: i64,
    },
    /// `ReleaseIterationClient`.
    Release {
        /// This reader.
        client: ClientId,
    },
}

/// One of several readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which, from 0 on.
    pub index: u32,
    /// Of how many.
    pub size: u32,
}

/// How far a split was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitProgress {
    /// Its place in the iteration.
    pub place: u64,
    /// Records consumed, from the first on.
    pub records: u64,
    /// Whether those are all.
    pub is_finished: bool,
}

/// The records of a split that are wanted of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSplit {
    /// A task of the worker.
    pub task: TaskId,
    /// The split's value.
    pub split: i64,
    /// Records to pass over.
    pub skip: u64,
    /// Records in one message at most; 0 leaves that to the worker.
    pub batch_records: u32,
}

/// An element that is wanted of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchElement {
    /// A task of the worker.
    pub task: TaskId,
    /// The consumer and its round, in coordinated reads.
    pub round: Option<(i64, i64)>,
    /// Whether this task skipped the round before.
    pub skipped_previous_round: bool,
    /// Whether "ask again" is an answer.
    pub allow_skip: bool,
}

/// What the dispatcher or a worker answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Request::CreateJob`].
    Job(JobId),
    /// To [`Request::CreateIteration`].
    Client(ClientId),
    /// To [`Request::Heartbeat`].
    Heartbeat(HeartbeatAnswer),
    /// To [`Request::HoldSplits`].
    Splits(SplitsAnswer),
    /// To [`Request::RemoveTask`]: whether it is removed.
    Removed(bool),
    /// To [`Request::Release`].
    Released,
    /// A message of a worker's stream. If none comes and the split has not ended, the stream has
    /// failed with UNAVAILABLE.
    Records(Records),
    /// To [`Effect::Fetch`].
    Element(Fetched),
}

/// What a heartbeat is answered with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The tasks to read from, in the order that all consumers see.
    pub tasks: Vec<Task>,
    /// Whether everything of the iteration has been handed out and read.
    pub is_finished: bool,
    /// The round before which to stop.
    pub block_round: Option<i64>,
}

/// A task as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The task.
    pub id: TaskId,
    /// Its worker's name, which is the address it registered with.
    pub worker: Arc<str>,
    /// Where the worker serves what, by protocol.
    pub servers: Vec<(String, Arc<str>)>,
    /// First round that includes the task, in coordinated reads.
    pub starting_round: i64,
}

/// What [`Request::HoldSplits`] is answered with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitsAnswer {
    /// All unfinished splits that the reader holds, by place.
    pub splits: Vec<HeldSplit>,
    /// Whether everything of the iteration has been read.
    pub is_finished: bool,
    /// Whether all that is left to read is with workers, which took it for clients that read by
    /// element.
    pub is_with_workers: bool,
}

/// A split that a reader holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldSplit {
    /// Its place in the iteration: its identity.
    pub place: u64,
    /// Its value, which workers understand.
    pub split: i64,
    /// Records of it that were acknowledged.
    pub records: u64,
}

/// Successive records of a split, as a worker sends them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The place of the first of them in the split.
    pub first: u64,
    /// How many they are.
    pub count: u64,
    /// The records, encoded.
    pub records: Bytes,
    /// Whether the split ends behind them.
    pub is_last: bool,
    /// What could not be read and was passed over, each with file and offset.
    pub skipped: Vec<String>,
}

/// What a worker answers to the wish for an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// An element.
    Element(Element),
    /// The task has no more.
    End,
    /// Nothing is ready: ask again.
    Skip,
}

/// What the application is handed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Records, when reading by split.
    Batch(Batch),
    /// An element, when reading by element.
    Element(Element),
}

/// Successive records of a split, none of which was delivered before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The split's place in the iteration.
    pub place: u64,
    /// The split's value.
    pub split: i64,
    /// The place of the first of the records in the split.
    pub first: u64,
    /// How many they are.
    pub count: u64,
    /// How many stand before them in `records` that were delivered already.
    pub passed: u64,
    /// The records, encoded, with those before them.
    pub records: Bytes,
}
