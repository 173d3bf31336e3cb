//! What a user should know of a graph before sharding it dynamically.

use std::fmt;

/// A pipeline that dynamic sharding does not divide, through no fault of the dispatcher.
///
/// A worker reads the input of a sequential `interleave`, or of `group_by_window`, with the split
/// providers taken away. Whatever op below starts its own input only then, starts it without
/// splits: every worker produces all of it. Names are those of nodes in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Every worker produces every element.
    ShuffleBeforeInterleave {
        /// The `shuffle`.
        shuffle: String,
        /// The `interleave` or `group_by_window` that reads it.
        interleave: String,
    },
    /// Every worker produces every element in each pass after the first.
    RepeatBeforeInterleave {
        /// The `repeat`.
        repeat: String,
        /// The `interleave` or `group_by_window` that reads it.
        interleave: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (early, late, passes) = match self {
            Self::ShuffleBeforeInterleave { shuffle, interleave } => (shuffle, interleave, ""),
            Self::RepeatBeforeInterleave { repeat, interleave } => {
                (repeat, interleave, " of each pass after the first")
            }
        };
        write!(
            out,
            "under DYNAMIC sharding every worker will produce all elements{passes}: TensorFlow's \
             workers take no splits for '{early}' when the sequential '{late}' reads it; move \
             '{early}' behind '{late}', or give interleave num_parallel_calls"
        )
    }
}
