//! How much memory a server takes: for long messages that come all at once, and for keys.
//!
//! `RONDO_KEYS` is the number of keys (100,000).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed unwrap is a failed test"
)]

use std::time::Duration;
use std::{env, thread};

use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_tests::server::{Options, Server};
use rondo_tests::{graph, keys};

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

/// Keys of 7 bytes, each with a value of 100.
const KEYS: u64 = 100_000;
/// Bytes that a key may add to what is resident: its place in the tree, key and value in the allocator's
/// pieces, and some that the allocator could not use.
const PER_KEY: u64 = 300;
/// What does not grow with the keys, in bytes: connections, the newest changes, the store's buffers and what
/// the allocator keeps at the end of its pools.
const BESIDE: [(&str, u64); 2] = [("segment", 16 << 20), ("sled", 56 << 20)];

fn key(number: u64) -> String {
    format!("k{number:06}")
}

/// The server keeps a key in one place, and what a snapshot took while it was built goes back to the system.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_take_little_memory() {
    let keys = env::var("RONDO_KEYS").map_or(KEYS, |keys| keys.parse().expect("a number of keys"));
    for (store, beside) in BESIDE {
        let options = Options::store(store).flag("--tasks=1").flag("--segment-size-max=1MiB");
        let server = Server::start(&options);
        let before = server.resident_kib();
        keys::fill(&server.address(), keys, key, &[7; 100]).await;
        let at_once = server.resident_kib();
        // A snapshot may be under way.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let after = server.resident_kib();
        let per_key = |kib: u64| kib.saturating_sub(before) * 1024 / keys;
        println!("{store}: {} B per key at once, {} later", per_key(at_once), per_key(after));
        let bound = PER_KEY + beside / keys;
        assert!(per_key(after) <= bound, "{store}: {} B, at most {bound}", per_key(after));
        assert!(per_key(after) >= 100, "{store}: nothing was measured");
    }
}
