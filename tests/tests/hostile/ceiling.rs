//! Strangers who fill the server up to its bound of memory (`--memory-max`): it refuses new work, and all
//! that runs goes on.

use std::thread;
use std::time::{Duration, Instant};

use prost::Message;
use rondo_proto::convert::RendezvousMethod;
use rondo_proto::tf;
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::neighbour::Neighbour;
use rondo_tests::server::{Options, Server};
use rondo_tests::stranger::{Stranger, announced};
use tonic::{Code, Status};

use super::keys::{self, SERVICE};
use super::rendezvous::{Sender, tensor};

const MIB: usize = 1 << 20;
/// Memory that the server may have.
const BOUND_MIB: u64 = 256;
/// The longest that a heartbeat of somebody else may take, in a debug build on a busy machine.
const NOTICED: Duration = Duration::from_secs(3);
/// How soon the server serves again, in a debug build on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// A server with a bound of memory, and a neighbour of its strangers.
struct Bed {
    what: &'static str,
    // Before the server that it talks to.
    neighbour: Neighbour,
    server: Server,
}

impl Bed {
    fn start(what: &'static str, flags: &[&str]) -> Self {
        let bound = format!("--memory-max={BOUND_MIB}MiB");
        let options = Options::store("segment").flag("--tasks=1").flag(&bound);
        let options = flags.iter().fold(options, |options, flag| options.flag(flag));
        let server = Server::start(&options);
        let mut neighbour = Neighbour::that_beats(&server.address());
        thread::sleep(Duration::from_millis(200));
        neighbour.longest_beat();
        server.forget_peak();
        Self { what, neighbour, server }
    }

    /// Asserts that the neighbour went on all the time, and that the server took at most a quarter more than
    /// its bound.
    fn assert_bounded(&mut self) {
        let longest = self.neighbour.longest_beat();
        let peak = self.server.peak_kib() / 1024;
        println!("{}: longest heartbeat beside {longest:.1?}, {peak} MiB at most", self.what);
        assert!(longest < NOTICED, "{}: {longest:?}", self.what);
        assert!(peak <= BOUND_MIB + BOUND_MIB / 4, "{}: {peak} MiB", self.what);
    }

    /// Asserts that the server takes long values again.
    fn assert_serves(&self) {
        let began = Instant::now();
        while let Err(status) = insert(&self.server.dispatcher(), "after", MIB) {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            assert!(began.elapsed() < SOON, "{}: {status}", self.what);
            thread::sleep(Duration::from_millis(20));
        }
        println!("{}: served again after {:.1?}", self.what, began.elapsed());
    }
}

fn insert(dispatcher: &Dispatcher, key: &str, length: usize) -> Result<(), Status> {
    keys::put(dispatcher, key, vec![7; length])
}

/// Repeats what takes memory until the server refuses it, and asserts that it names this bound. How often it
/// was taken.
fn until_refused(bound: &str, mut take: impl FnMut(usize) -> Result<(), Status>) -> usize {
    for count in 0..20_000 {
        if let Err(status) = take(count) {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            assert!(status.message().contains(bound), "{status}");
            return count;
        }
    }
    panic!("nothing was refused");
}

