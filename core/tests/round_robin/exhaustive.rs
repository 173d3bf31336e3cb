//! Every order in which things can happen, up to a bound.
//!
//! `ROUND_ROBIN_MORE=n` lets consumers read `n` rounds more and `n` accidents more happen, and walks
//! as far as that leads. `--nocapture` shows how many states there were.

use crate::consumer::Counting;
use crate::search::{Seen, search};
use crate::world::{Bounds, Delay};

/// Two consumers of a read begun with one worker, to be varied.
const TWO: Bounds = Bounds {
    consumers: 2,
    workers: 1,
    joins: 1,
    rounds: 3,
    accidents: 0,
    counting: Counting::Next,
    delay: Delay::Any,
    lockstep: true,
    reticent: false,
    death: false,
    done: false,
};
/// The same for three.
const THREE: Bounds = Bounds { consumers: 3, rounds: 2, ..TWO };

/// Far more would make every push wait; who makes the bounds wider sees it here.
const STATES_MAX: usize = 100_000;

#[track_caller]
fn explore(bounds: Bounds) -> Seen {
    let more = std::env::var_os("ROUND_ROBIN_MORE");
    let more = more.map_or(0, |more| more.to_str().unwrap().parse::<u8>().unwrap());
    let bounds = Bounds {
        rounds: bounds.rounds + i64::from(more),
        accidents: bounds.accidents + more,
        ..bounds
    };
    let states_max = if more > 0 { usize::MAX } else { STATES_MAX };
    let seen = search(&bounds, states_max).unwrap_or_else(|story| panic!("{bounds:?}: {story}"));
    println!("{bounds:?}: {seen:?}");
    assert!(seen.promoted > 0, "no task was ever added");
    assert!(seen.pending.contains_key(&usize::from(bounds.joins)));
    seen
}

#[test]
fn two_consumers_and_one_task() {
    explore(TWO);
}

#[test]
fn two_consumers_and_two_tasks() {
    explore(Bounds { joins: 2, rounds: 2, ..TWO });
}

#[test]
fn two_consumers_and_three_tasks() {
    explore(Bounds { joins: 3, rounds: 2, delay: Delay::OfAnswers, ..TWO });
}

#[test]
fn three_consumers_and_one_task() {
    explore(Bounds { delay: Delay::OfAnswers, ..THREE });
}

#[test]
fn three_consumers_and_two_tasks() {
    explore(Bounds { joins: 2, delay: Delay::None, ..THREE });
}

#[test]
fn three_consumers_and_three_tasks() {
    explore(Bounds { joins: 3, rounds: 1, delay: Delay::None, ..THREE });
}

#[test]
fn a_read_begun_without_workers() {
    explore(Bounds { workers: 0, joins: 2, ..TWO });
}

#[test]
fn messages_are_lost_and_repeated_and_the_dispatcher_restarts() {
    explore(Bounds { accidents: 2, rounds: 2, ..TWO });
}

#[test]
fn repeated_messages_meet_the_next_task() {
    explore(Bounds { joins: 2, accidents: 1, rounds: 1, ..TWO });
}

#[test]
fn consumers_that_say_they_are_blocked_when_they_stand() {
    explore(Bounds { reticent: true, ..TWO });
}

/// The way TensorFlow's description of the protocol counts.
#[test]
fn consumers_that_report_the_round_they_have_begun() {
    explore(Bounds { counting: Counting::Begun, joins: 2, ..TWO });
}

/// Safety does not rest on workers holding a round back until all have asked for it.
#[test]
fn consumers_that_run_ahead_of_each_other() {
    explore(Bounds { lockstep: false, ..TWO });
}

#[test]
fn a_dead_worker_s_task_is_given_up_and_it_comes_back() {
    let seen = explore(Bounds {
        workers: 2,
        joins: 0,
        death: true,
        rounds: 2,
        accidents: 1,
        delay: Delay::None,
        ..TWO
    });
    assert!(seen.removed > 0, "no task was ever given up");
}

#[test]
fn three_consumers_give_a_dead_worker_s_task_up() {
    let seen = explore(Bounds {
        workers: 2,
        joins: 0,
        death: true,
        rounds: 1,
        delay: Delay::None,
        ..THREE
    });
    assert!(seen.removed > 0, "no task was ever given up");
}

#[test]
fn a_task_given_up_while_another_is_negotiated() {
    let seen = explore(Bounds { workers: 2, death: true, rounds: 1, delay: Delay::None, ..TWO });
    assert!(seen.removed > 0, "no task was ever given up");
}

#[test]
fn a_pending_task_that_is_done_makes_way_for_the_next() {
    explore(Bounds { done: true, joins: 2, rounds: 1, ..TWO });
}
