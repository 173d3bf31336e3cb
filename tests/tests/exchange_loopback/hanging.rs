//! A process that stands still in the middle of an answer: it neither reads nor writes, and its links stay.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo::exchange::{Exchange, Ways};
use rondo::tensor::Region;
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::message::{
    Answer, Credits, Hello, Pull, Register, Request, Tensor, ToScheduler, ToServer, ToWorker,
    Welcome,
};
use rondo_core::exchange::server::Partial;
use rondo_core::exchange::worker::Since;
use rondo_core::exchange::{
    Config, InstanceIndex, InstanceRank, Key, MembershipVersion, RequestNumber, Role, Stamps,
    WorkerRank,
};
use rondo_core::ids::Incarnation;
use rondo_proto::convert::exchange::{
    Body, FRAME_HEAD_BYTES, FrameHead, FrameLimits, decode_to_server, encode_to_scheduler,
    encode_to_server, encode_to_worker,
};

use crate::bed::{Bed, SOON, always, begin, list, numbers, room};
use crate::losing::hasty;

const RUN: Incarnation = Incarnation::new(77);
/// More numbers than fit into what the system keeps of a link.
const MANY: usize = 16 << 20;

/// What a process does until it stands still.
struct Frozen {
    door: TcpListener,
    scheduler: TcpStream,
}

impl Frozen {
    fn registered(role: Role, at: &str, sizes: Sizes) -> Self {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("tcp://{}", door.local_addr().unwrap());
        let mut scheduler = TcpStream::connect(at).unwrap();
        let register = ToScheduler::Register(Register {
            role,
            rank: Some(InstanceRank::new(0)),
            incarnation: RUN,
            addresses: vec![address.into()],
            host: "elsewhere".into(),
            sizes,
            known: None,
            passed: Vec::new(),
            waiting: Vec::new(),
        });
        tell_scheduler(&mut scheduler, &register);
        Self { door, scheduler }
    }

    /// Says that it lives, until told to stop. Then nothing more is heard of it, and its links stay.
    fn lives_until(mut self, stops: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let version = MembershipVersion::new(0);
            while !stops.load(Ordering::Acquire) {
                tell_scheduler(&mut self.scheduler, &ToScheduler::Heartbeat { version });
                std::thread::sleep(Duration::from_millis(50));
            }
        })
    }
}

fn tell_scheduler(scheduler: &mut TcpStream, message: &ToScheduler) {
    let mut bytes = Vec::new();
    encode_to_scheduler(message, &FrameLimits::of_scheduler(), &mut bytes).unwrap();
    scheduler.write_all(&bytes).unwrap();
}

fn hear(worker: &mut TcpStream) -> ToServer<()> {
    let limits = FrameLimits::default();
    let mut head = [0; FRAME_HEAD_BYTES];
    worker.read_exact(&mut head).unwrap();
    let head = FrameHead::decode(&head, &limits).unwrap();
    let mut header = vec![0; head.header_bytes as usize];
    worker.read_exact(&mut header).unwrap();
    let mut body = vec![0; usize::try_from(head.body_bytes).unwrap()];
    worker.read_exact(&mut body).unwrap();
    decode_to_server(head, &Bytes::from(header), Body::Follows, &limits).unwrap()
}

fn say(worker: &mut TcpStream, message: &ToWorker<()>) {
    let mut bytes = Vec::new();
    encode_to_worker(message, Body::Follows, &FrameLimits::default(), &mut bytes).unwrap();
    worker.write_all(&bytes).unwrap();
}

/// Welcomes a worker, and answers its first request, of `MANY` numbers, with the beginning of them.
fn begins_an_answer(worker: &mut TcpStream) {
    assert!(matches!(hear(worker), ToServer::Hello(_)));
    let credits = Credits { requests: 8, bytes: 1 << 40, per_key: 8 };
    let received = RequestNumber::new(0);
    say(worker, &ToWorker::Welcome(Welcome { incarnation: RUN, received, credits }));
    let ToServer::Request(request) = hear(worker) else { panic!("it asks for nothing") };
    let tensors = vec![Tensor { key: Key::new(2), info: list(MANY), payload: () }];
    let (number, stamps) = (request.number, Stamps::default());
    say(worker, &ToWorker::Answer(Answer { number, tensors, stamps }));
    worker.write_all(&[1; 1 << 16]).unwrap();
}

