//! Strangers who want the server's memory: they announce, pad, compress, and do not read.

use std::io::Write;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use rondo_proto::tf;
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::neighbour::Neighbour;
use rondo_tests::relay::Relay;
use rondo_tests::server::{Options, Server};
use rondo_tests::stranger::{Stranger, announced};

use super::keys;

const MIB: usize = 1 << 20;
/// The longest that a heartbeat of somebody else may take, in a debug build on a busy machine.
const NOTICED: Duration = Duration::from_secs(3);
const GET: &str = "/tensorflow.CoordinationService/GetKeyValue";
const STATE: &str = "/tensorflow.CoordinationService/GetTaskState";
const INSERT: &str = "/tensorflow.CoordinationService/InsertKeyValue";
const WORKERS: &str = "/tensorflow.data.DispatcherService/GetWorkers";

/// A server with 64 MiB for messages under way of up to 32 MiB, and a neighbour of its strangers.
struct Bed {
    what: &'static str,
    // Before the server that it talks to.
    neighbour: Neighbour,
    server: Server,
    /// Resident before the attack, in KiB.
    before: u64,
}

impl Bed {
    fn start(what: &'static str) -> Self {
        let options = Options::store("segment")
            .flag("--tasks=1")
            .flag("--message-size-max=32MiB")
            .flag("--inflight-size-max=64MiB");
        let server = Server::start(&options);
        let mut neighbour = Neighbour::beside(&server.address());
        thread::sleep(Duration::from_millis(200));
        neighbour.longest_beat();
        server.forget_peak();
        let before = server.resident_kib();
        Self { what, neighbour, server, before }
    }

    fn stranger(&self, window: u32) -> Stranger {
        Stranger::connect(&self.server.address(), window)
    }

    /// Asserts that the neighbour went on all the time, and that the server took at most so much memory more.
    fn assert_bounded(&mut self, mib_max: u64) {
        let longest = self.neighbour.longest_beat();
        let grown = self.server.peak_kib().saturating_sub(self.before) / 1024;
        println!("{}: longest heartbeat beside {longest:.1?}, {grown} MiB more", self.what);
        assert!(longest < NOTICED, "{}: {longest:?}", self.what);
        assert!(grown <= mib_max, "{}: {grown} MiB of at most {mib_max}", self.what);
    }
}

fn insert(dispatcher: &Dispatcher, key: &str, length: usize) {
    keys::put(dispatcher, key, vec![7; length]).unwrap();
}

pub(crate) fn compressed(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// Ten bytes each blocked all messages above 64 KiB.
#[test]
fn announced_messages_block_nobody() {
    let mut bed = Bed::start("announced");
    let mut stranger = bed.stranger(65_535);
    for _ in 0..8 {
        stranger.begin(INSERT, false, &announced(false, 32 * MIB, b"begin"));
        stranger.begin(INSERT, true, &announced(true, MIB, b"begin"));
    }
    thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    insert(&bed.server.dispatcher(), "large", 16 * MIB);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    bed.assert_bounded(100);
}

/// Calls that wait for days held their requests all the time.
#[test]
fn calls_that_wait_keep_no_padding() {
    const CALLS: usize = 2500;
    let mut bed = Bed::start("padded gets");
    let mut stranger = bed.stranger(65_535);
    let mut message = tf::GetKeyValueRequest { key: "k".into() }.encode_to_vec();
    // A field that nobody knows.
    prost::encoding::encode_key(15, prost::encoding::WireType::LengthDelimited, &mut message);
    prost::encoding::encode_varint(60_000, &mut message);
    message.extend(std::iter::repeat_n(7, 60_000));
    for _ in 0..CALLS {
        stranger.call(GET, false, &message);
    }
    insert(&bed.server.dispatcher(), "other", MIB);
    // 143 MiB of padding have come; what is read and not yet decoded is bounded by the connection's window.
    bed.assert_bounded(80);
}

/// Answers that nobody reads were not counted.
#[test]
fn answers_that_nobody_reads_are_bounded() {
    const WORKERS_THERE: usize = 512;
    let mut bed = Bed::start("unread answers");
    let dispatcher = bed.server.dispatcher();
    for number in 0..WORKERS_THERE {
        let address = format!("{}{number:04}:1", "w".repeat(4000));
        dispatcher.worker_heartbeat(&address, &[]).unwrap();
    }
    bed.server.forget_peak();
    bed.before = bed.server.resident_kib();
    bed.neighbour.longest_beat();
    // Each answer has 2 MiB; 300 would have 600.
    let mut stranger = bed.stranger(0);
    for _ in 0..300 {
        stranger.call(WORKERS, false, &[]);
    }
    thread::sleep(Duration::from_secs(3));
    bed.assert_bounded(64 + 32 + 40);
}

/// 4 kB of gzip become two million entries of a list, 200 times over.
#[test]
fn compressed_lists_of_nothing_stop_nobody() {
    let mut bed = Bed::start("compressed lists");
    let bomb = compressed(&[0x0a, 0].repeat(2 * MIB));
    assert!(bomb.len() < 8000, "{}", bomb.len());
    let mut stranger = bed.stranger(65_535);
    for _ in 0..200 {
        stranger.call(STATE, true, &bomb);
    }
    thread::sleep(Duration::from_secs(2));
    insert(&bed.server.dispatcher(), "other", MIB);
    bed.assert_bounded(400);
}

/// A value's request of nothing but empty fields was taken.
#[test]
fn a_request_of_empty_fields_is_refused() {
    let bed = Bed::start("empty fields");
    let request = [0x0a, 0].repeat(15 * MIB);
    let status = bed.server.dispatcher().bytes(INSERT, request.into()).unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert!(status.message().contains("4096"), "{status}");
}

/// Each answer is there more than once on its way through a relay. Many at a time wait for each other's
/// memory, and all of them come.
#[test]
fn many_large_values_pass_through_a_relay() {
    const READERS: usize = 12;
    let mut bed = Bed::start("relayed values");
    insert(&bed.server.dispatcher(), "large", 8 * MIB);
    let relay = Relay::start(&bed.server.address());
    let (told, heard) = mpsc::channel();
    for _ in 0..READERS {
        let (told, address) = (told.clone(), relay.address());
        thread::spawn(move || {
            let request = tf::GetKeyValueRequest { key: "large".into() };
            let answer: tf::GetKeyValueResponse =
                Dispatcher::connect(&address).method(GET, &request).unwrap();
            told.send(answer.kv.unwrap().value.len()).unwrap();
        });
    }
    for _ in 0..READERS {
        assert_eq!(heard.recv_timeout(Duration::from_secs(60)), Ok(8 * MIB));
    }
    bed.assert_bounded(64 + 64 + 40);
}
