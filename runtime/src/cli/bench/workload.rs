//! What is asked of a dispatcher, and what must be there before it can be asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use clap::ValueEnum;
use prost::Message;
use rondo_proto::convert::Method;
use rondo_proto::tf::data as wire;

use super::graph;
use super::load::Calls;
use crate::transport::Transport;
use crate::transport::grpc_client::GrpcClient;

/// The worker that sends heartbeats; nobody listens there, so that tasks pushed to it go nowhere.
const WORKER_ADDRESS: &str = "127.0.0.1:1";
/// Tasks of the worker in [`Workload::Heartbeat200`].
const TASKS: usize = 200;
/// Workers, and so tasks, in [`Workload::ClientHeartbeat5000`].
const LISTED_TASKS: usize = 5000;
/// The id of the dataset in [`Workload::Register1MibKnown`].
const KNOWN_DATASET: &str = "bench";
/// Length of the constant in registered graphs, in bytes.
const WEIGHT_BYTES: usize = 1 << 20;
/// More splits than any run can take.
const SPLITS: i64 = 1 << 40;
/// How long a call of the preparation may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// One kind of load. They are laid on in this order, since later ones need state that would change
/// earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Workload {
    /// GetVersion: the transport alone
    Version,
    /// The heartbeat of a worker without tasks
    Heartbeat,
    /// The heartbeat of a client of one iteration
    ClientHeartbeat,
    /// GetSplit of one iteration, which changes the state: durable where the server promises that
    GetSplit,
    /// GetOrRegisterDataset of graphs of 1 MiB, each another one
    #[value(name = "register-1mib")]
    Register1Mib,
    /// GetOrRegisterDataset of one graph of 1 MiB, again and again
    #[value(name = "register-1mib-again")]
    Register1MibAgain,
    /// GetOrRegisterDataset of a graph of 1 MiB under an id that a dataset has already
    #[value(name = "register-1mib-known")]
    Register1MibKnown,
    /// The heartbeat of a worker with 200 tasks, none of them new
    #[value(name = "heartbeat-200")]
    Heartbeat200,
    /// The heartbeat of a client of an iteration with 5,000 tasks (not by default: it registers 5,000
    /// workers)
    #[value(name = "client-heartbeat-5000")]
    ClientHeartbeat5000,
}

impl Workload {
    /// Its name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// How many calls of it a server can be asked to take in one round: large registrations fill
    /// disks and memory.
    pub(super) const fn calls_max(self) -> u64 {
        match self {
            Self::Register1Mib | Self::Register1MibAgain | Self::Register1MibKnown => 256,
            _ => 10_000_000,
        }
    }
}

/// A dispatcher to be measured, with what was put into it so far.
pub(super) struct Subject {
    address: SocketAddr,
    client: GrpcClient,
    iteration: Option<Iteration>,
}

#[derive(Clone, Copy)]
struct Iteration {
    client: i64,
    id: i64,
}

/// Why a workload cannot be prepared.
pub(super) type Unprepared = String;

impl Subject {
    /// The dispatcher at this address, into which nothing was put yet.
    pub(super) fn new(address: SocketAddr) -> Self {
        Self { address, client: GrpcClient::new(), iteration: None }
    }

    /// Puts into the dispatcher what the workload needs, and says what to call.
    ///
    /// # Errors
    /// When the dispatcher refuses something, or has other state already.
    pub(super) async fn prepare(
        &mut self,
        workload: Workload,
    ) -> Result<Arc<dyn Calls>, Unprepared> {
        Ok(match workload {
            Workload::Version => same(Method::GetVersion, &wire::GetVersionRequest {}),
            Workload::Heartbeat => {
                self.expect_tasks(0).await?;
                same(Method::WorkerHeartbeat, &heartbeat(Vec::new()))
            }
            Workload::ClientHeartbeat => {
                same(Method::ClientHeartbeat, &client_heartbeat(self.iteration().await?.client))
            }
            Workload::GetSplit => {
                let request = wire::GetSplitRequest {
                    iteration_id: self.iteration().await?.id,
                    ..Default::default()
                };
                same(Method::GetSplit, &request)
            }
            Workload::Register1Mib => Arc::new(Registrations::new()),
            Workload::Register1MibAgain => {
                let graph = graph::range(SPLITS, WEIGHT_BYTES, u64::MAX);
                same(Method::GetOrRegisterDataset, &registration(graph))
            }
            Workload::Register1MibKnown => self.prepare_known().await?,
            Workload::Heartbeat200 => self.prepare_tasks().await?,
            Workload::ClientHeartbeat5000 => self.prepare_long_list().await?,
        })
    }

