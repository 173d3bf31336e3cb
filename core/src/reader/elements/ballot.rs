//! The round that a consumer names when it votes to give a task up. Votes of all consumers must name
//! one round, and no consumer learns which round the others name: only that a vote has failed.
//!
//! When a worker dies, some consumers may have its element of round `r` and stand in round `r + 1`,
//! and the others stand in round `r`. So a consumer names, one after the other:
//!
//! 1. the round in which it stands, until another consumer names a different one;
//! 2. then [`ANY_ROUND`]. Rondo's dispatcher takes it for agreement with whatever round the others name.
//!    For TensorFlow's it is a round like any other, in which all of Rondo's consumers meet: they all come
//!    there and stay, since nothing but success leads back. Each consumer ends at most one vote of the
//!    others on its way there, so votes fail no more often than there are consumers, however late and far
//!    apart they come;
//! 3. if votes fail more often, the dispatcher is TensorFlow's and there are clients that never change
//!    their round, TensorFlow's too. The consumer looks for that round: it is its own, the one before or
//!    the one behind. Exactly one of the three leaves each remainder modulo 3, so consumers that try the
//!    same remainder name the same round. They try one for a while, then the next, and longer with each
//!    cycle, so that those that began at different times still meet.
//!
//! A vote that merely ran out of time says that a consumer is missing, not that a round was wrong.
//! The consumer names the same round again. Rondo's dispatcher says UNAVAILABLE to a vote for
//! [`ANY_ROUND`] that ran out of time, so no such vote counts as a conflict, however short the time is.

use crate::limits::ANY_ROUND;
use crate::time::{Duration, Time};

/// Votes that other consumers' rounds may end, at least, before a consumer looks for that round: an
/// answer may be lost, and the consumer then names its own round once more.
const CONFLICTS_MIN: u32 = 8;
/// A vote that failed sooner was ended by another consumer's round. TensorFlow's dispatcher waits for
/// consumers for 10 s, Rondo's unless it is configured otherwise.
const TIME_OUT_MIN: Duration = Duration::from_secs(9);
/// How long a consumer names the rounds of one remainder in its first cycle.
const SEARCH_SPAN: Duration = Duration::from_secs(1);
/// Cycles after which that no longer doubles.
const DOUBLINGS_MAX: u32 = 6;

/// How a consumer votes on one task.
#[derive(Clone, Debug, Default)]
pub(super) struct Ballot {
    /// When the vote under way was cast.
    cast: Option<Time>,
    /// Votes that another consumer's round ended, since an answer of the worker.
    conflicts: u32,
    /// When the consumer began to look for the others' round.
    search_began: Option<Time>,
}

impl Ballot {
    /// Casts a vote of one of so many consumers, which stands in the round `own`, and returns the round
    /// to name.
    pub(super) fn cast(&mut self, now: Time, own: i64, consumers: u32) -> i64 {
        self.cast = Some(now);
        if self.conflicts > consumers.max(CONFLICTS_MIN) {
            self.search_began.get_or_insert(now);
        }
        match (self.search_began, self.conflicts) {
            (Some(began), _) => searched(now.since(began), own),
            (None, 0) => own,
            (None, _) => ANY_ROUND,
        }
    }

    /// How long the vote that is answered now waited for others.
    pub(super) fn waited(&self, now: Time) -> Duration {
        self.cast.map_or(Duration::ZERO, |cast| now.since(cast))
    }

    /// Counts a vote to which the dispatcher has said no.
    pub(super) fn fail(&mut self, now: Time) {
        if self.cast.take().is_some_and(|cast| now.since(cast) < TIME_OUT_MIN) {
            self.conflicts = self.conflicts.saturating_add(1);
        }
    }
}

/// The round to name after so long a search.
fn searched(elapsed: Duration, own: i64) -> i64 {
    let (mut left, mut span) = (elapsed.as_nanos(), SEARCH_SPAN.as_nanos().max(1));
    for _ in 0..DOUBLINGS_MAX {
        let cycle = span.saturating_mul(4);
        if left < cycle {
            break;
        }
        left = left.saturating_sub(cycle);
        span = span.saturating_mul(2);
    }
    match (left / span) % 4 {
        0 => nearest(own, 0),
        1 => nearest(own, 1),
        2 => nearest(own, 2),
        _ => ANY_ROUND,
    }
}

/// The one of `own - 1`, `own` and `own + 1` that leaves this remainder modulo 3.
const fn nearest(own: i64, remainder: i64) -> i64 {
    match remainder.saturating_sub(own.rem_euclid(3)).rem_euclid(3) {
        0 => own,
        1 => own.saturating_add(1),
        _ => own.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const LONG: Duration = Duration::from_secs(10);
    const SHORT: Duration = Duration::from_millis(3);

    fn vote(ballot: &mut Ballot, now: &mut Time, own: i64, takes: Duration) -> i64 {
        let round = ballot.cast(*now, own, 16);
        *now = now.after(takes);
        ballot.fail(*now);
        round
    }

    #[test]
    fn a_time_out_changes_no_round() {
        let (mut ballot, mut now) = (Ballot::default(), Time::ZERO);
        let own: Vec<i64> = (0..9).map(|_| vote(&mut ballot, &mut now, 7, LONG)).collect();
        assert_eq!(own, [7; 9]);
        assert_eq!(vote(&mut ballot, &mut now, 7, SHORT), 7);
        let met: Vec<i64> = (0..9).map(|_| vote(&mut ballot, &mut now, 7, LONG)).collect();
        assert_eq!(met, [ANY_ROUND; 9]);
    }

    #[test]
    fn a_search_begins_after_more_conflicts_than_consumers() {
        for takes in [SHORT, Duration::from_secs(5)] {
            let (mut ballot, mut now) = (Ballot::default(), Time::ZERO);
            let named: Vec<i64> = (0..18).map(|_| vote(&mut ballot, &mut now, 7, takes)).collect();
            assert_eq!((named[0], &named[1..17]), (7, &[ANY_ROUND; 16][..]));
            assert_eq!(named[17], 6, "the one of 6, 7 and 8 that 3 divides");
        }
    }

    #[test]
    fn a_search_names_each_neighbouring_round_and_the_same_as_others() {
        for own in [0, 1, 2, 3, 40, 41] {
            let second = Duration::from_secs(1).as_nanos();
            let at = |seconds: u64, own| {
                searched(Duration::from_nanos(second.saturating_mul(seconds)), own)
            };
            let mut named: Vec<i64> = (0..3).map(|seconds| at(seconds, own)).collect();
            named.sort_unstable();
            assert_eq!(named, [own - 1, own, own + 1]);
            let agree = (0..3).filter(|seconds| at(*seconds, own) == at(*seconds, own + 1));
            let mut agreed: Vec<i64> = agree.map(|seconds| at(seconds, own)).collect();
            agreed.sort_unstable();
            assert_eq!(agreed, [own, own + 1], "consumers in both rounds name each");
            assert_eq!(at(3, own), ANY_ROUND);
            assert_eq!(at(4, own), at(5, own), "twice as long");
        }
        searched(Duration::from_nanos(u64::MAX), i64::MAX);
    }
}
