//! The attacks on an exchange: strangers at the ports of its scheduler and of a server, while a worker and
//! that server go on with their rounds.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo::exchange::{Exchange, Scheduler, Settings, Tensor, Ways};
use rondo::tensor::Region;
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::message::{Hello, Pull, Register, Request, ToScheduler, ToServer};
use rondo_core::exchange::server::Partial;
use rondo_core::exchange::worker::Since;
use rondo_core::exchange::{
    InstanceIndex, InstanceRank, Key, MembershipVersion, RequestNumber, Role, ScalarType, Stamps,
    TensorInfo, WorkerRank, scheduler,
};
use rondo_core::ids::Incarnation;
use rondo_proto::convert::exchange::{
    Body, FrameHead, FrameLimits, encode_to_scheduler, encode_to_server,
};

use super::attacks::{Attack, Ground, Report, Victim, chosen};
use super::families::noise;

/// How long a round may take, and whatever else must happen.
const SOON: Duration = Duration::from_secs(30);
const SIZES: Sizes = Sizes { workers: 1, servers: 1, group: 1 };
/// Links that one stranger leaves open.
const LINKS: usize = 200;

/// A worker and a server, each on a thread, that do a round every few milliseconds.
struct Rounds {
    leave: Arc<AtomicBool>,
    longest_us: Arc<AtomicU64>,
    count: Arc<AtomicU64>,
    running: Vec<JoinHandle<()>>,
    // Behind those that use it.
    _scheduler: Scheduler,
    scheduler_at: String,
    server_at: String,
}

fn always() -> bool {
    true
}

fn one_number() -> TensorInfo {
    TensorInfo::new(ScalarType::Float, &[1]).unwrap()
}

impl Rounds {
    fn start() -> Self {
        let scheduler =
            Scheduler::start(scheduler::Settings::default(), "127.0.0.1", 0, false).unwrap();
        let scheduler_at = scheduler.address().to_owned();
        let begin = |role| {
            let settings = Settings {
                rank: Some(InstanceRank::new(0)),
                ways: Ways { unix: false, shared_bytes: 0 },
                join_timeout: Some(SOON),
                ..Settings::new(role, SIZES, &scheduler_at)
            };
            thread::spawn(move || Exchange::start(settings, &mut always).unwrap())
        };
        let (worker, server) = (begin(Role::Worker), begin(Role::Server));
        let (worker, server) = (worker.join().unwrap(), server.join().unwrap());
        let membership = server.membership().unwrap();
        let member = membership.member(Role::Server, InstanceRank::new(0)).unwrap();
        let server_at = member.addresses[0].strip_prefix("tcp://").unwrap().to_owned();
        let leave = Arc::<AtomicBool>::default();
        let (longest_us, count) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let serving = thread::spawn({
            let leave = Arc::clone(&leave);
            move || serve(&server, &leave)
        });
        let pushing = thread::spawn({
            let shared = (Arc::clone(&leave), Arc::clone(&longest_us), Arc::clone(&count));
            move || push(&worker, &shared.0, &shared.1, &shared.2)
        });
        let running = vec![pushing, serving];
        let _scheduler = scheduler;
        Self { leave, longest_us, count, running, _scheduler, scheduler_at, server_at }
    }

    /// The longest that a round took since this was asked last.
    fn longest(&self) -> Duration {
        assert!(self.running.iter().all(|it| !it.is_finished()), "a round failed");
        Duration::from_micros(self.longest_us.swap(0, Ordering::SeqCst))
    }

    /// How long it takes until a round has begun and ended.
    fn served_again(&self) -> Duration {
        let (began, before) = (Instant::now(), self.count.load(Ordering::SeqCst));
        while self.count.load(Ordering::SeqCst) < before + 2 && began.elapsed() < SOON {
            thread::sleep(Duration::from_millis(1));
        }
        began.elapsed()
    }

    fn end(self) {
        self.leave.store(true, Ordering::SeqCst);
        self.running.into_iter().for_each(|running| running.join().unwrap());
    }
}

/// Answers each push with the number that came.
fn serve(server: &Exchange, leave: &AtomicBool) {
    while !leave.load(Ordering::SeqCst) {
        let pause = Some(Duration::from_millis(50));
        let Ok(batch) = server.get_batch_within(pause, Partial::Never, &mut always) else {
            continue;
        };
        for unit in batch {
            let answer = unit.tensors.into_iter().map(|it| (it.info, it.payload)).collect();
            server.respond(unit.handler, answer).unwrap();
        }
    }
}

/// Pushes a number, and expects that it comes back.
fn push(worker: &Exchange, leave: &AtomicBool, longest_us: &AtomicU64, count: &AtomicU64) {
    while !leave.load(Ordering::SeqCst) {
        let number = count.load(Ordering::SeqCst) as f32;
        let payload = Region::from(Bytes::copy_from_slice(&number.to_le_bytes())).into();
        let pushes = vec![Tensor { key: Key::new(1), info: one_number(), payload }];
        let room = Region::allocate(4);
        let pulls =
            vec![Tensor { key: Key::new(2), info: one_number(), payload: room.clone().into() }];
        let began = Instant::now();
        // SAFETY: nobody uses the memory before the request is complete.
        let handler = unsafe { worker.exchange(pushes, pulls) }.unwrap();
        worker.wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        longest_us.fetch_max(took, Ordering::SeqCst);
        assert_eq!(room.to_vec(), number.to_le_bytes(), "another number came back");
        count.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(2));
    }
}

