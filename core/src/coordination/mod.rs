//! The coordination service: processes of a job find each other, wait for each other, share keys,
//! and learn of each other's errors.
//!
//! One machine serves both wire dialects, T (`tensorflow.CoordinationService`) and X
//! (`xla.coordination.CoordinationService`), and `rondo.v1`; where they differ, the request says
//! which one speaks. Each namespace is one job's world, and each life of it begins with nothing.

mod alarms;
mod apply;
mod apply_barriers;
mod apply_tasks;
mod attention;
mod barrier_ends;
mod barriers;
mod beats;
mod calls;
mod config;
mod errors;
mod group;
mod invariants;
mod key;
mod key_watches;
mod keys;
mod leaving;
mod listing;
mod live;
mod lives;
mod machine;
mod names;
mod progress;
mod ranges;
mod record;
mod refusal;
mod registration;
mod relays;
mod reply;
mod report;
mod reporting;
mod request;
mod silent_relays;
mod slot;
mod snapshot;
mod state;
mod store;
mod types;
mod waiting_calls;
mod waste;
mod watching;

pub use config::{Config, DEFAULT_NAMESPACE, NamespaceConfig};
pub(crate) use invariants::{COORDINATION_INVARIANTS, STATE_INVARIANTS};
pub use machine::{Coordination, Effect, Turn, Wake};
pub use progress::Progress;
pub use record::{AliveAnswer, Change, ChangeKind, Kept, Opening, Participants, Record};
pub use refusal::Refusal;
pub use reply::{Event, KeyEntry, Reply};
pub use report::{CoordinationTaskReport, NamespaceReport, Report, TaskWait, WaitReport};
pub use request::{Call, Caller, Condition, Method, Request, Stamp};
pub use slot::StoredEntry;
pub use snapshot::Part;
pub use state::{Arrival, Barrier, Head, Namespace, Outcome, Relay, State, Task};
pub use store::{Entry, Store};
pub use types::{BarrierKey, Dialect, Fault, Phase, TaskInfo, TaskName, TaskState, Value};
