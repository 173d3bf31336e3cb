//! Workers that failed: which of them a split is tried on, and which one first.

use std::collections::BTreeSet;

use super::*;

/// Two have been silent for long. The connection to another one breaks while it makes a record.
#[test]
fn a_worker_that_failed_once_comes_before_those_that_are_silent_for_long() {
    let mut world = World::new(&["a", "b", "y", "z"], 4, seconds(3));
    world.switch_off(&["y", "z"]);
    world.pass(seconds(600));
    world.await_stream_of("b");
    world.pass(seconds(2));
    world.disconnect("b");
    let since = world.now;
    // A trial may be under way, with a pause after it.
    world.pass(seconds(145));
    assert!(world.served_since("b", since) > 0, "{:?}", world.failed);
}

/// Records of a long split come one by one. The connection breaks when the next one has just been asked for.
#[test]
fn a_worker_whose_connection_broke_during_a_long_split_serves_at_once() {
    let mut world = World::new(&["a", "b", "y", "z"], 3, Duration::from_millis(500));
    world.messages = 20;
    world.switch_off(&["y", "z"]);
    world.pass(seconds(200));
    world.await_stream_of("b");
    world.pass(seconds(3));
    world.disconnect("b");
    let since = world.now;
    world.pass(seconds(15));
    assert!(world.served_since("b", since) > 0, "{:?}", world.failed);
}

/// One refuses each call. It costs a split nothing to find that out, and 20 s to try the silent one.
#[test]
fn a_worker_that_refuses_cuts_no_pause_short_after_a_trial_of_a_silent_one() {
    let mut world = World::new(&["a", "b", "y"], 3, Duration::from_millis(50));
    world.gone.insert("b".to_owned(), Duration::ZERO);
    world.switch_off(&["y"]);
    world.pass(seconds(60));
    let since = world.now;
    world.pass(seconds(600));
    let failed_since =
        |name: &str| world.failed.iter().filter(|(of, at)| of == name && *at >= since).count();
    assert!(failed_since("b") > 20, "it is tried now and then");
    assert!(failed_since("y") <= 5, "{} trials in 600 s", failed_since("y"));
}

/// It refused each call, and has then stopped to answer at all.
#[test]
fn one_split_at_a_time_is_tried_on_a_worker_that_failed() {
    let mut world = World::new(&["a", "b"], 8, Duration::from_millis(50));
    world.gone.insert("b".to_owned(), Duration::ZERO);
    world.pass(seconds(10));
    world.gone.insert("b".to_owned(), seconds(1000));
    world.pass(seconds(20));
    let hung = world.actor.streams.values().filter(|it| &*it.address == "b/r").count();
    assert_eq!(hung, 1, "the others are read of the one that serves");
}

/// One has refused each call for a while. The connection to the other one breaks; it lives.
#[test]
fn the_only_living_worker_is_read_from_again_beside_one_that_refuses() {
    for streams in [1, 4] {
        let mut world = World::new(&["x", "y"], streams, Duration::from_millis(100));
        world.gone.insert("x".to_owned(), Duration::ZERO);
        world.pass(seconds(30));
        world.await_stream_of("y");
        world.disconnect("y");
        let since = world.now;
        world.pass(seconds(5));
        let served = world.served_since("y", since);
        assert!(served > 30, "{served} splits in 5 s by {streams} streams");
    }
}

/// All workers are silent, and each stream finds out about another one.
#[test]
fn streams_are_spread_over_silent_workers() {
    let names = ["a", "b", "c", "d"];
    let mut world = World::new(&names, 4, Duration::from_millis(50));
    world.pass(seconds(2));
    let silences = names.iter().zip([20, 23, 27, 32]);
    world.gone = silences.map(|(name, after)| ((*name).to_owned(), seconds(after))).collect();
    world.pass(seconds(100));
    let (mut spread, mut full) = (0, 0);
    for _ in 0..30_000 {
        world.pass(Duration::from_millis(10));
        if world.actor.streams.len() == 4 {
            full += 1;
            let streams = world.actor.streams.values();
            let asked: BTreeSet<_> = streams.map(|stream| &stream.address).collect();
            spread += usize::from(asked.len() == 4);
        }
    }
    assert!(full > 10_000 && spread * 10 > full * 9, "{spread} of {full}");
}