#[test]
fn a_server_that_stands_still_in_the_middle_of_an_answer_is_lost_in_time() {
    let bed = Bed::with(1, 1, 1, Ways { unix: false, shared_bytes: 0 }, hasty());
    let frozen = Frozen::registered(Role::Server, bed.scheduler.address(), bed.sizes);
    let door = frozen.door.try_clone().unwrap();
    let stops = Arc::new(AtomicBool::new(false));
    let life = frozen.lives_until(Arc::clone(&stops));
    let worker = Exchange::start(bed.settings(Role::Worker, 0), &mut always).unwrap();
    let pulls = vec![room(2, MANY)];
    let handler = begin(&worker, vec![numbers(1, &[1.0])], pulls).unwrap();
    let (mut link, _) = door.accept().unwrap();
    begins_an_answer(&mut link);
    // Nobody reads what is sent now.
    let payload = Region::allocate(4 * MANY);
    let large =
        rondo::exchange::Tensor { key: Key::new(3), info: list(MANY), payload: payload.into() };
    begin(&worker, vec![large], vec![]).unwrap();
    let late = worker.wait(handler, Some(Duration::from_millis(300)), Since::Call, &mut always);
    assert!(late.unwrap_err().lost.is_none(), "it may still come");
    stops.store(true, Ordering::Release);
    life.join().unwrap();
    let began = Instant::now();
    let error = worker.wait(handler, Some(SOON), Since::Call, &mut always).unwrap_err();
    let lost = error.lost.clone().unwrap_or_else(|| panic!("{error}"));
    assert_eq!((lost.role, lost.rank.get()), (Role::Server, 0), "{error}");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    // Another run takes its place, and the worker finds it.
    let server = Exchange::start(bed.settings(Role::Server, 0), &mut always).unwrap();
    let handler = loop {
        assert!(began.elapsed() < SOON, "it does not find the other run");
        match begin(&worker, vec![numbers(1, &[1.0])], vec![]) {
            Ok(handler) => break handler,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let batch = server.get_batch(&mut always).unwrap();
    server.respond(batch[0].handler, vec![]).unwrap();
    worker.wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
    drop(link);
}

/// Connects to a server, whose only address is of TCP.
fn connected(server: &Exchange) -> TcpStream {
    let membership = server.membership().unwrap();
    let member = membership.member(Role::Server, InstanceRank::new(0)).unwrap();
    let at = member.addresses[0].strip_prefix("tcp://").unwrap();
    TcpStream::connect(at).unwrap()
}

/// Connects to a server as the first run of worker 0, and asks for `MANY` numbers.
fn asks_for_many(server: &Exchange) -> TcpStream {
    let membership = server.membership().unwrap();
    let member = membership.member(Role::Server, InstanceRank::new(0)).unwrap();
    let mut link = connected(server);
    let hello = Hello {
        worker: WorkerRank::new(0),
        index: InstanceIndex::new(0),
        incarnation: RUN,
        version: membership.version,
        server: member.incarnation,
        attempt: 1,
        open: Vec::new(),
    };
    let request = Request {
        number: RequestNumber::new(1),
        acknowledged: Vec::new(),
        pushes: Vec::new(),
        pulls: vec![Pull { key: Key::new(2), info: list(MANY) }],
        stamps: Stamps::default(),
    };
    for message in [ToServer::Hello(hello), ToServer::Request(request)] {
        let mut bytes = Vec::new();
        let message: ToServer<()> = message;
        encode_to_server(&message, Body::Follows, &FrameLimits::default(), &mut bytes).unwrap();
        link.write_all(&bytes).unwrap();
    }
    link
}

#[test]
fn a_worker_that_stands_still_keeps_nothing_of_a_server() {
    let bed = Bed::with(1, 1, 1, Ways { unix: false, shared_bytes: 0 }, hasty());
    let frozen = Frozen::registered(Role::Worker, bed.scheduler.address(), bed.sizes);
    let stops = Arc::new(AtomicBool::new(false));
    let life = frozen.lives_until(Arc::clone(&stops));
    let server = Exchange::start(bed.settings(Role::Server, 0), &mut always).unwrap();
    let mut link = asks_for_many(&server);
    let batch = server.get_batch(&mut always).unwrap();
    let memory: Arc<[u8]> = vec![0; 4 * MANY].into();
    let kept = Arc::downgrade(&memory);
    let payload = Region::from(Bytes::from_owner(memory)).into();
    server.respond(batch[0].handler, vec![(list(MANY), payload)]).unwrap();
    stops.store(true, Ordering::Release);
    life.join().unwrap();
    let known = server.membership().unwrap().version;
    let began = Instant::now();
    // Another run takes its place, and is served.
    let worker = Exchange::start(bed.settings(Role::Worker, 0), &mut always).unwrap();
    let handler = begin(&worker, vec![numbers(1, &[1.0])], vec![]).unwrap();
    let batch = server.get_batch_within(Some(SOON), Partial::UpMembersOnly, &mut always).unwrap();
    server.respond(batch[0].handler, vec![]).unwrap();
    worker.wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
    assert!(server.membership().unwrap().version > known, "nobody was lost");
    // What the first run did not take is let go, not sent for as long as it is there.
    while kept.strong_count() > 0 {
        assert!(began.elapsed() < SOON, "the answer is kept");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut taken = Vec::new();
    let ended = link.read_to_end(&mut taken);
    assert!(taken.len() < 4 * MANY, "{ended:?} after {} bytes", taken.len());
}

/// A worker and a server that take part, by TCP alone.
fn pair(config: Config) -> (Bed, Vec<Exchange>, Vec<Exchange>) {
    let bed = Bed::with(1, 1, 1, Ways { unix: false, shared_bytes: 0 }, config);
    let (workers, servers) = bed.start();
    (bed, workers, servers)
}

/// The worker and the server exchange as before.
fn still_exchange(workers: &[Exchange], servers: &[Exchange]) {
    let handler = begin(&workers[0], vec![numbers(1, &[1.0])], vec![]).unwrap();
    let batch = servers[0].get_batch_within(Some(SOON), Partial::Never, &mut always).unwrap();
    servers[0].respond(batch[0].handler, vec![]).unwrap();
    workers[0].wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
}

/// How long a server keeps a link on which nothing more is said.
fn time_until_closed(link: &mut TcpStream) -> Duration {
    let began = Instant::now();
    link.set_read_timeout(Some(SOON)).unwrap();
    match link.read(&mut [0; 1]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("the link is not closed: {other:?}"),
    }
    began.elapsed()
}

#[test]
fn a_peer_that_ends_in_the_middle_of_a_frame_is_gone_at_once() {
    let (_bed, workers, servers) = pair(Config::default());
    // The last byte and the end come together now and then only.
    for _ in 0..20 {
        let mut link = connected(&servers[0]);
        link.write_all(&[1]).unwrap();
        link.shutdown(Shutdown::Write).unwrap();
        let took = time_until_closed(&mut link);
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    still_exchange(&workers, &servers);
}

#[test]
fn a_peer_that_never_says_who_it_is_is_gone_after_the_heartbeat_timeout() {
    let (bed, workers, servers) = pair(hasty());
    let mut silent = connected(&servers[0]);
    let mut slow = connected(&servers[0]);
    slow.write_all(&[1; 5]).unwrap();
    let timeout = Duration::from_millis(bed.config.heartbeat_timeout.as_millis());
    for link in [&mut silent, &mut slow] {
        let took = time_until_closed(link);
        assert!(took < SOON / 2, "{took:?} with a timeout of {timeout:?}");
    }
    let began = Instant::now();
    time_until_closed(&mut connected(&servers[0]));
    assert!(began.elapsed() >= timeout / 2, "it had no time to say who it is");
    still_exchange(&workers, &servers);
}

#[test]
fn tensors_that_a_stranger_announces_take_no_memory() {
    let (_bed, workers, servers) = pair(Config::default());
    let push = |key: u64| Tensor { key: Key::new(key), info: list(511 << 8), payload: () };
    // 2 GiB in all, and so few that the header is short.
    for tensors in [4096, 500] {
        let request = Request {
            number: RequestNumber::new(1),
            acknowledged: Vec::new(),
            pushes: (0..tensors).map(push).collect(),
            pulls: Vec::new(),
            stamps: Stamps::default(),
        };
        let mut bytes = Vec::new();
        let message: ToServer<()> = ToServer::Request(request);
        encode_to_server(&message, Body::Follows, &FrameLimits::default(), &mut bytes).unwrap();
        assert!(bytes.len() < 1 << 20, "{}", bytes.len());
        let mut link = connected(&servers[0]);
        // The server may close the link before it has read all.
        let _ = link.write_all(&bytes);
        let took = time_until_closed(&mut link);
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    still_exchange(&workers, &servers);
}

#[test]
fn strangers_who_only_announce_long_messages_take_no_room_of_a_scheduler() {
    let bed = Bed::with(1, 1, 1, Ways::default(), Config::default());
    let announce = || {
        let mut link = TcpStream::connect(bed.scheduler.address()).unwrap();
        let head = FrameHead { header_bytes: 16 << 20, body_bytes: 0 };
        link.write_all(&head.encode()).unwrap();
        link
    };
    let mut kept: Vec<TcpStream> = (0..40).map(|_| announce()).collect();
    std::thread::sleep(Duration::from_millis(500));
    for link in &mut kept {
        link.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let silent = link.read(&mut [0; 1]).unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::WouldBlock, "{silent}");
    }
    let (workers, servers) = bed.start();
    still_exchange(&workers, &servers);
}
