//! Runs of workers with a rendezvous each, and what their oracles see.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rondo_core::element::{Dtype, Shape, Tensor};
use rondo_core::ids::{CallId, StepId};
use rondo_core::rendezvous::{
    Args, Config, Delivery, Effect, FrameAndIter, Input, Key, Rendezvous, Session, Value,
};
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;
use rondo_sim::mark::Mark;
use rondo_sim::oracle::rendezvous::{Met, Oracles};
use rondo_sim::rng::Source;
use rondo_sim::swarm::{Part, Swarm};
use rondo_sim::world::{Outcome, RunOptions, run};

const SEEDS: u64 = if cfg!(debug_assertions) { 200 } else { 1500 };
const NAME: &str = "/job:worker/replica:0/task:0";
const STEP: StepId = StepId::new(7);

fn seeds() -> impl Iterator<Item = u64> {
    (0..SEEDS).filter(|seed| Part::of(&Source::seed(*seed)) == Part::Rendezvous)
}

#[test]
fn one_of_seven_seeds_is_a_run_of_the_rendezvous_and_keeps_every_promise() {
    let outcomes: Vec<(u64, Outcome)> =
        seeds().map(|seed| (seed, run(&Source::seed(seed), RunOptions::default()))).collect();
    let share = SEEDS / outcomes.len() as u64;
    assert!((5..=10).contains(&share), "one of {share}");
    for (seed, outcome) in &outcomes {
        assert!(outcome.broken.is_none(), "seed {seed}: {:?}\n{}", outcome.broken, outcome.swarm);
        assert!(outcome.swarm.rendezvous.is_some(), "seed {seed}");
    }
    let marks = [
        Mark::TensorFetched,
        Mark::TensorWaitedFor,
        Mark::AskedBeforeInitialised,
        Mark::ReceiveCancelled,
        Mark::OtherIncarnation,
        Mark::TensorFetchedAgain,
        Mark::StepExpired,
        Mark::SenderRefused,
        Mark::RendezvousEmptied,
    ];
    for mark in marks {
        let reached: u64 = outcomes.iter().map(|(_, outcome)| outcome.tally.of_mark(mark)).sum();
        assert!(reached > 0, "{mark}");
    }
}

#[test]
fn speed_is_measured_without_it() {
    for seed in seeds() {
        assert_eq!(Swarm::standard(&Source::seed(seed)).0.rendezvous, None);
    }
}

/// A worker's machine with its oracles, in which something may be other than it is.
struct Watched {
    machine: Rendezvous<Tensor>,
    oracles: Oracles,
    calls: u64,
}

impl Watched {
    fn new() -> Self {
        let session = Some(Session { worker_name: NAME.into() });
        let config = Config { session, ..Config::default() };
        let mut oracles = Oracles::default();
        oracles.see(&Met::Began { worker: 0, name: NAME, config: &config }).unwrap();
        Self { machine: Rendezvous::start(config).unwrap(), oracles, calls: 0 }
    }

    /// What is promised no more when the effects of an input are changed so.
    fn step(
        &mut self,
        input: &Input<Tensor>,
        change: impl FnOnce(&mut Vec<Effect<Tensor>>),
    ) -> Option<String> {
        let (mut effects, now) = (Vec::new(), Time::from_millis(1));
        self.machine.step(now, input.clone(), &mut effects);
        change(&mut effects);
        let (effects, machine) = (effects.as_slice(), &self.machine);
        let met = Met::Stepped { worker: 0, now, input, effects, machine };
        self.oracles.see(&met).err().map(|broken| broken.promise)
    }

    fn next(&mut self) -> CallId {
        self.calls += 1;
        CallId::new(self.calls)
    }

    fn send(&mut self, serial: u64) -> Option<String> {
        let call = self.next();
        let (key, args, value) = (key(), Args::default(), value(serial));
        self.step(&Input::Send { call, step: STEP, key, args, value, waits: false }, |_| {})
    }

