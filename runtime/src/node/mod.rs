//! The control-plane node at work: one task owns the machine, its journal and its clock; everybody
//! else talks to it through a [`RunningNode`].

mod blob_keeper;
mod compaction;
mod config;
mod driver;
mod events;
mod handle;
mod inbox;
mod journal;
mod listings;
mod memory;
mod port;
mod pushes;
mod queue;
mod recovery;
mod start;
mod turns;
mod upkeep;
#[cfg(madsim)]
mod watch;

pub use blob_keeper::BlobPin;
pub use compaction::{Built, CompactionError, SegmentRead, Snapshots};
pub use config::NodeConfig;
pub use inbox::Line;
pub use port::RunningNode;
pub use recovery::{Replay, ReplayError, Replayed, replay, segments_after};
pub use start::{NodeStartError, Surroundings, start_in_memory, start_over};
#[cfg(madsim)]
pub use watch::Watch;
