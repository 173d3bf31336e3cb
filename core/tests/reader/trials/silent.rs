//! Workers that are silent for a while: they are found when they are back, however many others fail.

use super::*;

/// One has failed often, and is back. Another has just fallen silent.
#[test]
fn a_worker_that_failed_often_is_tried_beside_one_that_failed_less_often() {
    let mut world = World::new(&["a", "b", "z"], 3, Duration::from_millis(200));
    world.switch_off(&["b"]);
    world.pass(seconds(900));
    world.switch_off(&["z"]);
    world.pass(seconds(60));
    world.gone.remove("b");
    let since = world.now;
    world.pass(seconds(600));
    assert!(world.served_since("b", since) > 0, "{:?}", world.failed.last());
}

/// One refuses each call at once. The other was out of reach for 70 s, and is back.
#[test]
fn a_worker_that_refuses_keeps_nobody_from_the_only_one_that_lives() {
    let mut world = World::new(&["x", "y"], 4, Duration::from_millis(100));
    world.gone.insert("x".to_owned(), Duration::ZERO);
    world.pass(seconds(10));
    world.switch_off(&["y"]);
    world.pass(seconds(70));
    world.gone.remove("y");
    let since = world.now;
    world.pass(seconds(60));
    assert!(world.served_since("y", since) > 0, "{:?}", world.failed.last());
}

/// The same where the one that refuses served all the while before.
#[test]
fn a_silent_worker_that_is_back_is_tried_when_the_last_one_refuses() {
    let mut world = World::new(&["x", "y"], 4, Duration::from_millis(100));
    world.switch_off(&["y"]);
    world.pass(seconds(30));
    world.await_stream_of("y");
    world.pass(seconds(22));
    world.gone.remove("y");
    world.gone.insert("x".to_owned(), Duration::ZERO);
    let since = world.now;
    world.pass(seconds(60));
    assert!(world.served_since("y", since) > 0, "{:?}", world.failed.last());
}

/// All seven are silent; one is back. Eight streams could ask all of them at once.
#[test]
fn one_of_many_silent_workers_that_is_back_is_found_soon() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let mut worst = 0;
    for back in names {
        let mut world = World::new(&names, 8, Duration::from_millis(100));
        world.pass(seconds(2));
        world.switch_off(&names);
        world.pass(seconds(65));
        world.gone.remove(back);
        let since = world.now;
        while world.served_since(back, since) == 0 && world.now.since(since) < seconds(400) {
            world.pass(seconds(1));
        }
        worst = worst.max(world.now.since(since).as_millis());
    }
    assert!(worst < 45_000, "{worst} ms");
}

/// A worker makes its records slowly. Its connection breaks while one is awaited; it lives.
#[test]
fn a_slow_maker_whose_connection_broke_is_read_from_again() {
    let mut world = World::new(&["a", "z"], 4, seconds(3));
    world.switch_off(&["z"]);
    world.pass(seconds(60));
    world.await_stream_of("a");
    world.pass(seconds(2));
    world.disconnect("a");
    let since = world.now;
    world.pass(seconds(15));
    assert!(world.served_since("a", since) > 0, "{:?}", world.failed);
}
