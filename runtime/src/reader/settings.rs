//! How a reader is opened.

use std::sync::Arc;
use std::time::Duration;

use rondo_core::dispatcher::ShardingPolicy;
use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_core::reader::{ByElement, BySplit, Config, Member, Way};
use rondo_core::time;

use super::interface::{OpenError, Reader};
use crate::transport::Transport;

/// How to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By split if the dataset is Rondo's own, sharded dynamically, and the read not coordinated;
    /// else by element.
    #[default]
    Auto,
    /// By split: every record once. Workers must be Rondo's.
    Split,
    /// By element, of TensorFlow's or Rondo's workers.
    Element,
}

/// What a reader is opened with.
#[derive(Clone)]
pub struct Builder {
    pub(super) dispatcher: String,
    pub(super) job: Option<String>,
    pub(super) dataset: String,
    pub(super) sharding: ShardingPolicy,
    pub(super) mode: Mode,
    pub(super) group: Option<Member>,
    pub(super) consumer: Option<Member>,
    pub(super) position: Option<String>,
    pub(super) acknowledges_by_hand: bool,
    pub(super) message_bytes_max: u64,
    pub(super) transport: Option<Arc<dyn Transport>>,
    config: Config,
    by_split: BySplit,
    by_element: ByElement,
}

impl Builder {
    pub(super) fn of(dispatcher: &str) -> Self {
        let (by_split, by_element) = (BySplit::default(), ByElement::default());
        Self {
            dispatcher: dispatcher.to_owned(),
            job: None,
            dataset: String::new(),
            sharding: ShardingPolicy::Dynamic,
            mode: Mode::Auto,
            group: None,
            consumer: None,
            position: None,
            acknowledges_by_hand: false,
            message_bytes_max: ELEMENT_BYTES_MAX,
            transport: None,
            config: Config::of(Way::BySplit(by_split.clone())),
            by_split,
            by_element,
        }
    }

    /// The job's name. Readers of one name share what there is to read, and its position. Without a
    /// name the reader has a job of its own.
    #[must_use]
    pub fn job(mut self, name: &str) -> Self {
        self.job = Some(name.to_owned());
        self
    }

    /// The id of the dataset, as it was registered.
    #[must_use]
    pub fn dataset(mut self, id: &str) -> Self {
        id.clone_into(&mut self.dataset);
        self
    }

    /// How the dataset is divided among workers; DYNAMIC unless this is called.
    #[must_use]
    pub const fn sharding(mut self, policy: ShardingPolicy) -> Self {
        self.sharding = policy;
        self
    }

    /// How to read.
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Which of how many consumers of a coordinated read this is, counted from 0: in each round all
    /// of them get one element of every task.
    #[must_use]
    pub const fn consumer(mut self, index: u32, size: u32) -> Self {
        self.consumer = Some(Member { index, size });
        self
    }

    /// Which of how many readers by split this is, counted from 0. Splits are dealt out by place, so
    /// that each of them reads the same whatever the others do.
    #[must_use]
    pub const fn group(mut self, index: u32, size: u32) -> Self {
        self.group = Some(Member { index, size });
        self
    }

    /// Which pass of the job, counted from 0.
    #[must_use]
    pub const fn repetition(mut self, repetition: i64) -> Self {
        self.config.repetition = repetition;
        self
    }

    /// Begins where this named position says. It ends what readers of the job read now, so one reader
    /// of a job does it, before the others are opened.
    #[must_use]
    pub fn resume(mut self, position: &str) -> Self {
        self.position = Some(position.to_owned());
        self
    }

    /// Nothing counts as consumed before [`Reader::acknowledge`] says so. Else a delivery does when
    /// the next one is asked for.
    #[must_use]
    pub const fn acknowledge_by_hand(mut self) -> Self {
        self.acknowledges_by_hand = true;
        self
    }

    /// Splits to hold, 1 to 1024, and how many of them to read at once, beside the one
    /// that is delivered next.
    #[must_use]
    pub fn splits(mut self, hold: u32, streams: usize) -> Self {
        (self.by_split.hold, self.by_split.streams) = (hold.clamp(1, 1024), streams.max(1));
        self
    }

    /// Records in one message of a worker at most, when reading by split.
    #[must_use]
    pub const fn batch_records(mut self, records: u32) -> Self {
        self.by_split.batch_records = records;
        self
    }

    /// How much is read ahead of the application.
    #[must_use]
    pub fn buffer(mut self, bytes_max: u64, deliveries_max: usize) -> Self {
        self.config.buffer_bytes_max = bytes_max;
        self.config.buffer_deliveries_max = deliveries_max.max(1);
        self
    }

    /// Requests under way to one task at once, when reading by element. More than one hides the
    /// round trip, at the price of the order within a task.
    #[must_use]
    pub fn requests_per_task(mut self, requests: usize) -> Self {
        self.by_element.requests_per_task = requests.max(1);
        self
    }

    /// Elements that cannot be made are counted and passed over, when reading by element.
    #[must_use]
    pub const fn continue_on_error(mut self) -> Self {
        self.by_element.continues_on_error = true;
        self
    }

    /// How often to acknowledge what was consumed, unless splits are needed sooner.
    #[must_use]
    pub fn acknowledge_interval(mut self, interval: Duration) -> Self {
        self.by_split.acknowledge_interval = span(interval);
        self
    }

    /// How long workers may be out of reach before the reader says that it stalls for them.
    #[must_use]
    pub fn worker_patience(mut self, patience: Duration) -> Self {
        self.config.worker_patience = span(patience);
        self
    }

    /// Longest message of a worker that is taken, in bytes.
    #[must_use]
    pub const fn message_bytes_max(mut self, bytes: u64) -> Self {
        self.message_bytes_max = bytes;
        self
    }

    /// Makes calls in this way instead of over gRPC.
    #[must_use]
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Opens the reader.
    ///
    /// # Errors
    /// When the dispatcher cannot be reached, does not know the dataset or the position, or the
    /// dataset cannot be read so.
    pub async fn open(self) -> Result<Reader, OpenError> {
        Reader::open(self).await
    }

    /// The machine's settings for reading so.
    pub(super) fn config(&self, by_split: bool) -> Config {
        let way = match by_split {
            true => Way::BySplit(BySplit { group: self.group, ..self.by_split.clone() }),
            false => {
                Way::ByElement(ByElement { consumer: self.consumer, ..self.by_element.clone() })
            }
        };
        Config { way, ..self.config.clone() }
    }
}

fn span(span: Duration) -> time::Duration {
    time::Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
