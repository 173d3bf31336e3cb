//! Heap that the coordination service's machine needs for each connected task: one that has
//! registered, waits for errors and for the key of a preemption notice, and sends heartbeats.
//!
//! Prints bytes per task.

#![allow(
    missing_docs,
    clippy::print_stdout,
    unsafe_code,
    reason = "a bench that counts what is allocated"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use rondo_core::control::{Config, Durability, Effects, Input, Node, Recovered, Request};
use rondo_core::coordination::{
    self, Call, Caller, DEFAULT_NAMESPACE, Dialect, Method, NamespaceConfig, TaskName,
};
use rondo_core::ids::{CallId, Incarnation, TaskIndex};
use rondo_core::time::Time;

const TASKS: i32 = 10_000;

/// The system's allocator, which counts what is in use.
struct Counting;

static IN_USE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `dealloc`'s promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A node and what drives it.
struct World {
    node: Node,
    calls: u64,
}

impl World {
    fn new() -> Self {
        let tasks = u32::try_from(TASKS).ok();
        let namespace = NamespaceConfig { tasks, ..NamespaceConfig::named(DEFAULT_NAMESPACE) };
        let coordination = coordination::Config { namespaces: vec![namespace] };
        let config = Config { coordination, ..Config::default() };
        let now = Time::from_nanos(1);
        let node = Node::start(Durability::Journal, config, Recovered::default(), now);
        Self { node, calls: 0 }
    }

    fn step(&mut self, task: i32, method: Method) {
        self.calls += 1;
        let caller = Caller {
            dialect: Dialect::T,
            task: Some(TaskIndex::new(task)),
            peer: Some(format!("10.0.{}.{}:40000", task >> 8, task & 255).into()),
            ..Caller::default()
        };
        let call = Call { namespace: DEFAULT_NAMESPACE.into(), caller, method };
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
}

fn main() {
    let mut world = World::new();
    let before = IN_USE_BYTES.load(Ordering::Relaxed);
    let incarnation = Incarnation::new(7);
    for index in 0..TASKS {
        let task = TaskName::of(index);
        let register = Method::RegisterTask { task, incarnation, recoverable: false, tasks: None };
        world.step(index, register);
    }
    let registered = IN_USE_BYTES.load(Ordering::Relaxed);
    for index in 0..TASKS {
        let task = TaskName::of(index);
        world.step(index, Method::PollForError { task: task.clone() });
        world.step(index, Method::GetKeyValue { key: "RECEIVED_PREEMPTION_NOTICE".into() });
        world.step(index, Method::Heartbeat { task, incarnation });
    }
    let waiting = IN_USE_BYTES.load(Ordering::Relaxed);
    let each = |from: usize, to: usize| to.saturating_sub(from) / TASKS.unsigned_abs() as usize;
    println!("registered: {} B of heap per task", each(before, registered));
    println!("and waiting for errors and a key: {} B", each(before, waiting));
}
