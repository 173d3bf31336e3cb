//! Steps a second of the dispatcher's machine alone, on one core.
//!
//! The world is that of a large job: 1,000 workers, each with a task of each of 100 iterations.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench stops at the first surprise"
)]

use std::collections::BTreeMap;
use std::hint::black_box;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rondo_core::control::{
    Durability, Effect, Effects, Input, Node, Recovered, Reply, Request as NodeRequest,
};
use rondo_core::dispatcher::{
    ClientHeartbeat, Compression, Config, DatasetMetadata, Definition, GetOrCreateJob,
    RegisterDataset, Reply as Answer, Request, ShardingPolicy, SplitPlan, SplitSource,
    TargetWorkers, WorkerHeartbeat,
};
use rondo_core::ids::{CallId, ClientId, DatasetId, Digest, IterationId, TaskId};
use rondo_core::time::{Duration, Time};

const WORKERS: usize = 1000;
const ITERATIONS: usize = 100;
/// Workers that come to one world, one after another.
const COMING: usize = 100;
/// Seconds between two heartbeats of a worker that is heard while others are lost.
const HEARTBEAT_SECONDS: usize = 30;
/// Seconds within which silent workers are lost.
const LOSS_SECONDS_MAX: usize = 300;

/// A node with what it was told so far.
struct World {
    node: Node,
    now: Time,
    effects: Effects,
    calls: u64,
    dataset: DatasetId,
    clients: Vec<ClientId>,
    tasks: BTreeMap<String, Vec<TaskId>>,
    iterations: Vec<IterationId>,
}

impl World {
    fn new(workers: usize, iterations: usize) -> Self {
        let node = Node::start(
            Durability::Journal,
            Config::default(),
            Recovered::default(),
            Time::from_nanos(1),
        );
        let mut world = Self {
            node,
            now: Time::from_nanos(2),
            effects: Effects::new(),
            calls: 0,
            dataset: DatasetId::new(""),
            clients: Vec::new(),
            tasks: BTreeMap::new(),
            iterations: Vec::new(),
        };
        for worker in 0..workers {
            let address = format!("worker-{worker:05}.example.com:40000");
            world.ask(heartbeat(&address, Vec::new()));
            world.tasks.insert(address, Vec::new());
        }
        world.dataset = world.register();
        for _ in 0..iterations {
            let client = world.iterate();
            world.clients.push(client);
        }
        world.learn_tasks();
        world
    }

    /// Steps one request, and makes everything durable that it recorded.
    fn ask(&mut self, request: Request) -> Answer {
        self.step(request);
        let upto = self.node.last();
        self.node.step(self.now, Input::Synced { upto }, &mut self.effects);
        let mut answer = None;
        for effect in self.effects.drain() {
            if let Effect::Reply { result, .. } = effect {
                let Reply::Dispatcher(reply) = result.expect("refused") else {
                    continue;
                };
                answer = Some(reply);
            }
        }
        answer.expect("no answer")
    }

    /// Steps one request.
    fn step(&mut self, request: Request) {
        self.calls += 1;
        let input = Input::Request {
            call: CallId::new(self.calls),
            request: NodeRequest::Dispatcher(request),
            entropy: self.calls,
        };
        self.node.step(self.now, input, &mut self.effects);
    }

    /// Steps one request and drops its effects, as a driver does that has carried them out.
    fn step_through(&mut self, request: Request) {
        self.step(request);
        for effect in self.effects.drain() {
            black_box(effect);
        }
    }

    fn register(&mut self) -> DatasetId {
        let metadata = DatasetMetadata {
            encoded: Bytes::new(),
            structure: Digest::new([0; 32]),
            compression: Compression::Off,
            cardinality: -2,
        };
        let request = RegisterDataset {
            own: false,
            replaces: false,
            wished: None,
            definition: Definition {
                digest: Digest::new([7; 32]),
                size_bytes: 3,
                inline: Some(Bytes::from_static(b"any")),
            },
            plan: SplitPlan::Splittable(vec![SplitSource::counting(i64::MAX)]),
            metadata,
        };
        match self.ask(Request::RegisterDataset(request)) {
            Answer::Dataset(id) => id,
            other => panic!("{other:?}"),
        }
    }

