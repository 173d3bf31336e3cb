//! One stranger at full speed after another, beside a neighbour who sends heartbeats: the neighbour goes on,
//! memory stays below its bound, nothing that was acknowledged is lost, and afterwards all is well.
//!
//! Each attack takes a moment here. `RONDO_ATTACK_SECONDS=10 cargo test --release --workspace --test hostile
//! -- attacks --nocapture` is the long form, which prints a table.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo_proto::convert::{RendezvousMethod, decode_worker_devices};
use rondo_tests::dispatcher::Dispatcher;
use rondo_tests::neighbour::Neighbour;
use rondo_tests::server::{Options, Server};

use super::{families, keys};

/// Memory that the server may have, in MiB.
const BOUND_MIB: u64 = 512;
/// Strangers of one attack that work at a time.
const STRANGERS: usize = 4;

/// What an attack is carried out against.
pub(crate) struct Ground {
    /// The server's address.
    pub(crate) address: String,
    /// Bytes that the server said to strangers.
    pub(crate) heard: Arc<AtomicU64>,
    until: Instant,
}

impl Ground {
    /// Whether the attack goes on.
    pub(crate) fn goes_on(&self) -> bool {
        Instant::now() < self.until
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

/// How long each attack lasts.
fn lasting() -> Duration {
    let said = std::env::var("RONDO_ATTACK_SECONDS").ok();
    said.map_or(Duration::from_millis(300), |text| {
        Duration::from_secs_f64(text.parse().expect("RONDO_ATTACK_SECONDS is a number of seconds"))
    })
}

/// The longest that a heartbeat may take. The short form runs in a debug build, beside other tests; the long
/// one is for a quiet machine and a release build.
fn beat_max() -> Duration {
    match std::env::var_os("RONDO_ATTACK_SECONDS") {
        Some(_) => Duration::from_millis(100),
        None => Duration::from_secs(5),
    }
}

/// How soon the server is at its best again.
fn recovery_max() -> Duration {
    match std::env::var_os("RONDO_ATTACK_SECONDS") {
        Some(_) => Duration::from_secs(1),
        None => Duration::from_secs(10),
    }
}

struct Field {
    // Before the server that it talks to.
    neighbour: Neighbour,
    witness: Witness,
    server: Server,
    incarnation: u64,
    table: String,
    failures: Vec<String>,
}

impl Field {
    fn start(store: &'static str) -> Self {
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
        let asked = RendezvousMethod::GetStatus.path();
        let devices = server.dispatcher().bytes(asked, Bytes::new()).unwrap();
        let incarnation = decode_worker_devices(&devices).unwrap().remove(0).incarnation;
        let mut table = String::new();
        writeln!(table, "| attack ({store}) | longest heartbeat | memory | served again after |")
            .unwrap();
        writeln!(table, "|---|---|---|---|").unwrap();
        Self { neighbour, witness, server, incarnation, table, failures: Vec::new() }
    }

    /// Carries out an attack, and takes down what it did.
    fn suffer(&mut self, attack: &Attack) {
        let dispatcher = self.server.dispatcher();
        let kept = served(&dispatcher, &format!("kept/{}", attack.name), Duration::ZERO);
        if kept > recovery_max() {
            self.failures.push(format!("before {}: no key was taken for {kept:.1?}", attack.name));
        }
        self.server.forget_peak();
        self.neighbour.longest_beat();
        let ground = Ground {
            address: self.server.address(),
            heard: Arc::default(),
            until: Instant::now() + lasting(),
        };
        thread::scope(|scope| {
            for stranger in 0..STRANGERS {
                let ground = &ground;
                scope.spawn(move || (attack.stranger)(ground, stranger));
            }
        });
        let over = Instant::now();
        let again = self.serves_again(&dispatcher, over);
        // Also of the one that was under way at the end.
        let beat = self.neighbour.longest_beat();
        let peak = self.server.peak_kib() / 1024;
        writeln!(self.table, "| {} | {beat:.1?} | {peak} MiB | {again:.1?} |", attack.name)
            .unwrap();
        if attack.is_answered && ground.heard.load(Ordering::SeqCst) == 0 {
            self.failures.push(format!("{}: the server said nothing to it", attack.name));
        }
        if beat > beat_max() {
            self.failures.push(format!("{}: a heartbeat took {beat:.1?}", attack.name));
        }
        if peak > BOUND_MIB + BOUND_MIB / 4 {
            self.failures.push(format!("{}: {peak} MiB", attack.name));
        }
        if again > recovery_max() {
            self.failures.push(format!("{}: served again after {again:.1?}", attack.name));
        }
    }

    /// How long after the end of an attack a client gets what it asks for at once.
    fn serves_again(&self, dispatcher: &Dispatcher, over: Instant) -> Duration {
        // An operator deletes what a stranger left.
        for key in families::KEYS {
            keys::delete(dispatcher, key).unwrap();
        }
        let before = over.elapsed();
        before + served(dispatcher, "served again", Duration::from_millis(100))
    }

    /// Asserts that nothing is lost, whatever the strangers did, also when the server is killed.
    fn end(mut self, attacks: &[Attack]) {
        println!("{}", self.table);
        assert!(self.failures.is_empty(), "{:#?}\n{}", self.failures, self.table);
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
    }
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

fn attacked(store: &'static str) {
    let mut field = Field::start(store);
    let attacks = families::all(field.incarnation);
    assert!(attacks.len() >= 30, "{}", attacks.len());
    let chosen = std::env::var("RONDO_ATTACK").unwrap_or_default();
    let attacks: Vec<_> =
        attacks.into_iter().filter(|attack| attack.name.contains(&chosen)).collect();
    for attack in &attacks {
        field.suffer(attack);
    }
    field.end(&attacks);
}

#[test]
fn attacks_on_a_server_with_plain_files() {
    attacked("segment");
}

#[test]
fn attacks_on_a_server_with_sled() {
    attacked("sled");
}
