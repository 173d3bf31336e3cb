//! The real dispatcher, as the tests here talk to it.

use bytes::Bytes;
use rondo_core::dispatcher::{
    ClientHeartbeat, ClientHeartbeatReply, Compression, Config, DatasetMetadata, Definition,
    Dispatcher, Effect, GetOrCreateJob, Iteration, Record, RegisterDataset, Reply, Request,
    ShardingPolicy, SplitPlan, State, TargetWorkers, Turn, WorkerHeartbeat,
};
use rondo_core::ids::{CallId, ClientId, DatasetId, Digest, JobId, Lsn, TaskId};
use rondo_core::invariant;
use rondo_core::log::Log;
use rondo_core::time::Time;

/// The only job.
const JOB: JobId = JobId::new(5000);
/// The call of whoever does not wait.
const AT_ONCE: CallId = CallId::new(0);

/// A dispatcher with one coordinated read.
#[derive(Clone)]
pub(crate) struct Real {
    dispatcher: Dispatcher,
    log: Log,
    now: Time,
}

/// What one step wrote and answered.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) records: Vec<Record>,
    pub(crate) answers: Vec<(CallId, Reply)>,
}

impl Real {
    /// A read by this many consumers, all joined, begun when this many workers were there.
    pub(crate) fn reading(consumers: usize, workers: u8) -> Self {
        let mut real = Self::of(State::default());
        for number in 0..workers {
            real.worker(number);
        }
        let dataset = DatasetId::new("dataset");
        real.ask(Request::RegisterDataset(registration(&dataset)));
        real.ask(Request::GetOrCreateJob(GetOrCreateJob {
            dataset,
            same_dataset: false,
            sharding: ShardingPolicy::Off,
            name: None,
            consumers: Some(consumers as i64),
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Auto,
        }));
        for _ in 0..consumers {
            real.join();
        }
        real
    }

    /// A dispatcher started with this state.
    pub(crate) fn of(state: State) -> Self {
        let now = Time::from_millis(1_000_000);
        Self {
            dispatcher: Dispatcher::start(Config::default(), state, now),
            log: Log::starting_at(Lsn::new(1_000)),
            now,
        }
    }

    /// One more client.
    pub(crate) fn join(&mut self) {
        self.ask(Request::GetOrCreateIteration { job: JOB, repetition: 0 });
    }

    /// A worker's heartbeat that says it runs what it should.
    pub(crate) fn worker(&mut self, number: u8) -> Outcome {
        let address = format!("w{number}:1");
        let known = self.state().worker_at(&address);
        let current_tasks = known.map(|worker| worker.tasks.iter().copied().collect());
        self.ask(Request::WorkerHeartbeat(WorkerHeartbeat {
            address,
            current_tasks: current_tasks.unwrap_or_default(),
            tags: Vec::new(),
            uid: 1,
            transfer_servers: Vec::new(),
        }))
    }

    /// A client's heartbeat, its records and its answer.
    pub(crate) fn heartbeat(
        &mut self,
        client: ClientId,
        current_round: Option<i64>,
        blocked_round: Option<i64>,
    ) -> (Vec<Record>, ClientHeartbeatReply) {
        let outcome = self.ask(Request::ClientHeartbeat(ClientHeartbeat {
            client,
            current_round,
            blocked_round,
            target_processing_time_ns: 0,
        }));
        match outcome.answers.into_iter().next() {
            Some((_, Reply::ClientHeartbeat(reply))) => (outcome.records, reply),
            other => panic!("{other:?}"),
        }
    }

    /// A consumer's wish to give a task up.
    pub(crate) fn remove(
        &mut self,
        call: CallId,
        task: TaskId,
        consumer: usize,
        round: i64,
    ) -> Outcome {
        let request = Request::MaybeRemoveTask { task, consumer_index: consumer as i64, round };
        self.call(call, request)
    }

    pub(crate) fn cancel(&mut self, call: CallId) {
        self.dispatcher.cancel(call);
    }

    /// Lets all calls that wait now give up waiting.
    pub(crate) fn let_calls_expire(&mut self) -> Outcome {
        let wait = self.dispatcher.config().removal_timeout;
        self.now = self.now.after(wait);
        self.turn(|dispatcher, turn| dispatcher.tick(turn))
    }

    /// A task's worker reports it as done.
    pub(crate) fn finish(&mut self, task: TaskId) -> Outcome {
        let worker = self.state().workers().get(&self.state().tasks()[&task].worker);
        let worker_address = worker.unwrap().address.to_string();
        self.ask(Request::WorkerUpdate { worker_address, progress: vec![(task, true)] })
    }

    /// Starts again from what is durable.
    pub(crate) fn restart(&mut self) {
        let state = self.dispatcher.state().clone();
        self.dispatcher = Dispatcher::start(Config::default(), state, self.now);
    }

    pub(crate) const fn state(&self) -> &State {
        self.dispatcher.state()
    }

    /// The only iteration.
    pub(crate) fn iteration(&self) -> &Iteration {
        self.state().iterations().values().next().unwrap()
    }

    /// The first round of a task.
    pub(crate) fn starting_round(&self, task: TaskId) -> i64 {
        self.state().tasks()[&task].starting_round
    }

    /// Checks the core's own invariants.
    pub(crate) fn check(&self) -> Result<(), String> {
        invariant::check_dispatcher(&self.dispatcher).map_err(|violation| violation.to_string())
    }

    fn ask(&mut self, request: Request) -> Outcome {
        self.call(AT_ONCE, request)
    }

    fn call(&mut self, call: CallId, request: Request) -> Outcome {
        self.turn(|dispatcher, turn| dispatcher.request(turn, call, request, 0))
    }

    fn turn(&mut self, step: impl FnOnce(&mut Dispatcher, &mut Turn<'_>)) -> Outcome {
        let mut out = Vec::new();
        let mut turn = Turn { now: self.now, log: &mut self.log, out: &mut out };
        step(&mut self.dispatcher, &mut turn);
        let mut outcome = Outcome::default();
        for effect in out {
            match effect {
                Effect::Append { record, .. } => outcome.records.push(record),
                Effect::Reply { call, result, .. } => outcome.answers.push((call, result.unwrap())),
                Effect::Halt { reason } => panic!("{reason}"),
                Effect::Push { .. } | Effect::ForgetBlob { .. } | Effect::Observe(_) => {}
            }
        }
        outcome
    }
}

fn registration(id: &DatasetId) -> RegisterDataset {
    let digest = Digest::new([7; 32]);
    RegisterDataset {
        wished: Some(id.clone()),
        definition: Definition { digest, size_bytes: 1, inline: Some(Bytes::from_static(b"d")) },
        own: false,
        replaces: false,
        plan: SplitPlan::Splittable(Vec::new()),
        metadata: DatasetMetadata {
            encoded: Bytes::new(),
            structure: digest,
            compression: Compression::Off,
            cardinality: -1,
        },
    }
}
