//! The node's process in tier 1: the core's node, its journal on the model disk, its recovery.
//!
//! The bytes are the real ones: commit groups in frames of `rondo_proto`, judged by the core's
//! scan. What happens when is the world's to say.

mod acknowledged;
mod compact;
mod journal;
mod older;
mod recover;
mod segment;

pub use self::acknowledged::{put as put_note, read as noted};
pub use self::compact::{Compaction, CompactionStep};
pub use self::journal::{Journal, Offered, Sync};
pub use self::older::age;
pub use self::recover::{Begun, NoStart, Recovering, proven_durable, reread};
