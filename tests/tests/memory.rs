//! How much memory a server takes for long messages that come all at once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed unwrap is a failed test"
)]

use std::thread;

use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_tests::graph;
use rondo_tests::server::{Options, Server};

const MIB: usize = 1 << 20;
/// About the length of each message.
const MESSAGE: usize = 40 * MIB;
/// The bound: there is room for one.
const IN_FLIGHT: usize = MESSAGE + MIB;
const CALLERS: usize = 12;
/// The server's receive window: so much of a message a client sends on a connection before the server reads
/// it (docs/operations.md).
const AHEAD: usize = 16 * MIB;
/// Everything else that a server does meanwhile.
const ELSE: usize = 40 * MIB;

/// A graph is there twice, as received and as cleaned, and the others wait their turn. All together would
/// take 480 MiB as received alone.
#[test]
fn long_messages_wait_for_room() {
    let options = Options::store("segment")
        .flag(&format!("--message-size-max={IN_FLIGHT}"))
        .flag(&format!("--inflight-size-max={IN_FLIGHT}"));
    let server = Server::start(&options);
    let before = server.resident_kib();
    server.forget_peak();
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let dispatcher = server.dispatcher();
            scope.spawn(move || {
                let dataset = graph::slices(MESSAGE - 8 * caller);
                let metadata = graph::metadata(Compression::Off, 9);
                dispatcher.register(None, dataset, &metadata).unwrap();
            });
        }
    });
    let grown = usize::try_from(server.peak_kib().saturating_sub(before)).unwrap() * 1024;
    let bound = 2 * IN_FLIGHT + CALLERS * AHEAD + ELSE;
    assert!(grown <= bound, "{} MiB of at most {}", grown / MIB, bound / MIB);
    // Else nothing would have been measured.
    assert!(grown >= MESSAGE, "{} MiB", grown / MIB);
}
