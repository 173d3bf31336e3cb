//! One stranger at full speed after another, beside a neighbour who sends heartbeats: the neighbour goes on,
//! memory stays below its bound, nothing that was acknowledged is lost, and afterwards all is well.
//!
//! Each attack takes a moment here. `RONDO_ATTACK_SECONDS=10 cargo test --release --workspace --test hostile
//! -- attacks --nocapture --test-threads=1` is the long form, which prints a table. There each attack has a
//! server of its own, and the strangers' threads have the lowest priority: they take no processor time that
//! the server or the neighbour needs, as if the strangers had machines of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::neighbour::Neighbour;
use rondo_tests::process::Process;
use rondo_tests::server::{Options, Server};

use super::rendezvous::Sender;
use super::{families, keys};

/// Memory that the server may have, in MiB.
const BOUND_MIB: u64 = 512;
/// Strangers of one attack that work at a time.
const STRANGERS: usize = 4;
/// How much longer strangers wait for the first answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// The lowest priority of a thread, as `nice` counts.
const LOWEST_PRIORITY: i32 = 19;

/// What an attack is carried out against.
pub(crate) struct Ground {
    /// Where the victim listens.
    pub(crate) address: String,
    /// Bytes that the victim said to strangers.
    pub(crate) heard: Arc<AtomicU64>,
    until: Instant,
    /// When the attack ends although the victim has said nothing.
    until_at_last: Instant,
}

impl Ground {
    /// A place for an attack that begins now.
    pub(crate) fn new(address: &str, attack: &Attack) -> Self {
        let until = Instant::now() + lasting();
        let patience = if attack.is_answered { ANSWER_PATIENCE } else { Duration::ZERO };
        let until_at_last = until + patience;
        Self { address: address.to_owned(), heard: Arc::default(), until, until_at_last }
    }

    /// Whether the attack goes on. One that the victim answers lasts until it has: on a slow machine
    /// strangers may have few turns.
    pub(crate) fn goes_on(&self) -> bool {
        let now = Instant::now();
        now < self.until || now < self.until_at_last && self.heard.load(Ordering::SeqCst) == 0
    }
}

/// What a stranger of this number does until the attack is over.
type Stranger = dyn Fn(&Ground, usize) + Sync;

/// An attack: its name, and what each of its strangers does.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) stranger: Box<Stranger>,
    /// The server answers each of its strangers something, if only that it refuses what they do.
    pub(crate) is_answered: bool,
}

/// Somebody who puts keys all the time, and remembers which the server has acknowledged.
struct Witness {
    leave: Arc<AtomicBool>,
    putting: JoinHandle<Vec<u64>>,
}

impl Witness {
    fn beside(address: &str) -> Self {
        let (leave, address) = (Arc::<AtomicBool>::default(), address.to_owned());
        let left = Arc::clone(&leave);
        let putting = thread::spawn(move || {
            let dispatcher = Dispatcher::connect(&address);
            let mut acknowledged = Vec::new();
            for number in 0.. {
                if left.load(Ordering::SeqCst) {
                    break;
                }
                // It may be refused, for want of memory say.
                if put(&dispatcher, &format!("witness/{number}")).is_ok() {
                    acknowledged.push(number);
                }
                thread::sleep(Duration::from_millis(20));
            }
            acknowledged
        });
        Self { leave, putting }
    }

    /// Which keys were acknowledged.
    fn ended(self) -> Vec<u64> {
        self.leave.store(true, Ordering::SeqCst);
        self.putting.join().unwrap()
    }
}

/// Whether the attacks last longer than in CI, and have stricter bounds.
fn is_long_form() -> bool {
    std::env::var_os("RONDO_ATTACK_SECONDS").is_some()
}

/// How long each attack lasts.
fn lasting() -> Duration {
    let said = std::env::var("RONDO_ATTACK_SECONDS").ok();
    said.map_or(Duration::from_millis(300), |text| {
        Duration::from_secs_f64(text.parse().expect("RONDO_ATTACK_SECONDS is a number of seconds"))
    })
}

