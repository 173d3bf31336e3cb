//! Runs of an exchange of tensors, and what its oracles see.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use rondo_core::exchange::membership::{Member, Membership, Sizes, State};
use rondo_core::exchange::message::{Answer, Credits, Tensor, ToWorker, Welcome};
use rondo_core::exchange::worker::{Effect, Input, Landing, Since, Worker};
use rondo_core::exchange::{
    Config, Handler, InstanceRank, Key, MembershipVersion, RequestNumber, Role, ScalarType,
    ServerRank, Stamps, TensorInfo,
};
use rondo_core::ids::{CallId, ConnectionId, Incarnation};
use rondo_core::time::Time;
use rondo_sim::mark::Mark;
use rondo_sim::oracle::exchange::{Memory, Met, Oracles, Slice, answer, pulled_key, pushed};
use rondo_sim::rng::Source;
use rondo_sim::swarm::{Part, Swarm};
use rondo_sim::world::{Outcome, RunOptions, run};

const SEEDS: u64 = if cfg!(debug_assertions) { 150 } else { 1000 };
const RUN: Incarnation = Incarnation::new(70);
const CONNECTION: ConnectionId = ConnectionId::new(9);

fn seeds() -> impl Iterator<Item = u64> {
    (0..SEEDS).filter(|seed| Part::of(&Source::seed(*seed)) == Part::Exchange)
}

#[test]
fn one_of_eight_seeds_is_a_run_of_the_exchange_and_keeps_every_promise() {
    let outcomes: Vec<(u64, Outcome)> =
        seeds().map(|seed| (seed, run(&Source::seed(seed), RunOptions::default()))).collect();
    let share = SEEDS / outcomes.len() as u64;
    assert!((5..=14).contains(&share), "one of {share}");
    for (seed, outcome) in &outcomes {
        assert!(outcome.broken.is_none(), "seed {seed}: {:?}\n{}", outcome.broken, outcome.swarm);
        assert!(outcome.swarm.exchange.is_some(), "seed {seed}");
    }
    let marks = [
        Mark::ExchangeCompleted,
        Mark::ExchangeBatchOfAll,
        Mark::ExchangeBarrierPassed,
        Mark::ExchangeProcessReturned,
        Mark::ExchangeProcessLost,
        Mark::ExchangeGoesOn,
        Mark::ExchangeQuiet,
        Mark::ExchangeEnded,
    ];
    for mark in marks {
        let reached: u64 = outcomes.iter().map(|(_, outcome)| outcome.tally.of_mark(mark)).sum();
        assert!(reached > 0, "{mark}");
    }
}

#[test]
fn speed_is_measured_without_it() {
    for seed in seeds() {
        assert_eq!(Swarm::standard(&Source::seed(seed)).0.exchange, None);
    }
}

/// A worker with one request under way, and the oracles that watch it.
struct Watched {
    machine: Worker<Slice>,
    memory: Memory,
    oracles: Oracles,
    push: Slice,
    pull: Slice,
}

fn info() -> TensorInfo {
    TensorInfo::new(ScalarType::Byte, &[16]).unwrap()
}

impl Watched {
    fn new() -> Self {
        let (config, mut oracles) = (Config::default(), Oracles::default());
        let met = Met::Worker { site: 1, config: &config, worker: 0, servers: 1, ranks: (0, 1) };
        oracles.see(&met).unwrap();
        let machine = Worker::start(config, InstanceRank::new(0), RUN).unwrap();
        let mut memory = Memory::default();
        let (push, pull) = (memory.put(pushed(5, 0, 16)), memory.room(16));
        let mut of = Self { machine, memory, oracles, push, pull };
        of.begin();
        of
    }

    fn begin(&mut self) {
        self.keeps(Input::Membership(membership(1, State::Up)));
        let (server, connection) = (ServerRank::new(0), CONNECTION);
        self.keeps(Input::Connected { server, incarnation: RUN, connection });
        let credits = Credits { requests: 4, bytes: 100, per_key: 1 };
        let welcome = Welcome { incarnation: RUN, received: RequestNumber::new(0), credits };
        self.hears(ToWorker::Welcome(welcome));
        let tensor =
            |key: u64, payload: Slice| Tensor { key: Key::new(key), info: info(), payload };
        let pushes = vec![tensor(3, self.push)];
        let pulls = vec![tensor(pulled_key(5, 0), self.pull)];
        let call = CallId::new(1);
        self.keeps(Input::Exchange { call, pushes, pulls, ignores_rest: false });
        let (handler, timeout, since) = (Handler::new(0), None, Since::Call);
        self.keeps(Input::Wait { call: CallId::new(2), handler, timeout, since });
    }

    fn hears(&mut self, message: ToWorker<Slice>) {
        let (connection, received) = (CONNECTION, Time::from_millis(1));
        self.keeps(Input::Message { connection, received, message });
    }

    fn keeps(&mut self, input: Input<Slice>) {
        assert_eq!(self.step(&input, |_| {}), None);
    }

