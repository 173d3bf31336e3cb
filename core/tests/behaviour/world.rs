//! Short words for what clients and workers do, on top of the driver.

use std::hash::{DefaultHasher, Hasher};

use bytes::Bytes;
use rondo_core::dispatcher::{
    ClientHeartbeat, ClientHeartbeatReply, Compression, Config, DatasetMetadata, Definition,
    GetOrCreateJob, RegisterDataset, Reply, Request, ShardingPolicy, SplitPlan, SplitSource,
    TargetWorkers, TransferServer, WorkerHeartbeat, WorkerHeartbeatReply,
};
use rondo_core::ids::{ClientId, DatasetId, Digest, IterationId, JobId, TaskId};
use rondo_core::limits::RECORDS_PROTOCOL;
use rondo_core::time::Duration;

use crate::driver::Driver;

/// A registration of a dataset with these sources of splits.
pub(crate) fn dataset(sources: &[SplitSource]) -> RegisterDataset {
    let content = format!("{sources:?}");
    RegisterDataset {
        wished: None,
        definition: Definition {
            digest: digest_of(&content),
            size_bytes: content.len() as u64,
            inline: Some(Bytes::from(content)),
        },
        own: false,
        replaces: false,
        plan: SplitPlan::Splittable(sources.to_vec()),
        metadata: DatasetMetadata {
            encoded: Bytes::from_static(b"metadata"),
            structure: Digest::new([1; 32]),
            compression: Compression::Snappy,
            cardinality: 10,
        },
    }
}

/// A hash. The first digits of two contents' hashes differ.
fn digest_of(content: &str) -> Digest {
    let mut hasher = DefaultHasher::new();
    hasher.write(content.as_bytes());
    let mut digest = [0_u8; 32];
    for part in digest.chunks_mut(8) {
        part.copy_from_slice(&hasher.finish().to_be_bytes());
        hasher.write_u8(0);
    }
    Digest::new(digest)
}

/// The same with a wished id.
pub(crate) fn dataset_named(id: &str) -> RegisterDataset {
    RegisterDataset { wished: Some(DatasetId::new(id)), ..dataset(&[SplitSource::counting(3)]) }
}

/// A job that reads a dataset.
pub(crate) fn job(dataset: &DatasetId, sharding: ShardingPolicy) -> GetOrCreateJob {
    GetOrCreateJob {
        dataset: dataset.clone(),
        same_dataset: false,
        sharding,
        name: None,
        consumers: None,
        use_cross_trainer_cache: false,
        target_workers: TargetWorkers::Auto,
    }
}

/// A worker's heartbeat that says nothing of itself but its address and tasks.
pub(crate) fn worker(address: &str, tasks: &[TaskId]) -> WorkerHeartbeat {
    WorkerHeartbeat {
        address: address.into(),
        current_tasks: tasks.to_vec(),
        tags: Vec::new(),
        uid: 1,
        transfer_servers: Vec::new(),
    }
}

/// The same of a worker that serves records by split.
pub(crate) fn serving_worker(address: &str, tasks: &[TaskId]) -> WorkerHeartbeat {
    WorkerHeartbeat { transfer_servers: vec![records_server(address)], ..worker(address, tasks) }
}

/// Where a worker serves records by split.
pub(crate) fn records_server(address: &str) -> TransferServer {
    TransferServer {
        protocol: RECORDS_PROTOCOL.into(),
        address: format!("{address}/records"),
        compatibility_info: Bytes::new(),
        fall_back_to_grpc_at_client_creation_time: false,
        fall_back_to_grpc_at_get_element_time: false,
    }
}

/// A client's heartbeat without rounds.
pub(crate) fn client(client: ClientId) -> Request {
    rounds(client, None, None)
}

/// A client's heartbeat with its current round and the round it has blocked itself from.
pub(crate) fn rounds(client: ClientId, current: Option<i64>, blocked: Option<i64>) -> Request {
    Request::ClientHeartbeat(ClientHeartbeat {
        client,
        current_round: current,
        blocked_round: blocked,
        target_processing_time_ns: 0,
    })
}

pub(crate) fn update(address: &str, progress: &[(TaskId, bool)]) -> Request {
    Request::WorkerUpdate { worker_address: address.into(), progress: progress.to_vec() }
}

pub(crate) fn split(iteration: IterationId, repetition: i64, source: i64) -> Request {
    Request::GetSplit { iteration, repetition, source, asker: None }
}

/// The same, asked by a worker that is known.
pub(crate) fn split_for(
    asker: &str,
    iteration: IterationId,
    repetition: i64,
    source: i64,
) -> Request {
    Request::GetSplit { iteration, repetition, source, asker: Some(asker.into()) }
}

pub(crate) fn removal(task: TaskId, consumer_index: i64, round: i64) -> Request {
    Request::MaybeRemoveTask { task, consumer_index, round }
}

