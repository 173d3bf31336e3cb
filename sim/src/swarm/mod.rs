//! The configuration of one run, drawn from its seed and printed whole.

mod apps;
mod coordination;
mod draw;
mod elements;
mod exchange;
mod jobs;
mod mix;
mod partings;
mod print;
mod reading;
mod relays;
mod rendezvous;
mod settings;
mod stored;
mod wider;

use rondo_core::dispatcher;
use serde::{Deserialize, Serialize};

pub use self::apps::AppShape;
pub use self::coordination::{CoordinationShape, NamespaceShape, StallShape, namespace_name};
pub use self::elements::ElementsShape;
pub use self::exchange::{ExchangeSettings, ExchangeShape, Lost};
pub use self::partings::PartingShape;
pub use self::reading::ReadingShape;
pub use self::relays::{RelaySettings, RelayShape};
pub use self::rendezvous::{Part, RendezvousSettings, RendezvousShape};
pub(crate) use self::wider::{CROWD_MIN, UID_OF_ANY_PROCESS};
use crate::fault::Faults;
use crate::rng::Stream;
use crate::workload::kind::Weights;

/// All that a run is configured with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swarm {
    /// How long things go wrong, in ms of simulated time.
    pub span_ms: u64,
    /// What happens then.
    pub ending: Ending,
    /// Workers.
    pub workers: u32,
    /// Consumers.
    pub consumers: u32,
    /// How many of the consumers, the first ones, read together in rounds.
    pub together: u32,
    /// Clients that misbehave.
    pub rogues: u32,
    /// People who look, save and restore.
    pub operators: u32,
    /// Kinds of faults with their strengths.
    pub faults: Faults,
    /// How likely each kind of request is where there is a choice.
    pub weights: Weights,
    /// The dispatcher's settings.
    #[serde(with = "stored::StoredSettings")]
    pub settings: dispatcher::Config,
    /// How the journal is kept.
    pub journal: JournalShape,
    /// How messages travel.
    pub net: NetShape,
    /// How fast everybody is.
    pub pace: Pace,
    /// Datasets there are.
    pub datasets: Vec<DatasetShape>,
    /// Names of jobs there are.
    pub job_names: u32,
    /// Every how many steps of the node all invariants are checked.
    pub look_every: u64,
    /// The coordination service's part, if it has one.
    #[serde(default)]
    pub coordination: Option<CoordinationShape>,
    /// Readers of records by split, if there are any.
    #[serde(default)]
    pub reading: Option<ReadingShape>,
    /// Readers by element, if there are any: then workers are as Rondo has them.
    #[serde(default)]
    pub elements: Option<ElementsShape>,
    /// Whether models of workers say the uid of TensorFlow's open builds, which names no process.
    #[serde(default)]
    pub stock_workers: bool,
    /// Workers with a rendezvous each, if the run is one of them: then nobody else takes part.
    #[serde(default)]
    pub rendezvous: Option<RendezvousShape>,
    /// An exchange of tensors, if the run is one: then nobody else takes part.
    #[serde(default)]
    pub exchange: Option<ExchangeShape>,
}

/// A configuration, and the streams it was drawn from.
pub type Drawn = (Swarm, DrawnStreams);

/// The streams that configurations are drawn from.
pub type DrawnStreams = [Stream; 11];

/// What a run does when things have gone wrong long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// It stops there.
    Cut,
    /// A drawn core heals, the rest stays broken for ever, and the core must get on.
    Heal,
    /// Everybody leaves for ever, and nothing must be left.
    Drain,
}

/// How the journal is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalShape {
    /// A segment of at least this size is closed, in bytes.
    pub segment_bytes_max: u64,
    /// A commit group of at least this size is written before more is added, in bytes.
    pub group_bytes_max: u64,
    /// Shortest time a sync takes, in µs.
    pub sync_us_min: u64,
    /// What it takes more on average, in µs.
    pub sync_us_mean: u64,
    /// How long until a dead process is started again, in ms.
    pub restart_ms: u64,
}

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetShape {
    /// Shortest delay, in µs.
    pub delay_us_min: u64,
    /// What it takes more on average where delays are on, in µs.
    pub delay_us_mean: u64,
    /// How long a caller waits for an answer before the connection counts as broken, in ms.
    pub patience_ms: u64,
    /// Messages that a link has room for.
    pub link_room: u32,
}

/// How fast everybody is, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Between a worker's heartbeats.
    pub worker_heartbeat_ms: u64,
    /// Between a client's heartbeats.
    pub client_heartbeat_ms: u64,
    /// A worker's time for one split.
    pub split_ms: u64,
    /// A consumer's time between two rounds.
    pub round_ms: u64,
    /// A consumer's pause between two iterations, on average.
    pub pause_ms: u64,
    /// Between two things that rogues and operators do, on average.
    pub act_ms: u64,
    /// How long a machine that was killed stays down, on average.
    pub down_ms: u64,
    /// Rounds of a coordinated read.
    pub rounds: u64,
}

/// A dataset that clients register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetShape {
    /// Splits of each source; none when it cannot be split.
    pub sources: Option<Vec<u64>>,
    /// The id that clients wish, if any.
    pub wished: Option<String>,
    /// Whether its definition is too large to stand in a record.
    pub large: bool,
    /// Whether its elements are compressed.
    pub compressed: bool,
}