/// An attack of strangers that connect, send these bytes, and leave or stay.
fn said(
    name: &'static str,
    stays: bool,
    bytes: impl Fn(usize) -> Vec<u8> + Sync + 'static,
) -> Attack {
    let stranger = move |ground: &Ground, number: usize| {
        let (mut open, mut count) = (Vec::new(), 0);
        while ground.goes_on() {
            let Ok(mut link) = TcpStream::connect(&ground.address) else {
                continue;
            };
            // The other end may have had enough.
            if link.write_all(&bytes(number * 1_000_000 + count)).is_ok() {
                ground.heard.fetch_add(1, Ordering::SeqCst);
            }
            count += 1;
            if !stays {
                let _ = link.shutdown(Shutdown::Write);
                continue;
            }
            open.push(link);
            if open.len() > LINKS {
                open.clear();
            }
        }
    };
    // Somebody must have taken what it said.
    Attack { name, stranger: Box::new(stranger), is_answered: true }
}

fn frame(header_bytes: u32, body_bytes: u64) -> Vec<u8> {
    FrameHead { header_bytes, body_bytes }.encode().to_vec()
}

/// Attacks that need no message that makes sense.
fn without_sense() -> Vec<Attack> {
    vec![
        said("links that say nothing and stay", true, |_| Vec::new()),
        said("links that leave at once", false, |_| Vec::new()),
        said("one byte and the end", false, |_| vec![1]),
        said("noise", false, |seed| noise(seed).take(4096).collect()),
        said("half a head", true, |_| vec![1; 5]),
        said("long headers that are announced only", true, |_| frame(16 << 20, 0)),
        said("long bodies that are announced only", true, |_| frame(16, 1 << 40)),
        said("headers of noise", false, |seed| {
            frame(1000, 0).into_iter().chain(noise(seed).take(1000)).collect()
        }),
        said("empty frames", false, |_| frame(0, 0).repeat(1000)),
        said("another protocol", true, |_| b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
    ]
}

fn to_scheduler(message: &ToScheduler) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_to_scheduler(message, &FrameLimits::of_scheduler(), &mut bytes).unwrap();
    bytes
}

/// A process that is one too many, or of another job.
fn registration(seed: usize, sizes: Sizes) -> ToScheduler {
    ToScheduler::Register(Register {
        role: if seed.is_multiple_of(2) { Role::Worker } else { Role::Server },
        rank: Some(InstanceRank::new(7)),
        incarnation: Incarnation::new(seed as u64 + 1),
        addresses: vec!["tcp://127.0.0.1:1".into()],
        host: "stranger".into(),
        sizes,
        known: None,
        passed: Vec::new(),
        waiting: Vec::new(),
    })
}

fn at_the_scheduler() -> Vec<Attack> {
    let mut attacks = without_sense();
    attacks.extend([
        said("registrations for ranks that there are not", true, |seed| {
            to_scheduler(&registration(seed, SIZES))
        }),
        said("registrations for another job", true, |seed| {
            let sizes = Sizes { workers: 5, servers: 5, group: 1 };
            to_scheduler(&registration(seed, sizes))
        }),
        said("heartbeats of nobody", true, |_| {
            let version = MembershipVersion::new(u64::MAX);
            to_scheduler(&ToScheduler::Heartbeat { version }).repeat(1000)
        }),
    ]);
    attacks
}

fn to_server(message: &ToServer<()>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_to_server(message, Body::Follows, &FrameLimits::default(), &mut bytes).unwrap();
    bytes
}

fn at_the_server() -> Vec<Attack> {
    let pull = || Request {
        number: RequestNumber::new(1),
        acknowledged: Vec::new(),
        pushes: Vec::new(),
        pulls: vec![Pull { key: Key::new(2), info: one_number() }],
        stamps: Stamps::default(),
    };
    let mut attacks = without_sense();
    attacks.extend([
        said("requests before the greeting", true, move |_| {
            to_server(&ToServer::Request(pull())).repeat(100)
        }),
        said("greetings of another run", true, |seed| {
            let hello = Hello {
                worker: WorkerRank::new(0),
                index: InstanceIndex::new(0),
                incarnation: Incarnation::new(seed as u64 + 1),
                version: MembershipVersion::new(1),
                server: Incarnation::new(seed as u64 + 2),
                attempt: 1,
                open: Vec::new(),
            };
            to_server(&ToServer::Hello(hello))
        }),
    ]);
    attacks
}

fn attacked(what: &str, attacks: Vec<Attack>, address: impl Fn(&Rounds) -> String) {
    let rounds = Rounds::start();
    let mut report = Report::of(what);
    for attack in chosen(attacks) {
        let victim = Victim {
            address: address(&rounds),
            process: None,
            longest: &mut || rounds.longest(),
            served: &mut || rounds.served_again(),
        };
        report.suffer(&attack, victim);
    }
    report.end();
    rounds.end();
}

#[test]
fn attacks_on_a_scheduler() {
    attacked("scheduler", at_the_scheduler(), |rounds| rounds.scheduler_at.clone());
}

#[test]
fn attacks_on_a_server_of_an_exchange() {
    attacked("exchange server", at_the_server(), |rounds| rounds.server_at.clone());
}