    /// Registers the graph under the id once, so that all calls find the dataset.
    async fn prepare_known(&self) -> Result<Arc<dyn Calls>, Unprepared> {
        let graph = graph::range(SPLITS, WEIGHT_BYTES, 0);
        let dataset_id = Some(KNOWN_DATASET.to_owned());
        let request = wire::GetOrRegisterDatasetRequest { dataset_id, ..registration(graph) };
        let method = Method::GetOrRegisterDataset;
        let answer: wire::GetOrRegisterDatasetResponse = self.call(method, &request).await?;
        match answer.dataset_id == KNOWN_DATASET {
            true => Ok(same(method, &request)),
            false => Err(format!(
                "{} registered dataset {KNOWN_DATASET} as {}",
                self.address, answer.dataset_id
            )),
        }
    }

    async fn prepare_tasks(&mut self) -> Result<Arc<dyn Calls>, Unprepared> {
        let mut tasks = self.tasks().await?.len();
        let dataset = self.register().await?;
        while tasks < TASKS {
            self.create_iteration(&dataset).await?;
            tasks = tasks.saturating_add(1);
        }
        let tasks = self.expect_tasks(TASKS).await?;
        let tasks = tasks.into_iter().map(|task| task.task_id).collect();
        Ok(same(Method::WorkerHeartbeat, &heartbeat(tasks)))
    }

    /// An iteration with a task for each of many workers. It is there before they are, so that they learn of
    /// their tasks by their heartbeats and none is pushed.
    async fn prepare_long_list(&self) -> Result<Arc<dyn Calls>, Unprepared> {
        let dataset = self.register().await?;
        let client = client_heartbeat(self.create_iteration(&dataset).await?);
        for number in 0..LISTED_TASKS {
            let worker_address = format!("127.1.{}.{}:1", number >> 8, number & 255);
            let request = wire::WorkerHeartbeatRequest { worker_address, ..heartbeat(Vec::new()) };
            let _: wire::WorkerHeartbeatResponse =
                self.call(Method::WorkerHeartbeat, &request).await?;
        }
        let answer: wire::ClientHeartbeatResponse =
            self.call(Method::ClientHeartbeat, &client).await?;
        match answer.task_info.len() {
            LISTED_TASKS.. => Ok(same(Method::ClientHeartbeat, &client)),
            tasks => Err(format!("{} tells a client of {tasks} tasks", self.address)),
        }
    }

    /// The iteration that clients and splits belong to, made when first needed.
    async fn iteration(&mut self) -> Result<Iteration, Unprepared> {
        if let Some(iteration) = self.iteration {
            return Ok(iteration);
        }
        self.expect_tasks(0).await?;
        let dataset = self.register().await?;
        let client = self.create_iteration(&dataset).await?;
        let tasks = self.expect_tasks(1).await?;
        let id = tasks.first().map_or(0, |task| task.iteration_id);
        Ok(*self.iteration.insert(Iteration { client, id }))
    }

    async fn register(&self) -> Result<String, Unprepared> {
        let request = registration(graph::range(SPLITS, 0, 0));
        let answer: wire::GetOrRegisterDatasetResponse =
            self.call(Method::GetOrRegisterDataset, &request).await?;
        Ok(answer.dataset_id)
    }

    /// Makes a job of its own with one iteration, and joins it as a client.
    async fn create_iteration(&self, dataset: &str) -> Result<i64, Unprepared> {
        let dynamic = wire::processing_mode_def::ShardingPolicy::Dynamic;
        let request = wire::GetOrCreateJobRequest {
            dataset_id: dataset.to_owned(),
            processing_mode_def: Some(wire::ProcessingModeDef { sharding_policy: dynamic.into() }),
            target_workers: wire::TargetWorkers::Any.into(),
            ..Default::default()
        };
        let job: wire::GetOrCreateJobResponse = self.call(Method::GetOrCreateJob, &request).await?;
        let request = wire::GetOrCreateIterationRequest { job_id: job.job_id, repetition: 0 };
        let answer: wire::GetOrCreateIterationResponse =
            self.call(Method::GetOrCreateIteration, &request).await?;
        Ok(answer.iteration_client_id)
    }

