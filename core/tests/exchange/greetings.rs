//! Connections on which no worker has introduced itself: the server closes them in time.

use rondo_core::exchange::Config;
use rondo_core::exchange::server::{Effect, Event, Input};
use rondo_core::ids::ConnectionId;
use rondo_core::time::Duration;

use crate::bed::{RUN, ServerBed, connection};

/// Longer than a connection may be silent.
const LONG_MS: u64 = 60_000;

/// A server of one worker, whose connection is worker 0's, and a peer that connects now.
fn met_by_stranger() -> (ServerBed, ConnectionId) {
    let mut bed = ServerBed::new(Config::default(), 1);
    let connection = connection(5);
    bed.step(Input::Connected { connection });
    (bed, connection)
}

fn is_closed(bed: &ServerBed, connection: ConnectionId) -> bool {
    bed.told.contains(&Effect::Close { connection })
}

#[test]
fn a_connection_without_a_greeting_is_closed_after_the_heartbeat_timeout() {
    let (mut bed, stranger) = met_by_stranger();
    assert_eq!(bed.machine.deadline(), Some(bed.now.after(Duration::from_secs(10))));
    bed.pass(9_999);
    assert!(!is_closed(&bed, stranger));
    bed.pass(1);
    assert!(is_closed(&bed, stranger));
    let says = |it: &Effect<u32>| match it {
        Effect::Observe(Event::Protocol { what }) => what.contains("10000 ms (heartbeat_timeout)"),
        _ => false,
    };
    assert!(bed.told.iter().any(says), "{:?}", bed.told);
    assert_eq!(bed.machine.deadline(), None);
    assert!(!is_closed(&bed, connection(0)), "the worker that was welcomed stays");
}

#[test]
fn a_greeting_ends_the_wait_for_it() {
    let (mut bed, stranger) = met_by_stranger();
    assert!(!bed.machine.is_welcomed(stranger));
    bed.join_by(5, 0, RUN.get(), &[]);
    assert!(bed.machine.is_welcomed(stranger));
    assert_eq!(bed.machine.deadline(), None);
    bed.pass(LONG_MS);
    assert!(!is_closed(&bed, stranger));
}

#[test]
fn the_end_of_a_connection_and_of_the_server_end_the_wait_for_a_greeting() {
    let (mut bed, stranger) = met_by_stranger();
    bed.break_off(5);
    assert_eq!(bed.machine.deadline(), None);
    bed.step(Input::Connected { connection: stranger });
    bed.step(Input::Stop);
    assert_eq!(bed.machine.deadline(), None);
    bed.step(Input::Connected { connection: stranger });
    assert_eq!(bed.machine.deadline(), None, "a server that has stopped waits for nobody");
}

#[test]
fn a_server_that_was_held_up_gives_a_connection_its_time_anew() {
    let (mut bed, stranger) = met_by_stranger();
    bed.now = bed.now.after(Duration::from_secs(12));
    bed.step(Input::Tick);
    assert!(!is_closed(&bed, stranger), "its greeting may wait to be read");
    bed.pass(10_000);
    assert!(is_closed(&bed, stranger));
}
