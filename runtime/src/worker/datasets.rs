//! What a worker needs of the data: from a dataset's definition, elements and records.

use bytes::Bytes;
use rondo_core::status::Status;
use rondo_core::worker::{From, Part, Then};
use rondo_proto::convert::{ReadSplit, SplitRecords};

use crate::transport::BoxFuture;

/// Opens datasets.
pub trait Datasets: Send + Sync + 'static {
    /// Opens a part of a dataset, for elements encoded as consumers want them.
    fn open(
        &self,
        definition: Bytes,
        part: Part,
        compressed: bool,
    ) -> BoxFuture<'static, Result<Opened, Status>>;

    /// Opens a split of a dataset for its records.
    fn read_split(
        &self,
        definition: Bytes,
        split: ReadSplit,
    ) -> BoxFuture<'static, Result<Box<dyn Records>, Status>>;
}

/// An open part of a dataset.
pub struct Opened {
    /// How many elements there are: -1 for endless, -2 for unknown.
    pub cardinality: i64,
    /// Makes them.
    pub elements: Box<dyn Elements>,
}

/// Makes elements.
pub trait Elements: Send {
    /// Makes some, each encoded as a `GetElementResponse`: no more than `room_bytes`, but one in any
    /// case unless there is none. It goes on where it ended, if it is asked for the same; so it does after a
    /// failure with UNAVAILABLE. After another one it is asked for nothing.
    fn make(&mut self, from: From, room_bytes: u64) -> BoxFuture<'_, (Vec<Bytes>, Then)>;
}

/// The records of a split, batch by batch.
pub trait Records: Send {
    /// The next batch; `None` behind the one that says it is the last.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SplitRecords>, Status>>;
}