    fn iterate(&mut self) -> ClientId {
        let request = GetOrCreateJob {
            dataset: self.dataset.clone(),
            same_dataset: false,
            sharding: ShardingPolicy::Dynamic,
            name: None,
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Any,
        };
        let Answer::Job(job) = self.ask(Request::GetOrCreateJob(request)) else { panic!("no job") };
        let repetition = 0;
        match self.ask(Request::GetOrCreateIteration { job, repetition }) {
            Answer::Client(client) => client,
            other => panic!("{other:?}"),
        }
    }

    fn learn_tasks(&mut self) {
        for address in self.tasks.keys().cloned().collect::<Vec<_>>() {
            let Answer::WorkerHeartbeat(reply) = self.ask(heartbeat(&address, Vec::new())) else {
                panic!("no heartbeat")
            };
            let ids = reply.new_tasks.iter().map(|task| task.task).collect();
            self.tasks.insert(address, ids);
            self.iterations = reply.new_tasks.iter().map(|task| task.iteration).collect();
        }
    }

    /// Makes an iteration and has every worker finish its task of it.
    fn iterate_to_the_end(&mut self) {
        let client = self.iterate();
        let first = self.node.dispatcher().state().counters().task.get();
        let workers = i64::try_from(self.tasks.len()).unwrap();
        for (address, id) in self.tasks.keys().cloned().zip(first - workers..).collect::<Vec<_>>() {
            self.ask(Request::WorkerUpdate {
                worker_address: address,
                progress: vec![(TaskId::new(id), true)],
            });
        }
        self.ask(Request::ReleaseClient { client });
    }

    /// Lets a second pass.
    fn tick(&mut self) {
        self.now = self.now.after(Duration::from_secs(1));
        self.node.step(self.now, Input::Tick, &mut self.effects);
        for effect in self.effects.drain() {
            black_box(effect);
        }
    }

    /// Lets time pass until all workers are lost but those that send these heartbeats.
    fn lose_others(&mut self, heartbeats: &[Request]) {
        let silent = self.tasks.len() - heartbeats.len();
        for second in 1..=LOSS_SECONDS_MAX {
            self.tick();
            if second.is_multiple_of(HEARTBEAT_SECONDS) {
                for heartbeat in heartbeats {
                    self.ask(heartbeat.clone());
                }
            }
            let workers = self.node.dispatcher().state().workers().values();
            if workers.filter(|worker| worker.lost).count() == silent {
                return;
            }
        }
        panic!("silent workers are not lost after {LOSS_SECONDS_MAX} s");
    }

    fn worker_heartbeats(&self) -> Vec<Request> {
        self.tasks.iter().map(|(address, tasks)| heartbeat(address, in_no_order(tasks))).collect()
    }

    fn client_heartbeats(&self) -> Vec<Request> {
        self.clients
            .iter()
            .map(|client| {
                Request::ClientHeartbeat(ClientHeartbeat {
                    client: *client,
                    current_round: None,
                    blocked_round: None,
                    target_processing_time_ns: 0,
                })
            })
            .collect()
    }
}

/// Workers name their tasks in the order of a hash map.
fn in_no_order(tasks: &[TaskId]) -> Vec<TaskId> {
    let mut tasks = tasks.to_vec();
    tasks.sort_by_key(|task| task.get().wrapping_mul(0x5bd1_e995_7b93_1a47) >> 17);
    tasks
}

fn heartbeat(address: &str, current_tasks: Vec<TaskId>) -> Request {
    Request::WorkerHeartbeat(WorkerHeartbeat {
        address: address.to_owned(),
        current_tasks,
        tags: vec!["COLOCATED".to_owned()],
        uid: 7,
        transfer_servers: Vec::new(),
    })
}

