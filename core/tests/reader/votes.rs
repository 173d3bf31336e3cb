//! Coordinated reads whose worker has died: how soon all consumers agree to give its task up, however
//! many they are, whatever rounds they stand in, and beside TensorFlow's clients.

use std::collections::BTreeMap;

use rondo_core::ids::TaskId;
use rondo_core::reader::RpcId;
use rondo_core::time::{Duration, Time};

use crate::rounds::{Other, World, begun};

/// The task whose worker dies.
const TASK: TaskId = TaskId::new(4002);

/// Answers the call of a consumer to the worker that is about to die.
fn answer(world: &mut World, nth: usize) {
    let fetches = &world.consumers[nth].fetches;
    let which = fetches.iter().position(|(_, fetch)| fetch.task == TASK);
    world.fetch(nth, which.expect("it is asked"), false);
}

/// Consumers that want elements of two tasks. The worker of one answers the first few consumers in
/// round 0 and dies: those stand in round 1 from then on, and the others in round 0.
fn bereft(consumers: u32, answered: usize) -> World {
    let mut world = begun(consumers, 2);
    let count = world.consumers.len();
    for nth in 0..count {
        world.consumers[nth].want(world.now, 1_000_000);
    }
    for nth in 0..count - 1 {
        answer(&mut world, nth);
    }
    if answered > 0 {
        // The last one to ask in round 0 is answered, too.
        answer(&mut world, count - 1);
        (0..answered - 1).for_each(|nth| answer(&mut world, nth));
    }
    world.workers.get_mut(&TASK).unwrap().is_down = true;
    world
}

/// How long it takes until the task is given up, when each consumer notices the loss at its time. It
/// reads of the other worker all the while.
fn agreed_after(world: &mut World, goes_on: impl Fn(usize) -> Duration) -> Option<Duration> {
    let began = world.now;
    while world.now.since(began) < Duration::from_secs(120) {
        for nth in 0..world.consumers.len() {
            let has_noticed = world.now.since(began) >= goes_on(nth);
            for _ in 0..3 {
                for which in (0..world.consumers[nth].asks.len()).rev() {
                    world.ask(nth, which);
                }
                for which in (0..world.consumers[nth].fetches.len()).rev() {
                    if has_noticed || world.consumers[nth].fetches[which].1.task != TASK {
                        world.fetch(nth, which, false);
                    }
                }
            }
        }
        if world.tasks.iter().all(|(task, _)| *task != TASK) {
            return Some(world.now.since(began));
        }
        world.wait(10);
    }
    None
}

fn assert_within(seconds: u64, took: Option<Duration>, what: &str) {
    assert!(took.is_some_and(|took| took <= Duration::from_secs(seconds)), "{what}: {took:?}");
}

const AT_ONCE: fn(usize) -> Duration = |_| Duration::ZERO;

/// Rondo's dispatcher, and TensorFlow's, for which no round agrees with all others.
const IS_TENSORFLOW: [bool; 2] = [false, true];

#[test]
fn consumers_in_two_rounds_agree_within_seconds() {
    for (consumers, is_tensorflow) in [2, 3, 10, 16, 64].into_iter().zip(IS_TENSORFLOW.repeat(3)) {
        for answered in [0, 1, consumers as usize / 2, consumers as usize - 1, consumers as usize] {
            let mut world = bereft(consumers, answered);
            world.is_tensorflow = is_tensorflow;
            let took = agreed_after(&mut world, AT_ONCE);
            assert_within(1, took, &format!("{consumers}, {answered} in the next round"));
        }
    }
}

/// One consumer notices the loss when the vote of the others has run out of time.
#[test]
fn a_late_consumer_is_waited_for() {
    let late = Duration::from_secs(11);
    for consumers in [2, 16, 64] {
        for answered in [0, consumers as usize / 2] {
            let mut world = bereft(consumers, answered);
            let took = agreed_after(&mut world, |nth| if nth == 0 { late } else { Duration::ZERO });
            assert_within(14, took, &format!("{consumers}, {answered} in the next round"));
        }
    }
}

/// However far apart consumers notice the loss, they agree when the last one has.
#[test]
fn consumers_that_come_one_by_one_agree() {
    let spreads = [(16, 700), (16, 3000), (32, 1000), (64, 100), (64, 1000)];
    for (nth, (consumers, apart)) in spreads.into_iter().enumerate() {
        // In the order of their rounds, and mixed.
        for steps in [1, 7] {
            let mut world = bereft(consumers, consumers as usize / 2);
            world.is_tensorflow = (nth + steps).is_multiple_of(2);
            let place = |nth: usize| nth * steps % consumers as usize;
            let one_by_one = |nth: usize| Duration::from_millis(place(nth) as u64 * apart);
            let took = agreed_after(&mut world, one_by_one);
            let last = u64::from(consumers) * apart / 1000;
            assert_within(last + 2, took, &format!("{consumers}, {apart} ms apart, by {steps}"));
        }
    }
}