/// So many strangers send 15 MiB of a value of 32 MiB, and then nothing.
pub(crate) fn begin_long_values(address: &str, strangers: usize) -> Vec<Stranger> {
    let begin = || {
        let mut stranger = Stranger::connect(address, 65_535);
        let path = format!("{SERVICE}InsertKeyValue");
        stranger.begin(&path, false, &announced(false, 32 * MIB, &vec![7; 15 * MIB]));
        stranger
    };
    thread::scope(|scope| {
        let sending: Vec<_> = (0..strangers).map(|_| scope.spawn(begin)).collect();
        sending.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// Each connection may have 16 MiB unread: together they took whatever the machine had.
#[test]
fn unfinished_messages_of_many_connections_stay_below_the_ceiling() {
    let mut bed = Bed::start("unfinished messages", &["--inflight-size-max=1GiB"]);
    let strangers = begin_long_values(&bed.server.address(), 40);
    thread::sleep(Duration::from_secs(1));
    bed.assert_bounded();
    drop(strangers);
    bed.assert_serves();
}

/// The state stops where a snapshot of it still has memory.
#[test]
fn keys_stay_below_the_ceiling_and_deletions_make_room() {
    let mut bed = Bed::start("keys", &["--namespace-size-max=4GiB"]);
    let dispatcher = bed.server.dispatcher();
    insert(&dispatcher, "small", 10).unwrap();
    let taken = until_refused("--memory-max", |count| {
        insert(&dispatcher, &format!("much/{count}"), 60_000)
    });
    assert!(taken * 60_000 > BOUND_MIB as usize * MIB / 4, "{taken} values");
    bed.assert_bounded();
    let there = tf::GetKeyValueRequest { key: "small".into() };
    let there: tf::GetKeyValueResponse =
        dispatcher.method(&format!("{SERVICE}GetKeyValue"), &there).unwrap();
    assert_eq!(there.kv.unwrap().value.len(), 10);
    keys::delete(&dispatcher, "much").unwrap();
    bed.assert_serves();
    bed.assert_bounded();
}

/// A producer of tensors that nobody receives.
struct Producer {
    dispatcher: Dispatcher,
    sender: Sender,
}

impl Producer {
    /// Bytes of one of its tensors.
    const LENGTH: usize = 60_000;

    fn of(server: &Server) -> Self {
        let dispatcher = server.dispatcher();
        Self { sender: Sender::to(&dispatcher), dispatcher }
    }

    /// Sends a tensor of this number.
    fn send(&self, number: usize) -> Result<(), Status> {
        let tensor = tensor(Self::LENGTH as i64, Self::LENGTH);
        let request = self.sender.send(1, &format!("edge {number}"), tensor);
        let path = RendezvousMethod::Send.path();
        self.dispatcher.bytes(path, request.encode_to_vec().into()).map(drop)
    }

    /// Ends the step of its tensors.
    fn clean_up(&self) {
        let cleanup = tf::CleanupGraphRequest { step_id: 1 }.encode_to_vec();
        self.dispatcher.bytes(RendezvousMethod::CleanupGraph.path(), cleanup.into()).unwrap();
    }
}

/// Tensors that nobody receives had a bound of their own only, 8 GiB.
#[test]
fn tensors_stay_below_the_ceiling() {
    let flags = ["--rendezvous", "--rendezvous-size-max=4GiB", "--rendezvous-step-size-max=4GiB"];
    let mut bed = Bed::start("tensors", &flags);
    let producer = Producer::of(&bed.server);
    until_refused("--memory-max", |count| producer.send(count));
    bed.assert_bounded();
    producer.clean_up();
    bed.assert_serves();
}

/// They filled the memory up to the ceiling, and nobody could put keys from then on.
#[test]
fn tensors_that_nobody_receives_leave_memory_for_keys() {
    let mut bed = Bed::start("a quarter of tensors", &["--rendezvous"]);
    let producer = Producer::of(&bed.server);
    let taken = until_refused("--rendezvous-step-size-max", |count| producer.send(count));
    let quarter = BOUND_MIB as usize * MIB / 4;
    // Their keys count too.
    assert!((quarter / 10 * 9..quarter).contains(&(taken * Producer::LENGTH)), "{taken}");
    thread::sleep(Duration::from_millis(200));
    let dispatcher = bed.server.dispatcher();
    // A quarter of the memory is the share of the namespace. Here it may fill half of that.
    for number in 0..quarter / 2 / Producer::LENGTH {
        insert(&dispatcher, &format!("beside/{number}"), Producer::LENGTH).unwrap();
    }
    bed.assert_bounded();
}