/// Task ids of a client's list, in order.
pub(crate) fn listed(reply: &ClientHeartbeatReply) -> Vec<TaskId> {
    reply.tasks.iter().map(|info| info.task).collect()
}

/// Task ids a worker is told to start, in order.
pub(crate) fn started(reply: &WorkerHeartbeatReply) -> Vec<TaskId> {
    reply.new_tasks.iter().map(|task| task.task).collect()
}

/// Retentions short enough for a test that looks each second.
pub(crate) fn short() -> Config {
    Config {
        job_gc_check_interval: Duration::from_secs(1),
        named_job_retention: Some(Duration::from_secs(60)),
        abandoned_iteration_retention: Some(Duration::from_secs(300)),
        lost_worker_retention: Some(Duration::from_secs(200)),
        worker_timeout: Some(Duration::from_secs(20)),
        ..Config::default()
    }
}

/// A named job with dynamic sharding.
pub(crate) fn named(dataset: &DatasetId, name: &str) -> GetOrCreateJob {
    GetOrCreateJob { name: Some(name.into()), ..job(dataset, ShardingPolicy::Dynamic) }
}

impl Driver {
    #[track_caller]
    pub(crate) fn register(&mut self, request: RegisterDataset) -> DatasetId {
        match self.ask(Request::RegisterDataset(request)) {
            Ok(Reply::Dataset(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn job(&mut self, request: GetOrCreateJob) -> JobId {
        match self.ask(Request::GetOrCreateJob(request)) {
            Ok(Reply::Job(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn join(&mut self, job: JobId, repetition: i64) -> ClientId {
        match self.ask(Request::GetOrCreateIteration { job, repetition }) {
            Ok(Reply::Client(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn heartbeat(&mut self, request: Request) -> ClientHeartbeatReply {
        match self.ask(request) {
            Ok(Reply::ClientHeartbeat(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn client(&mut self, id: ClientId) -> ClientHeartbeatReply {
        self.heartbeat(client(id))
    }

    #[track_caller]
    pub(crate) fn worker_says(&mut self, heartbeat: WorkerHeartbeat) -> WorkerHeartbeatReply {
        match self.ask(Request::WorkerHeartbeat(heartbeat)) {
            Ok(Reply::WorkerHeartbeat(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn worker(&mut self, address: &str, tasks: &[TaskId]) -> WorkerHeartbeatReply {
        self.worker_says(worker(address, tasks))
    }

    #[track_caller]
    pub(crate) fn serving_worker(
        &mut self,
        address: &str,
        tasks: &[TaskId],
    ) -> WorkerHeartbeatReply {
        self.worker_says(serving_worker(address, tasks))
    }

    #[track_caller]
    pub(crate) fn finish(&mut self, address: &str, task: TaskId) {
        let answer = self.ask(update(address, &[(task, true)]));
        assert_eq!(answer, Ok(Reply::WorkerUpdated));
    }

    #[track_caller]
    pub(crate) fn release(&mut self, client: ClientId) {
        assert_eq!(self.ask(Request::ReleaseClient { client }), Ok(Reply::ClientReleased));
    }

    /// The next split of a source, `None` at the end of the pass.
    #[track_caller]
    pub(crate) fn split(
        &mut self,
        iteration: IterationId,
        repetition: i64,
        source: i64,
    ) -> Option<i64> {
        match self.ask(split(iteration, repetition, source)) {
            Ok(Reply::Split(split)) => split,
            other => panic!("{other:?}"),
        }
    }

    /// The same of the first source's first pass, asked by a worker that is known.
    #[track_caller]
    pub(crate) fn split_for(&mut self, asker: &str, iteration: IterationId) -> Option<i64> {
        match self.ask(split_for(asker, iteration, 0, 0)) {
            Ok(Reply::Split(split)) => split,
            other => panic!("{other:?}"),
        }
    }

    /// The newest iteration of a job's repetition.
    pub(crate) fn iteration(&self, job: JobId, repetition: i64) -> IterationId {
        self.state().iteration_of(job, repetition).unwrap().id
    }

    /// A dataset, a job that reads it, and a client of its first iteration.
    #[track_caller]
    pub(crate) fn reading(&mut self, sharding: ShardingPolicy) -> (JobId, ClientId) {
        let dataset = self.register(dataset(&[SplitSource::counting(3)]));
        let job = self.job(job(&dataset, sharding));
        (job, self.join(job, 0))
    }

    /// A coordinated read by this many clients, all joined.
    #[track_caller]
    pub(crate) fn reading_together(&mut self, consumers: i64) -> (JobId, Vec<ClientId>) {
        let dataset = self.register(dataset(&[]));
        let job = self.job(GetOrCreateJob {
            consumers: Some(consumers),
            ..job(&dataset, ShardingPolicy::Off)
        });
        let clients = (0..consumers).map(|_| self.join(job, 0)).collect();
        (job, clients)
    }
}
