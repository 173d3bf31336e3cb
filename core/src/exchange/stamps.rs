//! When a request and its answer passed where.

use crate::time::Time;

/// Points at which a request and its answer are stamped.
pub const STAMPS: usize = 8;

/// A point at which a request or its answer is stamped, by the clock of whoever stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// The worker hands the request to its transport.
    RequestStart = 0,
    /// The worker's transport begins to write it.
    RequestPostsend = 1,
    /// The server's transport has all of it.
    RequestPostrecv = 2,
    /// The server's machine sees it.
    RequestProcess = 3,
    /// The server hands the answer to its transport.
    ResponseStart = 4,
    /// The server's transport begins to write it.
    ResponsePostsend = 5,
    /// The worker's transport has all of it.
    ResponsePostrecv = 6,
    /// The worker's machine sees it.
    ResponseProcess = 7,
}

/// The eight stamps of a request and its answer, in nanoseconds of each process' own clock; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps([u64; STAMPS]);

impl Stamps {
    /// These stamps, in their order.
    pub const fn new(stamps: [u64; STAMPS]) -> Self {
        Self(stamps)
    }

    /// The stamps in their order.
    pub const fn get(&self) -> &[u64; STAMPS] {
        &self.0
    }

    /// The stamp at a point; [`Time::ZERO`] is none.
    pub fn at(&self, point: Point) -> Time {
        Time::from_nanos(self.0.get(point as usize).copied().unwrap_or_default())
    }

    /// Stamps a point.
    pub fn set(&mut self, point: Point, at: Time) {
        if let Some(stamp) = self.0.get_mut(point as usize) {
            *stamp = at.as_nanos();
        }
    }
}
