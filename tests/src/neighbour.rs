//! A task that minds its own business beside whatever a test does, and notices when it is kept
//! waiting.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use rondo_proto::tf;

use crate::dispatcher::Dispatcher;

/// Pause between its calls.
const PAUSE: Duration = Duration::from_millis(5);
const INCARNATION: u64 = 71;

/// Task 0 of a job of dialect T, on a connection of its own: it sends heartbeats, and counts. Or somebody who
/// repeats one call.
#[derive(Debug)]
pub struct Neighbour {
    leave: Arc<AtomicBool>,
    longest_us: Arc<AtomicU64>,
    living: Option<JoinHandle<()>>,
}

impl Neighbour {
    /// Registers with the server at this address, whose job has one task.
    ///
    /// # Panics
    /// When it is refused.
    pub fn beside(address: &str) -> Self {
        Self::start(address, true)
    }

    /// The same, but it only sends heartbeats: a server at its bound of memory refuses what it would count.
    ///
    /// # Panics
    /// When it is refused.
    pub fn that_beats(address: &str) -> Self {
        Self::start(address, false)
    }

    /// Somebody who belongs to no job: it calls the method at `path`, with an empty message, and must be
    /// answered each time.
    pub fn that_asks(address: &str, path: &'static str) -> Self {
        let address = address.to_owned();
        Self::living(move |leave, longest_us| {
            let connection = Dispatcher::connect(&address);
            while !leave.load(Ordering::SeqCst) {
                let answer = timed(longest_us, || connection.bytes(path, Bytes::new()));
                answer.unwrap_or_else(|status| panic!("{path}: {status}"));
                thread::sleep(PAUSE);
            }
        })
    }

    fn start(address: &str, counts: bool) -> Self {
        let (registered, there) = mpsc::channel();
        let address = address.to_owned();
        let this = Self::living(move |leave, longest_us| {
            let connection = Dispatcher::connect(&address);
            let life = register(&connection);
            registered.send(()).expect("somebody waits");
            live(&connection, (life, counts), leave, longest_us);
        });
        there.recv().expect("it is registered");
        this
    }

    /// Lives so, on a thread of its own, until it is told to leave.
    fn living(lives: impl FnOnce(&AtomicBool, &AtomicU64) + Send + 'static) -> Self {
        let (leave, longest_us) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let shared = (Arc::clone(&leave), Arc::clone(&longest_us));
        let living = thread::spawn(move || lives(&shared.0, &shared.1));
        Self { leave, longest_us, living: Some(living) }
    }

    /// The longest that a heartbeat, or the call that it repeats, took since this was asked last.
    ///
    /// # Panics
    /// When it has been refused anything, or counted wrong.
    pub fn longest_beat(&mut self) -> Duration {
        let living = self.living.as_ref().expect("it lives until it is dropped");
        assert!(!living.is_finished(), "it was refused, or counted wrong");
        Duration::from_micros(self.longest_us.swap(0, Ordering::SeqCst))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.leave.store(true, Ordering::SeqCst);
        let ended = self.living.take().map(JoinHandle::join);
        if !thread::panicking() {
            assert!(!matches!(ended, Some(Err(_))), "it was refused, or counted wrong");
        }
    }
}

fn register(connection: &Dispatcher) -> u64 {
    let request = tf::RegisterTaskRequest { incarnation: INCARNATION, source_task: Some(task()) };
    let answer: tf::RegisterTaskResponse = call(connection, "RegisterTask", &request);
    answer.leader_incarnation
}

fn live(
    connection: &Dispatcher,
    (life, counts): (u64, bool),
    leave: &AtomicBool,
    longest_us: &AtomicU64,
) {
    let beat = tf::HeartbeatRequest { incarnation: INCARNATION, source_task: Some(task()) };
    let more = tf::IncrementKeyValueRequest { key: "neighbour".into(), increment: 1 };
    let mut count: Option<u64> = None;
    while !leave.load(Ordering::SeqCst) {
        let answer: tf::HeartbeatResponse =
            timed(longest_us, || call(connection, "Heartbeat", &beat));
        assert_eq!(answer.leader_incarnation, life);
        thread::sleep(PAUSE);
        if !counts {
            continue;
        }
        let sum: tf::IncrementKeyValueResponse = call(connection, "IncrementKeyValue", &more);
        let sum = sum.kv.map(|kv| String::from_utf8_lossy(&kv.value).parse());
        let sum: u64 = sum.expect("a value").expect("a number");
        assert!(count.is_none_or(|count| sum == count.saturating_add(1)), "{sum} after {count:?}");
        count = Some(sum);
    }
}

/// Makes a call, and notes how long it took if none took longer.
fn timed<R>(longest_us: &AtomicU64, call: impl FnOnce() -> R) -> R {
    let began = Instant::now();
    let answer = call();
    let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    longest_us.fetch_max(took, Ordering::SeqCst);
    answer
}

fn task() -> tf::CoordinatedTask {
    tf::CoordinatedTask { job_name: "jax_worker".into(), task_id: 0, recoverable: false }
}

fn call<Q: Message, R: Message + Default>(connection: &Dispatcher, method: &str, request: &Q) -> R {
    let path = format!("/tensorflow.CoordinationService/{method}");
    connection.method(&path, request).unwrap_or_else(|status| panic!("{method}: {status}"))
}
