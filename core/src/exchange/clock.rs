//! How far another process' clock is from this one's, from the stamps of requests and their answers.

use super::stamps::{Point, Stamps};
use crate::time::Time;

/// After so many samples a better one is not waited for: clocks drift.
const SAMPLES_MAX: u32 = 1024;

/// How far another clock is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The other clock minus this one, in nanoseconds.
    pub nanos: i64,
    /// By how much that may be wrong, in nanoseconds: half of what the two ways took together.
    pub error_nanos: u64,
}

impl Offset {
    /// What one message there and one back show: when the first was sent and received, and the second was
    /// sent and received, the two in the middle by the other clock. `None` if there was less than no time
    /// on the way.
    pub fn of_ways(stamps: [Time; 4]) -> Option<Self> {
        let [sent, heard, answered, back] = stamps.map(|stamp| i128::from(stamp.as_nanos()));
        let ways = (back - sent) - (answered - heard);
        let nanos = i64::try_from(((heard - sent) + (answered - back)) / 2).ok()?;
        let error_nanos = u64::try_from(ways / 2).ok().filter(|_| ways >= 0)?;
        Some(Self { nanos, error_nanos })
    }

    /// The same, seen from the other side.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { nanos: self.nanos.saturating_neg(), error_nanos: self.error_nanos }
    }

    /// How far a third clock is ahead which is so far ahead of the other.
    #[must_use]
    pub const fn and(self, further: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(further.nanos),
            error_nanos: self.error_nanos.saturating_add(further.error_nanos),
        }
    }
}

/// What is known of another clock: the sample whose two ways took the least time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    best: Option<Offset>,
    samples: u32,
}

impl Clock {
    /// How far the other clock is ahead, as far as is known.
    pub(super) const fn offset(&self) -> Option<Offset> {
        self.best
    }

    /// Takes the stamps of a request that was answered, if all four that count are there and in order.
    pub(super) fn sample(&mut self, stamps: &Stamps) {
        let Some(sample) = offset(stamps) else {
            return;
        };
        self.samples = self.samples.saturating_add(1);
        let is_better = self.best.is_none_or(|best| sample.error_nanos <= best.error_nanos);
        if is_better || self.samples > SAMPLES_MAX {
            self.best = Some(sample);
            self.samples = 0;
        }
    }
}

fn offset(stamps: &Stamps) -> Option<Offset> {
    // Where a transport does not say when it began to write, the machine's own stamp stands in.
    let first = |points: [Point; 2]| {
        points.map(|point| stamps.at(point)).into_iter().find(|at| *at != Time::ZERO)
    };
    let sent = first([Point::RequestPostsend, Point::RequestStart])?;
    let heard = first([Point::RequestPostrecv, Point::RequestProcess])?;
    let answered = first([Point::ResponsePostsend, Point::ResponseStart])?;
    let back = first([Point::ResponsePostrecv, Point::ResponseProcess])?;
    Offset::of_ways([sent, heard, answered, back])
}
