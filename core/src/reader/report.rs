//! How a reader stands, for people.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ids::ClientId;
use crate::status::Status;
use crate::time::Duration;

/// How a reader stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What was received so far.
    pub counts: Counts,
    /// Batches or elements that wait for the application.
    pub buffered: usize,
    /// Their bytes.
    pub buffered_bytes: u64,
    /// The number by which the dispatcher knows it; absent before it has joined.
    pub client: Option<ClientId>,
    /// Splits it has held so far, those it holds now among them.
    pub splits_taken: u64,
    /// Splits it holds.
    pub splits_held: usize,
    /// Those of them that were not handed to the application to their end.
    pub splits_undelivered: usize,
    /// Records handed to the application, of which it has not said that they are consumed.
    pub unconsumed: u64,
    /// The round it is in, in coordinated reads.
    pub round: Option<i64>,
    /// What could not be read and was passed over: the first few.
    pub skipped: Vec<String>,
    /// Workers it has read from, or is about to.
    pub workers: Vec<WorkerReport>,
    /// Why nothing moves, if nothing does.
    pub stall: Option<Stall>,
}

/// What a reader has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records or elements, each once.
    pub records: u64,
    /// Their bytes as they were sent.
    pub bytes: u64,
    /// Records that came a second time and were dropped.
    pub duplicates: u64,
    /// Places in the data that could not be read and were passed over, and elements that could not
    /// be made.
    pub skipped: u64,
    /// Streams and calls that broke and were made again.
    pub retries: u64,
}

/// What came from a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Records or elements.
    pub records: u64,
    /// Their bytes as they were sent.
    pub bytes: u64,
}

/// How a worker stands with a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerReport {
    /// Its name.
    pub worker: Arc<str>,
    /// What came from it.
    pub counts: WorkerCounts,
    /// Streams and calls under way.
    pub load: usize,
    /// Why it cannot be reached, if it cannot.
    pub failure: Option<Status>,
}

/// Why a reader does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stall {
    /// The dispatcher does not answer.
    Dispatcher {
        /// For how long.
        since: Duration,
        /// Why.
        status: Status,
    },
    /// No worker has a task of the iteration, or none that serves records by split.
    NoWorkers {
        /// Tasks of workers that do not.
        unsuited: usize,
    },
    /// Other readers hold what there is to read.
    NoSplits,
    /// Workers took what there is to read, for consumers that read by element.
    WithWorkers,
    /// Workers do not answer.
    Workers {
        /// One of them.
        worker: Arc<str>,
        /// For how long.
        since: Duration,
        /// Why.
        status: Status,
    },
    /// A worker has answered, and the dispatcher has yet to say whether all consumers have given its task up.
    Undecided {
        /// The worker.
        worker: Arc<str>,
    },
    /// The application takes nothing, while as much as may be waits for it.
    Application,
    /// The application was handed all there is, and has not said that it has consumed it.
    Unconsumed {
        /// Records.
        records: u64,
    },
    /// The dispatcher has asked all consumers to stop before this round.
    Blocked {
        /// The round.
        round: i64,
    },
}

impl Stall {
    /// What to tell people.
    pub fn sentence(&self) -> String {
        use alloc::format;
        match self {
            Self::Dispatcher { since, status } => {
                format!(
                    "the dispatcher has done nothing for it for {} ms: {status}",
                    since.as_millis()
                )
            }
            Self::NoWorkers { unsuited: 0 } => {
                "no worker has a task of it: none has registered, or all are lost".into()
            }
            Self::NoWorkers { unsuited } => format!(
                "none of {unsuited} workers serves what is wanted: reading by split needs workers \
                 started with `rondo worker`"
            ),
            Self::NoSplits => "other readers hold what is left to read".into(),
            Self::WithWorkers => {
                "workers took what is left for consumers that read by element, and wait for those: \
                 with --reissue-lost-splits the server hands it out again once they are gone"
                    .into()
            }
            Self::Workers { worker, since, status } => {
                format!(
                    "worker {worker} has done nothing for it for {} ms: {status}",
                    since.as_millis()
                )
            }
            Self::Undecided { worker } => format!(
                "worker {worker} has answered, and the dispatcher has yet to say whether all consumers \
                 have given its task up"
            ),
            Self::Application => "the application takes nothing; the buffer is full".into(),
            Self::Unconsumed { records } => {
                format!("{records} records were delivered and are not acknowledged")
            }
            Self::Blocked { round } => format!("all consumers stop before round {round}"),
        }
    }
}