/// The same where the dispatcher is told to wait for votes for a shorter time.
#[test]
fn consumers_agree_however_short_votes_wait_for_each_other() {
    for (seconds, consumers, apart) in
        [(2, 8, 7000), (2, 16, 700), (1, 16, 3000), (1, 64, 1000), (1, 4, 20_000)]
    {
        for (steps, answered) in [(1, 1), (7, consumers as usize / 2)] {
            let mut world = bereft(consumers, answered);
            world.vote_time = Duration::from_secs(seconds);
            let place = |nth: usize| nth * steps % consumers as usize;
            let one_by_one = |nth: usize| Duration::from_millis(place(nth) as u64 * apart);
            let took = agreed_after(&mut world, one_by_one);
            let last = u64::from(consumers) * apart / 1000;
            let what = format!("{seconds} s, {consumers}, {apart} ms apart, by {steps}");
            assert_within(last + 5, took, &what);
        }
    }
}

/// Calls to the dead worker fail only after so long, as where a host is switched off. Returns how long
/// all consumers take to give its task up, when each notices the loss at its time.
fn agreed_over_silence(
    world: &mut World,
    silence: Duration,
    notices: impl Fn(usize) -> Duration,
) -> Option<Duration> {
    let (began, mut asked) = (world.now, BTreeMap::<(usize, RpcId), Time>::new());
    while world.now.since(began) < Duration::from_secs(120) {
        for nth in 0..world.consumers.len() {
            for which in (0..world.consumers[nth].asks.len()).rev() {
                world.ask(nth, which);
            }
            for which in (0..world.consumers[nth].fetches.len()).rev() {
                let (rpc, fetch) = &world.consumers[nth].fetches[which];
                let since = *asked.entry((nth, *rpc)).or_insert(world.now);
                let first = began.after(notices(nth));
                let fails =
                    world.now >= first && (since <= began || world.now.since(since) >= silence);
                if fetch.task != TASK || fails {
                    world.fetch(nth, which, false);
                }
            }
        }
        if world.tasks.iter().all(|(task, _)| *task != TASK) {
            return Some(world.now.since(began));
        }
        world.wait(10);
    }
    None
}

/// A consumer that asks the dead worker again still votes: all votes wait at one time, however long
/// such a call takes to fail.
#[test]
fn consumers_agree_while_calls_to_the_dead_worker_hang() {
    let silence = Duration::from_secs(5);
    for (consumers, apart) in [(2, 7500), (4, 3750), (16, 937)] {
        for answered in [0, consumers as usize / 2] {
            for is_tensorflow in IS_TENSORFLOW {
                let mut world = bereft(consumers, answered);
                world.is_tensorflow = is_tensorflow;
                let notices = |nth: usize| Duration::from_millis(nth as u64 * apart);
                let took = agreed_over_silence(&mut world, silence, notices);
                // The last one has noticed after 15 s, and votes when a second call has failed.
                assert_within(22, took, &format!("{consumers}, {answered}, {is_tensorflow}"));
            }
        }
    }
}

fn beside(world: &mut World, others: u32, round: i64) {
    let at = |nth: u32| Time::from_millis(3 + u64::from(nth) * 7);
    world.others = (0..others).map(|nth| Other::new(TASK, round, at(nth))).collect();
}

/// How long consumers, half of them TensorFlow's clients, take to agree at most, in seconds. Those vote
/// in the round in which they stand, for ever, and pause for longer after each vote.
fn assert_mixed(count: u32, is_tensorflow: bool, apart: u64, seconds: u64) {
    let ours = count / 2;
    for answered in [0, ours as usize / 2, ours as usize] {
        for round in [0, 1] {
            let mut world = bereft(ours, answered);
            world.is_tensorflow = is_tensorflow;
            beside(&mut world, count - ours, round);
            let place = |nth: usize| nth * 7 % ours as usize;
            let notices = |nth: usize| Duration::from_millis(place(nth) as u64 * apart);
            let took = agreed_after(&mut world, notices);
            let is_one = answered == 0 && round == 0 || answered == ours as usize && round == 1;
            let last = u64::from(ours) * apart / 1000;
            let seconds = last + if is_one { 1 } else { seconds };
            assert_within(seconds, took, &format!("{count}, {answered} ahead, {round}"));
        }
    }
}

/// TensorFlow's clients vote in the round in which they stand, for ever.
#[test]
fn consumers_agree_with_those_that_never_change_their_round() {
    for count in [2, 16, 64] {
        assert_mixed(count, false, 0, 1);
        assert_mixed(count, false, 200, 3);
    }
}

#[test]
fn consumers_agree_with_those_that_never_change_their_round_at_tensorflows_dispatcher() {
    for (count, seconds) in [(2, 4), (16, 4), (64, 40)] {
        assert_mixed(count, true, 0, seconds);
    }
}