/// The longest that a call of the neighbour may take. The short form runs in a debug build, beside other
/// tests; the long one is for a quiet machine and a release build.
fn beat_max() -> Duration {
    match is_long_form() {
        true => Duration::from_millis(100),
        false => Duration::from_secs(5),
    }
}

/// How soon the server is at its best again.
fn recovery_max() -> Duration {
    match is_long_form() {
        true => Duration::from_secs(1),
        false => Duration::from_secs(10),
    }
}

/// A process that strangers attack.
pub(crate) struct Victim<'a> {
    /// Where strangers reach it.
    pub(crate) address: String,
    /// The process whose memory counts; `None` where other tests run in it.
    pub(crate) process: Option<&'a Process>,
    /// The longest that a call of the neighbour took since this was asked last.
    pub(crate) longest: &'a mut dyn FnMut() -> Duration,
    /// Waits until it serves as before. Returns how long it did not.
    pub(crate) served: &'a mut dyn FnMut() -> Duration,
}

/// The effects of attacks. It prints a row for each at once, so a run that hangs shows where.
pub(crate) struct Report {
    failures: Vec<String>,
}

impl Report {
    pub(crate) fn of(what: &str) -> Self {
        println!("| attack ({what}) | longest call | memory | served again after |");
        println!("|---|---|---|---|");
        Self { failures: Vec::new() }
    }

    /// Carries out an attack, and takes down what it did.
    pub(crate) fn suffer(&mut self, attack: &Attack, victim: Victim<'_>) {
        let Victim { address, process, longest, served } = victim;
        process.iter().for_each(|process| process.forget_peak());
        longest();
        let heard = carry_out(attack, &address);
        let again = served();
        // Also of the one that was under way at the end.
        let (call, name) = (longest(), attack.name);
        let peak = process.map(|process| process.peak_kib() / 1024);
        let memory = peak.map_or_else(String::new, |peak| format!("{peak} MiB"));
        println!("| {name} | {call:.1?} | {memory} | {again:.1?} |");
        if attack.is_answered && heard == 0 {
            self.failures.push(format!("{name}: it was told nothing"));
        }
        if call > beat_max() {
            self.failures.push(format!("{name}: a call took {call:.1?}"));
        }
        if peak.is_some_and(|peak| peak > BOUND_MIB + BOUND_MIB / 4) {
            self.failures.push(format!("{name}: {memory}"));
        }
        if again > recovery_max() {
            self.failures.push(format!("{name}: served again after {again:.1?}"));
        }
    }

    pub(crate) fn end(self) {
        assert!(self.failures.is_empty(), "{:#?}", self.failures);
    }
}

/// Lets all strangers of an attack do their work. Returns how many bytes they were told.
fn carry_out(attack: &Attack, address: &str) -> u64 {
    let ground = Ground::new(address, attack);
    thread::scope(|scope| {
        for stranger in 0..STRANGERS {
            let ground = &ground;
            scope.spawn(move || {
                if is_long_form() {
                    // The threads that this one starts have it, too.
                    rustix::process::setpriority_process(None, LOWEST_PRIORITY).unwrap();
                }
                (attack.stranger)(ground, stranger);
            });
        }
    });
    ground.heard.load(Ordering::SeqCst)
}

/// A server with a neighbour and a witness.
struct Field {
    // Before the server that it talks to.
    neighbour: Neighbour,
    witness: Witness,
    server: Server,
    sender: Sender,
    report: Report,
}

impl Field {
    fn start(store: &'static str, report: Report) -> Self {
        let bound = format!("--memory-max={BOUND_MIB}MiB");
        let options = Options::store(store)
            .flag("--tasks=1")
            .flag("--rendezvous")
            .flag("--inflight-size-max=128MiB")
            .flag("--message-size-max=32MiB")
            .flag(&bound);
        let server = Server::start(&options);
        let neighbour = Neighbour::that_beats(&server.address());
        let witness = Witness::beside(&server.address());
        let sender = Sender::to(&server.dispatcher());
        Self { neighbour, witness, server, sender, report }
    }

