//! Rounds of the exchange a second, of its machines alone, on one core: every worker pushes to and pulls
//! from every server, which takes a batch of one unit of each and answers all, and every worker waits.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench stops at the first surprise"
)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rondo_core::exchange::membership::{Member, Membership, Sizes, State};
use rondo_core::exchange::message::{Tensor, ToServer, ToWorker};
use rondo_core::exchange::server::{self, Answering, Partial, Server, Unit};
use rondo_core::exchange::worker::{self, Since, Worker};
use rondo_core::exchange::{
    Config, Handler, InstanceRank, Key, MembershipVersion, Role, ScalarType, TensorInfo,
};
use rondo_core::ids::{CallId, ConnectionId, Incarnation};
use rondo_core::time::{Duration, Time};

type Memory = Arc<[u8]>;
const NOW: Time = Time::from_nanos(1);

struct World {
    workers: Vec<Worker<Memory>>,
    servers: Vec<Server<Memory>>,
    up: VecDeque<(u64, ToServer<Memory>)>,
    down: VecDeque<(u64, ToWorker<Memory>)>,
    of_workers: Vec<worker::Effect<Memory>>,
    of_servers: Vec<server::Effect<Memory>>,
    units: Vec<Vec<Unit<Memory>>>,
    started: Vec<Option<Handler>>,
    waited: usize,
    memory: Memory,
    info: TensorInfo,
}

fn member(role: Role, rank: u32) -> Member {
    let (addresses, host) = (Vec::new(), Arc::from("here"));
    let (rank, incarnation) = (InstanceRank::new(rank), Incarnation::new(1));
    Member { role, rank, incarnation, addresses, host, state: State::Up }
}

impl World {
    fn new(workers: u32, servers: u32) -> Self {
        let run = Incarnation::new(1);
        let worker = |rank| Worker::start(Config::default(), InstanceRank::new(rank), run).unwrap();
        let server = |rank| Server::start(Config::default(), InstanceRank::new(rank), run).unwrap();
        let mut world = Self {
            workers: (0..workers).map(worker).collect(),
            servers: (0..servers).map(server).collect(),
            up: VecDeque::new(),
            down: VecDeque::new(),
            of_workers: Vec::new(),
            of_servers: Vec::new(),
            units: (0..servers).map(|_| Vec::new()).collect(),
            started: (0..workers).map(|_| None).collect(),
            waited: 0,
            memory: Arc::from([0; 64]),
            info: TensorInfo::new(ScalarType::BFloat16, &[4, 8]).unwrap(),
        };
        let members = (0..servers).map(|rank| member(Role::Server, rank));
        let members = members.chain((0..workers).map(|rank| member(Role::Worker, rank)));
        let (version, sizes) = (MembershipVersion::new(1), Sizes { workers, servers, group: 1 });
        let membership = Membership { version, sizes, members: members.collect() };
        for nth in 0..world.servers.len() {
            world.serve(nth, server::Input::Membership(membership.clone()));
        }
        for nth in 0..world.workers.len() {
            world.work(nth, worker::Input::Membership(membership.clone()));
        }
        world.pass_on();
        world
    }

    /// A connection is named by its two ends.
    fn ends(&self, connection: u64) -> (usize, usize) {
        let connection = usize::try_from(connection).unwrap();
        (connection / self.servers.len(), connection % self.servers.len())
    }

    fn work(&mut self, nth: usize, input: worker::Input<Memory>) {
        self.workers[nth].step(NOW, input, &mut self.of_workers);
        let mut effects = std::mem::take(&mut self.of_workers);
        for effect in effects.drain(..) {
            match effect {
                worker::Effect::Connect { server, incarnation, .. } => {
                    let connection = nth * self.servers.len() + server.get() as usize;
                    let connection = ConnectionId::new(connection as u64);
                    let input = worker::Input::Connected { server, incarnation, connection };
                    let mut more = Vec::new();
                    self.workers[nth].step(NOW, input, &mut more);
                    for effect in more {
                        if let worker::Effect::Send { connection, message } = effect {
                            self.up.push_back((connection.get(), message));
                        }
                    }
                }
                worker::Effect::Send { connection, message } => {
                    self.up.push_back((connection.get(), message));
                }
                worker::Effect::Started { result, .. } => {
                    self.started[nth] = Some(result.expect("it can be sent"));
                }
                worker::Effect::Waited { result, .. } => {
                    result.expect("it is answered");
                    self.waited += 1;
                }
                other => drop(black_box(other)),
            }
        }
        self.of_workers = effects;
    }