    fn recv(&mut self) -> Input<Tensor> {
        let (call, args) = (self.next(), Args::default());
        Input::Recv { call, step: STEP, key: key(), args, timeout: None }
    }
}

fn key() -> Key {
    let device = format!("{NAME}/device:CPU:0");
    Key::create(&device, 1, &device, "edge", FrameAndIter::default()).unwrap()
}

fn value(serial: u64) -> Value<Tensor> {
    let bytes = serial.to_le_bytes().to_vec().into();
    let tensor = Tensor::fixed(Dtype::Uint8, Shape::of([8]).unwrap(), bytes).unwrap();
    Value { tensor, bytes: 8, is_dead: false }
}

fn received(effects: &mut [Effect<Tensor>]) -> &mut Result<Delivery<Tensor>, Status> {
    let found = effects.iter_mut().find_map(|effect| match effect {
        Effect::Received { result, .. } => Some(result),
        _ => None,
    });
    found.unwrap()
}

#[test]
fn what_is_received_is_what_was_sent_in_its_turn() {
    let changed = |change: fn(&mut Vec<Effect<Tensor>>)| {
        let mut of = Watched::new();
        assert_eq!((of.send(1), of.send(2)), (None, None));
        let recv = of.recv();
        of.step(&recv, change)
    };
    assert_eq!(changed(|_| {}), None);
    let dead = changed(|effects| received(effects).as_mut().unwrap().value.is_dead = true);
    assert_eq!(dead.as_deref(), Some("delivery"));
    let later = changed(|effects| received(effects).as_mut().unwrap().value = value(2));
    assert_eq!(later.as_deref(), Some("turn"));
    let refused = changed(|effects| *received(effects) = Err(Status::new(Code::Aborted, "no")));
    assert_eq!(refused.as_deref(), Some("told"));
    assert_eq!(changed(Vec::clear).as_deref(), Some("turn"), "it waits beside a tensor");
    let twice = changed(|effects| effects.extend(effects.clone()));
    assert_eq!(twice.as_deref(), Some("told"));
}

#[test]
fn who_waits_in_a_step_that_ends_is_told_so() {
    let changed = |change: fn(&mut Vec<Effect<Tensor>>)| {
        let mut of = Watched::new();
        let recv = of.recv();
        assert_eq!(of.step(&recv, |_| {}), None);
        of.step(&Input::Cleanup { step: STEP }, change)
    };
    assert_eq!(changed(|_| {}), None);
    assert_eq!(changed(Vec::clear).as_deref(), Some("ended"));
    let otherwise = changed(|effects| *received(effects) = Err(Status::new(Code::Aborted, "no")));
    assert_eq!(otherwise.as_deref(), Some("ended"));
    let (tensor, args) = (value(1), Args::default());
    let delivery = Delivery { value: tensor, sent: args, received: args };
    let mut of = Watched::new();
    let recv = of.recv();
    assert_eq!(of.step(&recv, |_| {}), None);
    let given = of.step(&Input::Cleanup { step: STEP }, |it| *received(it) = Ok(delivery));
    assert_eq!(given.as_deref(), Some("ended"));
}

#[test]
fn a_tensor_is_received_once_and_under_its_own_key() {
    let see = |oracles: &mut Oracles, step: i64| {
        let (key, args) = (key(), Args::default());
        let delivery = Delivery { value: value(1), sent: args, received: args };
        let met = Met::Received { step: StepId::new(step), key: &key, delivery: &delivery };
        oracles.see(&met).err().map(|broken| broken.promise)
    };
    let made = || {
        let mut oracles = Oracles::default();
        oracles.see(&Met::Made { step: STEP, key: &key(), value: &value(1) }).unwrap();
        oracles
    };
    let mut oracles = made();
    assert_eq!(see(&mut oracles, 7), None);
    assert_eq!(see(&mut oracles, 7).as_deref(), Some("delivery"), "twice");
    assert_eq!(see(&mut made(), 8).as_deref(), Some("delivery"), "of another step");
    assert_eq!(see(&mut Oracles::default(), 7).as_deref(), Some("delivery"), "never made");
}