    fn suffer(&mut self, attack: &Attack) {
        let dispatcher = self.server.dispatcher();
        let kept = served(&dispatcher, &format!("kept/{}", attack.name), Duration::ZERO);
        if kept > recovery_max() {
            let failure = format!("before {}: no key was taken for {kept:.1?}", attack.name);
            self.report.failures.push(failure);
        }
        let victim = Victim {
            address: self.server.address(),
            process: Some(self.server.process()),
            longest: &mut || self.neighbour.longest_beat(),
            served: &mut || served_again(&dispatcher),
        };
        self.report.suffer(attack, victim);
    }

    /// Asserts that nothing is lost, whatever the strangers did, also when the server is killed.
    fn end(mut self, attacks: &[Attack]) -> Report {
        self.neighbour.longest_beat();
        drop(self.neighbour);
        let witnessed = self.witness.ended();
        assert!(witnessed.len() > 2 * attacks.len(), "{} keys only", witnessed.len());
        self.server.kill();
        self.server.start_again();
        let dispatcher = self.server.dispatcher();
        let kept = attacks.iter().map(|attack| format!("kept/{}", attack.name));
        let kept = kept.chain(witnessed.iter().map(|number| format!("witness/{number}")));
        for key in kept {
            assert_eq!(keys::find(&dispatcher, &key).unwrap(), b"kept"[..], "{key}");
        }
        self.report
    }
}

/// How long after the end of an attack a client gets what it asks for at once.
pub(crate) fn served_again(dispatcher: &Dispatcher) -> Duration {
    let over = Instant::now();
    // An operator deletes what a stranger left.
    for key in families::KEYS {
        while keys::delete(dispatcher, key).is_err() && over.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(5));
        }
    }
    let before = over.elapsed();
    // A stranger may have ended what the client used.
    before + served(dispatcher, "served again", Duration::from_millis(100))
}

/// Puts a key until the server has taken it at once for so long. Returns how long it did not, 60 s at most.
///
/// The server looks at its memory several times in 100 ms. So it may take a key, and refuse the next one.
fn served(dispatcher: &Dispatcher, key: &str, lasting: Duration) -> Duration {
    let began = Instant::now();
    let mut since = None;
    loop {
        let asked = Instant::now();
        let is_served = put(dispatcher, key).is_ok() && asked.elapsed() < beat_max();
        since = since.filter(|_| is_served).or(is_served.then_some(asked));
        if let Some(since) = since.filter(|since| since.elapsed() >= lasting) {
            return since - began;
        }
        if began.elapsed() > Duration::from_secs(60) {
            return began.elapsed();
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn put(dispatcher: &Dispatcher, key: &str) -> Result<(), tonic::Status> {
    keys::put(dispatcher, key, &b"kept"[..])
}

/// Those of the attacks that `RONDO_ATTACK` names, or all.
pub(crate) fn chosen(attacks: Vec<Attack>) -> Vec<Attack> {
    let chosen = std::env::var("RONDO_ATTACK").unwrap_or_default();
    attacks.into_iter().filter(|attack| attack.name.contains(&chosen)).collect()
}

fn attacked(store: &'static str) {
    let report = match is_long_form() {
        true => attacked_one_by_one(store),
        false => attacked_by_all(store),
    };
    report.end();
}

/// One server suffers all attacks.
fn attacked_by_all(store: &'static str) -> Report {
    let mut field = Field::start(store, Report::of(store));
    let attacks = families::all(field.sender);
    assert!(attacks.len() >= 30, "{}", attacks.len());
    let attacks = chosen(attacks);
    for attack in &attacks {
        field.suffer(attack);
    }
    field.end(&attacks)
}

/// Each attack has a server of its own: no stranger meets what another one left.
fn attacked_one_by_one(store: &'static str) -> Report {
    let (mut report, mut number) = (Report::of(store), 0);
    loop {
        let mut field = Field::start(store, report);
        // They send to the device of this server.
        let mut attacks = chosen(families::all(field.sender)).into_iter();
        let Some(attack) = attacks.nth(number) else { return field.report };
        field.suffer(&attack);
        report = field.end(&[attack]);
        number += 1;
    }
}

#[test]
fn attacks_on_a_server_with_plain_files() {
    attacked("segment");
}

#[test]
fn attacks_on_a_server_with_sled() {
    attacked("sled");
}