    /// The worker's tasks; registers it when it is new.
    async fn tasks(&self) -> Result<Vec<wire::TaskDef>, Unprepared> {
        let request = heartbeat(Vec::new());
        let answer: wire::WorkerHeartbeatResponse =
            self.call(Method::WorkerHeartbeat, &request).await?;
        Ok(answer.new_tasks)
    }

    async fn expect_tasks(&self, expected: usize) -> Result<Vec<wire::TaskDef>, Unprepared> {
        let tasks = self.tasks().await?;
        if tasks.len() == expected {
            return Ok(tasks);
        }
        Err(format!(
            "{} gives worker {WORKER_ADDRESS} {} tasks where {expected} were expected; measure a \
             server that was just started and that nobody else uses",
            self.address,
            tasks.len()
        ))
    }

    async fn call<A: Message + Default>(
        &self,
        method: Method,
        request: &impl Message,
    ) -> Result<A, Unprepared> {
        let (address, message) = (self.address.to_string(), request.encode_to_vec().into());
        let answer = self.client.unary(&address, method.path(), message, DEADLINE);
        let answer = answer.await.map_err(|status| format!("{address}: {status}"))?;
        A::decode(answer).map_err(|error| format!("{address}: {}: {error}", method.name()))
    }
}

fn heartbeat(current_tasks: Vec<i64>) -> wire::WorkerHeartbeatRequest {
    wire::WorkerHeartbeatRequest {
        worker_address: WORKER_ADDRESS.to_owned(),
        current_tasks,
        worker_uid: 7,
        ..Default::default()
    }
}

const fn client_heartbeat(client: i64) -> wire::ClientHeartbeatRequest {
    wire::ClientHeartbeatRequest {
        iteration_client_id: client,
        current_round: None,
        blocked_round: None,
        target_processing_time_nsec: 0.0,
    }
}

fn registration(dataset: Bytes) -> wire::GetOrRegisterDatasetRequest {
    let metadata = wire::DataServiceMetadata { cardinality: SPLITS, ..Default::default() };
    wire::GetOrRegisterDatasetRequest {
        replaces: false,
        dataset: Some(dataset),
        metadata: Some(metadata.encode_to_vec().into()),
        dataset_id: None,
    }
}

fn same(method: Method, request: &impl Message) -> Arc<dyn Calls> {
    let path = method.path();
    let message = request.encode_to_vec().into();
    Arc::new(Same { path, message })
}

/// The same call again and again.
struct Same {
    path: &'static str,
    message: Bytes,
}

impl Calls for Same {
    fn path(&self) -> &'static str {
        self.path
    }

    fn message(&self, _serial: u64) -> Bytes {
        self.message.clone()
    }
}

/// Registrations of large graphs that differ in eight bytes.
struct Registrations {
    template: Bytes,
    serial_at: usize,
}

impl Registrations {
    fn new() -> Self {
        let encoded = |serial| {
            let graph = graph::range(SPLITS, WEIGHT_BYTES, serial);
            registration(graph).encode_to_vec()
        };
        let template: Bytes = encoded(0).into();
        let other = encoded(u64::MAX);
        let serial_at = template.iter().zip(&other).position(|(a, b)| a != b);
        let serial_at = serial_at.unwrap_or_default();
        Self { template, serial_at }
    }
}

impl Calls for Registrations {
    fn path(&self) -> &'static str {
        Method::GetOrRegisterDataset.path()
    }

    fn message(&self, serial: u64) -> Bytes {
        let mut message = BytesMut::from(&*self.template);
        let place = self.serial_at..self.serial_at.saturating_add(8);
        if let Some(place) = message.get_mut(place) {
            place.copy_from_slice(&serial.to_le_bytes());
        }
        message.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_differ_in_the_graph_and_stay_readable() {
        let calls = Registrations::new();
        let graph = |serial| {
            let request = wire::GetOrRegisterDatasetRequest::decode(calls.message(serial)).unwrap();
            request.dataset.unwrap()
        };
        assert_ne!(graph(1), graph(2));
        assert_eq!(graph(9), graph(9));
        rondo_proto::graph::prepare(&graph(5)).unwrap();
    }

    #[test]
    fn names_are_those_of_the_documentation() {
        let names: Vec<String> = Workload::value_variants().iter().map(|w| w.name()).collect();
        let expected = [
            "version",
            "heartbeat",
            "client-heartbeat",
            "get-split",
            "register-1mib",
            "register-1mib-again",
            "register-1mib-known",
            "heartbeat-200",
            "client-heartbeat-5000",
        ];
        assert_eq!(names, expected);
    }
}
