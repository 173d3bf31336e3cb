//! Reading: the records of a split, or of all of a dataset.

mod members;
mod output;
mod shuffle;
mod split;
mod tail;
mod whole;

use arrow::record_batch::RecordBatch;

pub use split::SplitReader;
pub use whole::{Shard, WholeReader};

/// Records in a batch when whoever reads leaves that open.
pub const BATCH_RECORDS: usize = 1024;

/// Successive records.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The place of the first of them in what is read: a split, or the whole stream.
    pub first: u64,
    /// The records; there may be none when some were passed over.
    pub records: RecordBatch,
    /// What could not be read and was passed over since the previous batch, as the pipeline asks:
    /// each names the file, the place, and what is wrong there.
    pub skipped: Vec<String>,
}