    /// What is promised no more when the effects of an input are changed so.
    fn step(
        &mut self,
        input: &Input<Slice>,
        change: impl FnOnce(&mut Vec<Effect<Slice>>),
    ) -> Option<String> {
        let (mut effects, now) = (Vec::new(), Time::from_millis(1));
        self.machine.step(now, input.clone(), &mut effects);
        change(&mut effects);
        let (effects, machine, memory) = (effects.as_slice(), &self.machine, &self.memory);
        let met = Met::WorkerStepped { site: 1, now, input, effects, machine, memory };
        self.oracles.see(&met).err().map(|broken| broken.promise)
    }

    /// The answer is written from now on.
    fn lands(&mut self) -> Vec<Tensor<Slice>> {
        let key = Key::new(pulled_key(5, 0));
        let tensors = vec![Tensor { key, info: info(), payload: self.pull }];
        let landing = self.machine.land(CONNECTION, RequestNumber::new(1), &tensors);
        assert_eq!(landing, Landing::At(vec![self.pull]));
        let met = Met::Lands { site: 1, connection: CONNECTION, slices: &[self.pull] };
        self.oracles.see(&met).unwrap();
        tensors
    }

    /// The answer arrives with these bytes.
    fn answered(
        &mut self,
        bytes: &[u8],
        change: impl FnOnce(&mut Vec<Effect<Slice>>),
    ) -> Option<String> {
        let (number, tensors) = (RequestNumber::new(1), self.lands());
        self.memory.write(&self.pull, 0, bytes);
        let message = ToWorker::Answer(Answer { number, tensors, stamps: Stamps::default() });
        let (connection, received) = (CONNECTION, Time::from_millis(1));
        self.step(&Input::Message { connection, received, message }, change)
    }
}

/// One server, which stands so.
fn membership(version: u64, state: State) -> Membership {
    let member = Member {
        role: Role::Server,
        rank: InstanceRank::new(0),
        incarnation: RUN,
        addresses: vec!["server".into()],
        host: "here".into(),
        state,
    };
    let sizes = Sizes { workers: 1, servers: 1, group: 1 };
    Membership { version: MembershipVersion::new(version), sizes, members: vec![member] }
}

fn right() -> Vec<u8> {
    let bytes = pushed(5, 0, 16);
    answer(0, [bytes.as_slice()], pulled_key(5, 0), 16)
}

#[test]
fn an_answer_is_made_of_what_was_pushed_and_told_once() {
    assert_eq!(Watched::new().answered(&right(), |_| {}), None);
    let other = Watched::new().answered(&[7; 16], |_| {});
    assert_eq!(other.as_deref(), Some("answer"));
    let twice = Watched::new().answered(&right(), |effects| {
        let fill = effects.iter().find(|effect| matches!(effect, Effect::Fill { .. })).cloned();
        effects.insert(0, fill.unwrap());
    });
    assert_eq!(twice.as_deref(), Some("answer"), "filled twice");
    let told_twice = Watched::new().answered(&right(), |effects| {
        effects.extend(effects.last().cloned());
    });
    assert_eq!(told_twice.as_deref(), Some("told"));
    let unfilled = Watched::new().answered(&right(), |effects| {
        effects.retain(|effect| !matches!(effect, Effect::Fill { .. }));
    });
    assert_eq!(unfilled.as_deref(), Some("answer"), "complete without a tensor");
}

#[test]
fn nothing_is_written_to_where_a_request_pulls_to_that_is_over() {
    let mut of = Watched::new();
    let slice = of.pull;
    assert!(of.oracles.see(&Met::Written { site: 1, slice: &slice }).is_ok());
    assert_eq!(of.answered(&right(), |_| {}), None);
    let late = of.oracles.see(&Met::Written { site: 1, slice: &slice });
    assert_eq!(late.unwrap_err().promise, "memory");
    of.memory.free(&of.push);
    let met = Met::Read { site: 1, slice: &of.push, memory: &of.memory };
    assert_eq!(of.oracles.see(&met).unwrap_err().promise, "memory");
}

#[test]
fn who_needs_a_server_that_is_lost_is_told_at_once_but_while_an_answer_is_written() {
    let lost = Input::Membership(membership(2, State::Lost));
    let untold = |effects: &mut Vec<Effect<Slice>>| {
        effects.retain(|effect| !matches!(effect, Effect::Waited { .. }));
    };
    let troubled = || {
        let mut of = Watched::new();
        of.oracles.see(&Met::Troubled).unwrap();
        of
    };
    troubled().keeps(lost.clone());
    assert_eq!(troubled().step(&lost, untold).as_deref(), Some("told"));
    let over = Input::Disconnected { connection: CONNECTION, why: "reset".into() };
    let mut of = troubled();
    of.lands();
    of.keeps(lost.clone());
    assert_eq!(of.step(&over, untold).as_deref(), Some("told"));
    let mut of = troubled();
    of.lands();
    of.keeps(lost);
    of.keeps(over);
}