fn bench_requests(criterion: &mut Criterion, name: &str, world: &mut World, requests: &[Request]) {
    let mut group = criterion.benchmark_group("dispatcher");
    group.throughput(Throughput::Elements(requests.len() as u64));
    group.bench_function(name, |bencher| {
        bencher.iter_batched(
            || requests.to_vec(),
            |requests| requests.into_iter().for_each(|r| world.step_through(r)),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn unchanged_heartbeats(criterion: &mut Criterion) {
    let mut world = World::new(WORKERS, ITERATIONS);
    let requests = world.worker_heartbeats();
    bench_requests(criterion, "worker heartbeat, 100 tasks", &mut world, &requests);
    let requests = world.client_heartbeats();
    bench_requests(criterion, "client heartbeat, 1,000 tasks", &mut world, &requests);
}

fn splits(criterion: &mut Criterion) {
    let mut world = World::new(WORKERS, ITERATIONS);
    let get = |iteration: &IterationId| Request::GetSplit {
        iteration: *iteration,
        repetition: 0,
        source: 0,
        asker: None,
    };
    let requests: Vec<Request> = world.iterations.iter().map(get).collect();
    let mut group = criterion.benchmark_group("dispatcher");
    group.throughput(Throughput::Elements(requests.len() as u64));
    group.bench_function("split, held until synced", |bencher| {
        bencher.iter_batched(
            || requests.clone(),
            |requests| {
                for request in requests {
                    world.step_through(request);
                }
                let upto = world.node.last();
                let synced = Input::Synced { upto };
                world.node.step(Time::from_nanos(2), synced, &mut world.effects);
                for effect in world.effects.drain() {
                    black_box(effect);
                }
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

/// What a heartbeat costs must not depend on how many iterations there ever were.
fn heartbeats_after_finished_iterations(criterion: &mut Criterion) {
    for finished in [0, 1_000, 10_000] {
        let mut world = World::new(10, ITERATIONS);
        for _ in 0..finished {
            world.iterate_to_the_end();
        }
        let requests = world.worker_heartbeats();
        let name = format!("worker heartbeat, 100 tasks, {finished} finished iterations");
        bench_requests(criterion, &name, &mut world, &requests);
    }
}

/// A worker that comes gets a task of each open iteration. Its cost must not depend on how many tasks others
/// have of them.
fn new_workers(criterion: &mut Criterion) {
    for others in [10, 1_000] {
        let name = format!("new worker, 100 iterations, {others} other workers");
        bench_coming(criterion, &name, || {
            let address = |number| format!("new-{number}:1");
            let coming = (0..COMING).map(|number| heartbeat(&address(number), Vec::new()));
            (World::new(others, ITERATIONS), coming.collect())
        });
    }
}

/// The same of a worker that was lost: the process that had the address comes back, or another one.
fn returning_workers(criterion: &mut Criterion) {
    for others in [10, 1_000] {
        let name = format!("returning worker, 100 iterations, {others} other workers");
        bench_coming(criterion, &name, || returning(others));
        let name = format!("restarted worker, 100 iterations, {others} other workers");
        bench_coming(criterion, &name, || {
            let (world, returning) = returning(others);
            (world, returning.into_iter().map(restarted).collect())
        });
    }
}

/// A world in which some workers are lost, and the heartbeats with which they return. Each heartbeat names
/// the tasks that its worker had.
fn returning(others: usize) -> (World, Vec<Request>) {
    let mut world = World::new(others + COMING, ITERATIONS);
    let mut returning = world.worker_heartbeats();
    let heard = returning.split_off(COMING);
    world.lose_others(&heard);
    (world, returning)
}

/// The heartbeat as another process at the same address sends it, which has no tasks.
fn restarted(request: Request) -> Request {
    let Request::WorkerHeartbeat(before) = request else { panic!("no heartbeat") };
    let uid = before.uid + 1;
    Request::WorkerHeartbeat(WorkerHeartbeat { uid, current_tasks: Vec::new(), ..before })
}

/// Measures the first heartbeats of workers that come. A world takes few of them: with more, those that came
/// before would be measured.
#[allow(clippy::disallowed_types, reason = "a bench measures time")]
fn bench_coming(criterion: &mut Criterion, name: &str, make: impl Fn() -> (World, Vec<Request>)) {
    let (mut world, coming) = make();
    for heartbeat in coming {
        let Answer::WorkerHeartbeat(reply) = world.ask(heartbeat) else { panic!("no heartbeat") };
        assert_eq!(reply.new_tasks.len(), ITERATIONS, "{name}");
    }
    let mut group = criterion.benchmark_group("dispatcher");
    group.throughput(Throughput::Elements(1));
    group.sample_size(10);
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|times| {
            let mut left = usize::try_from(times).unwrap();
            let mut spent = std::time::Duration::ZERO;
            while left > 0 {
                let (mut world, mut coming) = make();
                coming.truncate(left);
                left -= coming.len();
                for heartbeat in coming {
                    let began = std::time::Instant::now();
                    world.step_through(heartbeat);
                    spent += began.elapsed();
                }
            }
            spent
        });
    });
    group.finish();
}

criterion_group!(
    benches,
    unchanged_heartbeats,
    splits,
    heartbeats_after_finished_iterations,
    new_workers,
    returning_workers
);
criterion_main!(benches);
