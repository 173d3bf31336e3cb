//! How far another process' clock is from this one's, from the stamps of requests and their answers.

use super::stamps::{Point, Stamps};

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
        let nanos = points.map(|point| stamps.at(point).as_nanos());
        nanos.into_iter().find(|nanos| *nanos != 0).map(i128::from)
    };
    let sent = first([Point::RequestPostsend, Point::RequestStart])?;
    let heard = first([Point::RequestPostrecv, Point::RequestProcess])?;
    let answered = first([Point::ResponsePostsend, Point::ResponseStart])?;
    let back = first([Point::ResponsePostrecv, Point::ResponseProcess])?;
    let ways = (back - sent) - (answered - heard);
    let nanos = i64::try_from(((heard - sent) + (answered - back)) / 2).ok()?;
    let error_nanos = u64::try_from(ways / 2).ok().filter(|_| ways >= 0)?;
    Some(Offset { nanos, error_nanos })
}
