//! Pairs of a send and a receive that meet a second, of the rendezvous' machine alone, on one core.
//!
//! The worker has 1,000 steps, in each of which somebody waits for a tensor that never comes.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench stops at the first surprise"
)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rondo_core::ids::{CallId, StepId};
use rondo_core::rendezvous::{
    Args, Config, Effect, FrameAndIter, Input, Key, Rendezvous, Session, Value,
};
use rondo_core::time::Time;

const HERE: &str = "/job:worker/replica:0/task:1";
const STEPS: i64 = 1_000;
/// Keys of each step.
const EDGES: usize = 16;

type Tensor = Arc<[u8]>;

struct World {
    machine: Rendezvous<Tensor>,
    calls: u64,
    effects: Vec<Effect<Tensor>>,
    tensor: Tensor,
}

impl World {
    fn new() -> Self {
        let session = Some(Session { worker_name: HERE.into() });
        let machine = Rendezvous::start(Config { session, ..Config::default() });
        let (effects, tensor) = (Vec::new(), vec![7; 64].into());
        let mut world =
            Self { machine: machine.expect("it is a worker"), calls: 0, effects, tensor };
        let never = key(HERE, "never");
        (0..STEPS).for_each(|step| world.recv(StepId::new(step), never.clone()));
        world
    }

    fn recv(&mut self, step: StepId, key: Key) {
        self.calls += 1;
        let call = CallId::new(self.calls);
        self.step(Input::Recv { call, step, key, args: Args::default(), timeout: None });
    }

    fn send(&mut self, step: StepId, key: Key) {
        self.calls += 1;
        let value = Value { tensor: self.tensor.clone(), bytes: 64, is_dead: false };
        let (call, args) = (CallId::new(self.calls), Args::default());
        self.step(Input::Send { call, step, key, args, value, waits: false });
    }

    /// Steps, and drops the effects as a driver does that has carried them out.
    fn step(&mut self, input: Input<Tensor>) {
        self.machine.step(Time::from_nanos(1), input, &mut self.effects);
        self.effects.drain(..).for_each(|effect| drop(black_box(effect)));
    }
}

fn text(edge: &str) -> String {
    key(HERE, edge).text().to_owned()
}

fn key(destination: &str, edge: &str) -> Key {
    let cpu = |worker: &str| format!("{worker}/device:CPU:0");
    let (from, to) = (cpu(HERE), cpu(destination));
    Key::create(&from, 0x00c0_ffee_1234_5678, &to, edge, FrameAndIter::default()).expect("a key")
}

fn edge(nth: usize) -> String {
    format!("edge_{nth}_gradients/layer_{nth}/kernel")
}

/// Which step and which key come next: those of one pair are far from those of the next one.
fn order() -> Vec<(StepId, usize)> {
    let steps = usize::try_from(STEPS).unwrap_or_default();
    let of = |nth: usize| {
        let step = i64::try_from(nth * 617 % steps).unwrap_or_default();
        (StepId::new(step), nth * 7 % EDGES)
    };
    (0..steps * EDGES).map(of).collect()
}

fn parsed(criterion: &mut Criterion) {
    let mut world = World::new();
    let keys: Vec<(Key, Key)> =
        (0..EDGES).map(|nth| (key(HERE, &edge(nth)), key(HERE, &edge(nth)))).collect();
    let order = order();
    let pairs = || -> Vec<(StepId, Key, Key)> {
        let pair = |(step, nth): &(StepId, usize)| {
            let (of_sender, of_receiver) = &keys[*nth];
            (*step, of_sender.clone(), of_receiver.clone())
        };
        order.iter().map(pair).collect()
    };
    let mut group = criterion.benchmark_group("rendezvous");
    group.throughput(Throughput::Elements(order.len() as u64));
    group.bench_function("send and receive", |bencher| {
        bencher.iter_batched(
            pairs,
            |pairs| {
                for (step, of_sender, of_receiver) in pairs {
                    world.send(step, of_sender);
                    world.recv(step, of_receiver);
                }
            },
            BatchSize::LargeInput,
        );
    });
    group.bench_function("receive and send", |bencher| {
        bencher.iter_batched(
            pairs,
            |pairs| {
                for (step, of_sender, of_receiver) in pairs {
                    world.recv(step, of_receiver);
                    world.send(step, of_sender);
                }
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn unparsed(criterion: &mut Criterion) {
    let mut world = World::new();
    let texts: Vec<String> = (0..EDGES).map(|nth| text(&edge(nth))).collect();
    let order = order();
    let mut group = criterion.benchmark_group("rendezvous");
    group.throughput(Throughput::Elements(order.len() as u64));
    group.bench_function("read both keys, send and receive", |bencher| {
        bencher.iter(|| {
            for (step, nth) in &order {
                let read = || Key::parse(black_box(&texts[*nth])).expect("a key");
                world.send(*step, read());
                world.recv(*step, read());
            }
        });
    });
    group.bench_function("read a key", |bencher| {
        bencher.iter(|| {
            for (_, nth) in &order {
                black_box(Key::parse(black_box(&texts[*nth])).expect("a key"));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, parsed, unparsed);
criterion_main!(benches);
