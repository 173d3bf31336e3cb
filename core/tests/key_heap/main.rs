//! Heap that the coordination service's machine needs for a key.
//!
//! The tests count what the program allocates, so they stand in a program of their own and run one after
//! the other.

#![allow(
    missing_docs,
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that counts what is allocated"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use rondo_core::control::{
    Config, Durability, Effects, Input, Node, Part, Recovered, Recovery, Request,
};
use rondo_core::coordination::{
    self, Call, Caller, Condition, DEFAULT_NAMESPACE, Method, NamespaceConfig, TaskName, Value,
};
use rondo_core::ids::{CallId, Incarnation};
use rondo_core::time::Time;

const KEYS: usize = 100_000;
const VALUE_BYTES: usize = 100;
/// A request in memory: what a connection reads at once may hold several.
const REQUEST_BYTES: usize = 4096;
/// Bytes for a key of 7 bytes with a value of 100, in the allocator's pieces. The bytes themselves take 160
/// with their counters; the rest is their place in the tree, which is half full where keys come in order.
const BYTES_PER_KEY_MAX: usize = 285;

/// The system's allocator, which counts what is in use.
struct Counting;

static IN_USE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The counter is the program's, so one test counts at a time.
static COUNTS: Mutex<()> = Mutex::new(());

/// The bytes that glibc takes from its pool for an allocation: 8 more, in steps of 16, at least 32.
fn taken(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE_BYTES.fetch_add(taken(layout), Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE_BYTES.fetch_sub(taken(layout), Ordering::Relaxed);
        // SAFETY: the caller keeps `dealloc`'s promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn in_use() -> usize {
    IN_USE_BYTES.load(Ordering::Relaxed)
}

#[track_caller]
fn assert_small(before: usize) {
    let bytes = in_use().saturating_sub(before) / KEYS;
    assert!(bytes <= BYTES_PER_KEY_MAX, "{bytes} B per key, at most {BYTES_PER_KEY_MAX}");
    assert!(bytes >= VALUE_BYTES, "{bytes} B per key: nothing was counted");
}

/// A node of a job of one task, and what drives it.
struct World {
    node: Node,
    calls: u64,
}

impl World {
    fn new() -> Self {
        let namespace =
            NamespaceConfig { tasks: Some(1), ..NamespaceConfig::named(DEFAULT_NAMESPACE) };
        let coordination = coordination::Config { namespaces: vec![namespace] };
        let config = Config { coordination, ..Config::default() };
        let now = Time::from_nanos(1);
        let node = Node::start(Durability::Journal, config, Recovered::default(), now);
        let mut world = Self { node, calls: 0 };
        let (task, incarnation) = (TaskName::of(0), Incarnation::new(7));
        world.ask(Method::RegisterTask { task, incarnation, recoverable: false, tasks: None });
        world
    }

    fn ask(&mut self, method: Method) {
        self.calls += 1;
        let call = Call { namespace: DEFAULT_NAMESPACE.into(), caller: Caller::default(), method };
        self.input(Input::Request {
            call: CallId::new(self.calls),
            request: Request::Coordination(coordination::Request::Call(Box::new(call))),
            entropy: self.calls,
        });
        let upto = self.node.last();
        self.input(Input::Synced { upto });
    }

    fn input(&mut self, input: Input) {
        self.node.step(Time::from_nanos(2), input, &mut Effects::new());
    }

    /// Puts a key with a value that is a part of a request, as the driver hands it over.
    fn put(&mut self, number: usize) {
        let request = Bytes::from(vec![b'v'; REQUEST_BYTES]);
        let value = Value::Inline(request.slice(..VALUE_BYTES));
        let key = format!("k{number:06}");
        self.ask(Method::PutKeyValue { key, value, condition: Condition::Always, lease: None });
    }
}

#[test]
fn a_key_takes_little_memory_in_whatever_order_keys_come() {
    let _counts = COUNTS.lock();
    for order in [|number| number, |number| KEYS - number, |number| number * 7_919 % KEYS] {
        let before = in_use();
        let mut world = World::new();
        (0..KEYS).for_each(|number| world.put(order(number)));
        assert_small(before);
    }
}

#[test]
fn a_key_that_is_put_again_takes_no_more() {
    let _counts = COUNTS.lock();
    let before = in_use();
    let mut world = World::new();
    (0..2 * KEYS).for_each(|number| world.put(number % KEYS));
    assert_small(before);
}

/// Parts are decoded from the pieces in which a snapshot is read.
#[test]
fn a_key_from_a_snapshot_takes_no_more() {
    let _counts = COUNTS.lock();
    let mut world = World::new();
    (0..KEYS).for_each(|number| world.put(number));
    let coordination = world.node.coordination().state().clone();
    drop(world);
    let recovered = Recovered { coordination, ..Recovered::default() };
    let recovery = Recovery::resuming(recovered);
    let before = in_use();
    let mut restored = Recovery::new();
    for part in recovery.each_part() {
        restored.restore(in_a_piece(part)).unwrap();
    }
    assert_small(before);
    assert_eq!(restored, recovery);
}

/// The part as if it had been decoded in place from a piece of a file.
fn in_a_piece(part: Part) -> Part {
    use coordination::Part::Key;
    let Part::Coordination(Key(namespace, mut entry)) = part else { return part };
    let Value::Inline(bytes) = &entry.value else {
        return Part::Coordination(Key(namespace, entry));
    };
    let mut piece = bytes.to_vec();
    piece.resize(REQUEST_BYTES, 0);
    entry.value = Value::Inline(Bytes::from(piece).slice(..bytes.len()));
    Part::Coordination(Key(namespace, entry))
}
