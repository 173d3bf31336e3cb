//! How a reader reads.

use super::types::Member;
use crate::time::Duration;

/// A reader's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which pass of the job, from 0 on.
    pub repetition: i64,
    /// What is asked for, and of whom.
    pub way: Way,
    /// How often to show the dispatcher that the reader lives.
    pub heartbeat_interval: Duration,
    /// How often to ask it for tasks while there are none, and whether it is over near the end.
    pub heartbeat_interval_min: Duration,
    /// Bytes read ahead of the application; reached by at most one message of each stream more.
    pub buffer_bytes_max: u64,
    /// Batches or elements read ahead of the application.
    pub buffer_deliveries_max: usize,
    /// How long workers may be out of reach before the reader says that it stalls for them.
    pub worker_patience: Duration,
    /// How long a call to the dispatcher may take before it is made again.
    pub ask_deadline: Duration,
    /// How long the dispatcher is told again what was consumed last when it does not answer, and then
    /// for as long that the reader leaves.
    pub leave_patience: Duration,
}

/// What a reader asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Splits of the dispatcher, and their records of workers: every record once.
    BySplit(BySplit),
    /// Elements of tasks, as TensorFlow's clients do.
    ByElement(ByElement),
}

/// Reading by split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BySplit {
    /// Unfinished splits to hold, 1 to 1024.
    pub hold: u32,
    /// Splits read at once, beside the one that is delivered next.
    pub streams: usize,
    /// Records in one message at most; 0 leaves that to the worker.
    pub batch_records: u32,
    /// How often to acknowledge what was consumed, unless splits are needed sooner.
    pub acknowledge_interval: Duration,
    /// How often to ask for splits at most, and at least, while others hold what there is.
    pub poll_interval: (Duration, Duration),
    /// Part of a group among whom splits are dealt out by place.
    pub group: Option<Member>,
}

/// Reading by element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByElement {
    /// Which of how many consumers of a coordinated read this is.
    pub consumer: Option<Member>,
    /// Requests under way to one task at once; 1 keeps each task's order. One in coordinated reads.
    pub requests_per_task: usize,
    /// Whether an element that cannot be made is counted, and the next one read.
    pub continues_on_error: bool,
}

impl Config {
    /// Reads the first repetition in this way, with defaults for the rest.
    pub const fn of(way: Way) -> Self {
        Self {
            repetition: 0,
            way,
            heartbeat_interval: Duration::from_secs(1),
            heartbeat_interval_min: Duration::from_millis(20),
            buffer_bytes_max: 64 << 20,
            buffer_deliveries_max: 64,
            worker_patience: Duration::from_secs(10),
            ask_deadline: Duration::from_secs(10),
            leave_patience: Duration::from_secs(2),
        }
    }
}

impl Default for BySplit {
    fn default() -> Self {
        Self {
            hold: 4,
            streams: 4,
            batch_records: 0,
            acknowledge_interval: Duration::from_millis(200),
            poll_interval: (Duration::from_millis(20), Duration::from_millis(500)),
            group: None,
        }
    }
}

impl Default for ByElement {
    fn default() -> Self {
        Self { consumer: None, requests_per_task: 1, continues_on_error: false }
    }
}
