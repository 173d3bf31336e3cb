//! Steps a second of the coordination service's machine alone, on one core.
//!
//! The world is one job of 256 tasks.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench stops at the first surprise"
)]

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rondo_core::control::{
    Config, Durability, Effects, Input, Node, Recovered, Request as NodeRequest,
};
use rondo_core::coordination::{
    self, Call, Caller, Condition, DEFAULT_NAMESPACE, Dialect, Method, NamespaceConfig, Request,
    TaskName, Value,
};
use rondo_core::ids::{CallId, Incarnation, TaskIndex};
use rondo_core::time::Time;

const TASKS: i32 = 256;
const KEYS: usize = 1024;

/// A node, all of whose tasks have registered.
struct World {
    node: Node,
    effects: Effects,
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
        let mut world = Self { node, effects: Effects::new(), calls: 0 };
        for task in 0..TASKS {
            world.step(register(task));
        }
        world.sync();
        world
    }

    /// Steps one request and drops its effects, as a driver does that has carried them out.
    fn step(&mut self, request: Request) {
        self.calls += 1;
        let input = Input::Request {
            call: CallId::new(self.calls),
            request: NodeRequest::Coordination(request),
            entropy: self.calls,
        };
        self.node.step(Time::from_nanos(2), input, &mut self.effects);
        self.carry_out();
    }

    /// Makes everything durable that was recorded.
    fn sync(&mut self) {
        let upto = self.node.last();
        self.node.step(Time::from_nanos(2), Input::Synced { upto }, &mut self.effects);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        for effect in self.effects.drain() {
            black_box(effect);
        }
    }
}

/// All tasks' coming to the barrier of this number, to which nobody came before.
fn barrier(number: u64) -> Vec<Request> {
    let id: Arc<str> = format!("epoch/{number}").into();
    let come = |task| Method::Barrier {
        id: id.clone(),
        counter: 0,
        timeout_ms: 60_000,
        tasks: Vec::new(),
        source: TaskName::of(task),
    };
    (0..TASKS).map(|task| by(task, come(task))).collect()
}

fn by(task: i32, method: Method) -> Request {
    let caller = Caller {
        dialect: Dialect::T,
        task: Some(TaskIndex::new(task)),
        peer: Some("10.0.0.1:40000".into()),
        ..Caller::default()
    };
    Request::Call(Box::new(Call { namespace: DEFAULT_NAMESPACE.into(), caller, method }))
}

fn register(index: i32) -> Request {
    let (task, incarnation) = (TaskName::of(index), Incarnation::new(7));
    by(index, Method::RegisterTask { task, incarnation, recoverable: false, tasks: None })
}

fn heartbeats() -> Vec<Request> {
    let beat = |index| {
        let (task, incarnation) = (TaskName::of(index), Incarnation::new(7));
        by(index, Method::Heartbeat { task, incarnation })
    };
    (0..TASKS).map(beat).collect()
}

fn of_keys(method: impl Fn(String) -> Method) -> Vec<Request> {
    (0..KEYS).map(|number| by(0, method(format!("job/key/{number}")))).collect()
}

fn insert(key: String) -> Method {
    let value = Value::Inline(Bytes::from_static(&[b'v'; 100]));
    Method::PutKeyValue { key, value, condition: Condition::Always, lease: None }
}

fn bench_requests(criterion: &mut Criterion, name: &str, world: &mut World, requests: &[Request]) {
    let mut group = criterion.benchmark_group("coordination");
    group.throughput(Throughput::Elements(requests.len() as u64));
    group.bench_function(name, |bencher| {
        bencher.iter_batched(
            || requests.to_vec(),
            |requests| {
                requests.into_iter().for_each(|request| world.step(request));
                world.sync();
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn single_calls(criterion: &mut Criterion) {
    let mut world = World::new();
    bench_requests(criterion, "heartbeat", &mut world, &heartbeats());
    bench_requests(criterion, "insert, held until synced", &mut world, &of_keys(insert));
    let try_get = of_keys(|key| Method::TryGetKeyValue { key });
    bench_requests(criterion, "try-get", &mut world, &try_get);
    let get = of_keys(|key| Method::GetKeyValue { key });
    bench_requests(criterion, "get", &mut world, &get);
}

fn barriers(criterion: &mut Criterion) {
    let mut world = World::new();
    let mut group = criterion.benchmark_group("coordination");
    group.throughput(Throughput::Elements(1));
    let mut numbers = 0..;
    group.bench_function("barrier of 256 tasks, held until synced", |bencher| {
        bencher.iter_batched(
            || barrier(numbers.next().unwrap_or_default()),
            |coming| {
                coming.into_iter().for_each(|request| world.step(request));
                world.sync();
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, single_calls, barriers);
criterion_main!(benches);