    fn serve(&mut self, nth: usize, input: server::Input<Memory>) {
        self.servers[nth].step(NOW, input, &mut self.of_servers);
        for effect in self.of_servers.drain(..) {
            match effect {
                server::Effect::Send { connection, message } => {
                    self.down.push_back((connection.get(), message));
                }
                server::Effect::Batch { result, .. } => self.units[nth] = result.expect("a batch"),
                server::Effect::Done { result, .. } => result.expect("it can be answered"),
                other => drop(black_box(other)),
            }
        }
    }

    fn pass_on(&mut self) {
        while !self.up.is_empty() || !self.down.is_empty() {
            while let Some((connection, message)) = self.up.pop_front() {
                let (_, nth) = self.ends(connection);
                let connection = ConnectionId::new(connection);
                if let ToServer::Request(request) = &message {
                    black_box(self.servers[nth].land(connection, request));
                }
                let input = server::Input::Message { connection, received: NOW, message };
                self.serve(nth, input);
            }
            while let Some((connection, message)) = self.down.pop_front() {
                let (nth, _) = self.ends(connection);
                let connection = ConnectionId::new(connection);
                if let ToWorker::Answer(answer) = &message {
                    let tensors = &answer.tensors;
                    black_box(self.workers[nth].land(connection, answer.number, tensors));
                }
                let input = worker::Input::Message { connection, received: NOW, message };
                self.work(nth, input);
            }
        }
    }

    fn tensor(&self, key: u64) -> Tensor<Memory> {
        Tensor { key: Key::new(key), info: self.info, payload: self.memory.clone() }
    }

    fn round(&mut self) {
        let call = CallId::new(1);
        for nth in 0..self.servers.len() {
            let (timeout, partial) = (None, Partial::Never);
            self.serve(nth, server::Input::GetBatch { call, timeout, partial });
        }
        for nth in 0..self.workers.len() {
            let pushes = vec![self.tensor(1)];
            let pulls = (0..self.servers.len()).map(|_| self.tensor(2)).collect();
            let ignores_rest = false;
            self.work(nth, worker::Input::Exchange { call, pushes, pulls, ignores_rest });
            let handler = self.started[nth].take().expect("it was sent");
            let (timeout, since) = (Some(Duration::from_secs(10)), Since::Request);
            let call = CallId::new(nth as u64);
            self.work(nth, worker::Input::Wait { call, handler, timeout, since });
        }
        self.pass_on();
        for nth in 0..self.servers.len() {
            let units = std::mem::take(&mut self.units[nth]);
            assert_eq!(units.len(), self.workers.len());
            let tensors = || vec![(self.info, self.memory.clone())];
            let answer = |unit: Unit<Memory>| Answering { unit: unit.handler, tensors: tensors() };
            let answers = units.into_iter().map(answer).collect();
            self.serve(nth, server::Input::Respond { call, answers });
        }
        self.pass_on();
        assert_eq!(std::mem::take(&mut self.waited), self.workers.len());
    }
}

fn rounds(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("exchange");
    group.throughput(Throughput::Elements(1));
    for (workers, servers) in [(1, 1), (8, 8)] {
        let mut world = World::new(workers, servers);
        group.bench_function(format!("a round of {workers} workers and {servers} servers"), |it| {
            it.iter(|| world.round());
        });
    }
    group.finish();
}

criterion_group!(benches, rounds);
criterion_main!(benches);
