//! A client of the dispatcher that sends what it is told, right or wrong.

use std::fmt;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use prost::Message;
use rondo_proto::admin::{GetStatusRequest, GetStatusResponse};
use rondo_proto::health::{HealthCheckRequest, HealthCheckResponse};
use rondo_proto::tf::data::disable_compression_at_runtime_response::Response as Compression;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use rondo_proto::tf::data::{
    ClientHeartbeatRequest, ClientHeartbeatResponse, DataServiceMetadata,
    DisableCompressionAtRuntimeRequest, DisableCompressionAtRuntimeResponse,
    GetDataServiceMetadataRequest, GetDataServiceMetadataResponse, GetDatasetDefRequest,
    GetDatasetDefResponse, GetOrCreateIterationRequest, GetOrCreateIterationResponse,
    GetOrCreateJobRequest, GetOrCreateJobResponse, GetOrRegisterDatasetRequest,
    GetOrRegisterDatasetResponse, GetSplitRequest, GetSplitResponse, ProcessingModeDef,
    ReleaseIterationClientRequest, ReleaseIterationClientResponse, TargetWorkers, TaskProgress,
    WorkerHeartbeatRequest, WorkerHeartbeatResponse, WorkerUpdateRequest, WorkerUpdateResponse,
};
use tokio::runtime::Runtime;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// No answer within this time is a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a dispatcher, used by one thread.
pub struct Dispatcher {
    runtime: Runtime,
    channel: Channel,
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Dispatcher").finish_non_exhaustive()
    }
}

impl Dispatcher {
    /// A client of the dispatcher at `address` (`host:port`), which connects with its first call.
    ///
    /// # Panics
    /// When `address` is none.
    pub fn connect(address: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a thread can have a runtime");
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let guard = runtime.enter();
        let channel = endpoint.connect_lazy();
        drop(guard);
        Self { runtime, channel }
    }

    /// Calls a method of the dispatcher, such as `GetSplit`.
    ///
    /// # Errors
    /// The status it refuses with; UNAVAILABLE also when the connection breaks.
    pub fn call<Q: Message, R: Message + Default>(
        &self,
        method: &str,
        request: &Q,
    ) -> Result<R, Status> {
        self.method(&format!("/tensorflow.data.DispatcherService/{method}"), request)
    }

    /// Calls any method by its path.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn method<Q: Message, R: Message + Default>(
        &self,
        path: &str,
        request: &Q,
    ) -> Result<R, Status> {
        let answer = self.bytes(path, request.encode_to_vec().into())?;
        R::decode(answer).map_err(|error| Status::internal(format!("answer of {path}: {error}")))
    }

    /// Sends bytes, whatever they are, to a method.
    ///
    /// # Errors
    /// As [`Self::call`].
    ///
    /// # Panics
    /// When no answer comes.
    pub fn bytes(&self, path: &str, request: Bytes) -> Result<Bytes, Status> {
        let path = path.parse::<PathAndQuery>().expect("a path");
        let mut grpc = tonic::client::Grpc::new(self.channel.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        self.runtime
            .block_on(async {
                let call = async {
                    grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
                    grpc.unary(Request::new(request), path.clone(), Raw).await
                };
                let answer = tokio::time::timeout(PATIENCE, call).await;
                answer.unwrap_or_else(|_| panic!("no answer to {path} within {PATIENCE:?}"))
            })
            .map(tonic::Response::into_inner)
    }

    /// Registers a dataset, under an id of one's own or the dispatcher's choice.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn register(
        &self,
        id: Option<&str>,
        definition: Bytes,
        metadata: &DataServiceMetadata,
    ) -> Result<String, Status> {
        let request = GetOrRegisterDatasetRequest {
            dataset: Some(definition),
            metadata: Some(metadata.encode_to_vec().into()),
            dataset_id: id.map(String::from),
            replaces: false,
        };
        let answer: GetOrRegisterDatasetResponse = self.call("GetOrRegisterDataset", &request)?;
        Ok(answer.dataset_id)
    }

    /// The definition of a dataset as bytes.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn definition(&self, id: &str) -> Result<Bytes, Status> {
        let request = GetDatasetDefRequest { dataset_id: id.into() };
        let answer: GetDatasetDefResponse = self.call("GetDatasetDef", &request)?;
        Ok(answer.dataset_def.unwrap_or_default())
    }

    /// The metadata of a dataset as bytes.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn metadata(&self, id: &str) -> Result<Bytes, Status> {
        let request = GetDataServiceMetadataRequest { dataset_id: id.into() };
        let answer: GetDataServiceMetadataResponse =
            self.call("GetDataServiceMetadata", &request)?;
        Ok(answer.metadata.unwrap_or_default())
    }

    /// Wishes compression off or on; the decision that binds, `None` if there is none to switch.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn disable_compression(&self, id: &str, wish: bool) -> Result<Option<bool>, Status> {
        let request = DisableCompressionAtRuntimeRequest {
            dataset_id: id.into(),
            disable_compression_at_runtime: wish,
        };
        let answer: DisableCompressionAtRuntimeResponse =
            self.call("DisableCompressionAtRuntime", &request)?;
        match answer.response {
            Some(Compression::CompressionDisabledAtRuntime(disabled)) => Ok(Some(disabled)),
            Some(Compression::NoCompressionToDisable(true)) => Ok(None),
            other => Err(Status::internal(format!("the answer decides nothing: {other:?}"))),
        }
    }

    /// The job of this name over the dataset, as clients of TensorFlow ask for it.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn job(
        &self,
        dataset: &str,
        name: Option<&str>,
        policy: ShardingPolicy,
    ) -> Result<i64, Status> {
        let answer: GetOrCreateJobResponse =
            self.call("GetOrCreateJob", &job(dataset, name, policy))?;
        Ok(answer.job_id)
    }

    /// A new client of the job's iteration of this repetition.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn iteration(&self, job_id: i64, repetition: i64) -> Result<i64, Status> {
        let request = GetOrCreateIterationRequest { job_id, repetition };
        let answer: GetOrCreateIterationResponse = self.call("GetOrCreateIteration", &request)?;
        Ok(answer.iteration_client_id)
    }

    /// A client's heartbeat.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn heartbeat(&self, client: i64) -> Result<ClientHeartbeatResponse, Status> {
        let request = ClientHeartbeatRequest { iteration_client_id: client, ..Default::default() };
        self.call("ClientHeartbeat", &request)
    }

    /// A client's farewell.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn release(&self, client: i64) -> Result<(), Status> {
        let request = ReleaseIterationClientRequest { iteration_client_id: client };
        self.call::<_, ReleaseIterationClientResponse>("ReleaseIterationClient", &request).map(drop)
    }

    /// A worker's heartbeat.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn worker_heartbeat(
        &self,
        address: &str,
        tasks: &[i64],
    ) -> Result<WorkerHeartbeatResponse, Status> {
        let request = WorkerHeartbeatRequest {
            worker_address: address.into(),
            current_tasks: tasks.to_vec(),
            ..Default::default()
        };
        self.call("WorkerHeartbeat", &request)
    }

    /// A worker's word that tasks are completed.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn finish(&self, address: &str, tasks: &[i64]) -> Result<(), Status> {
        let updates =
            tasks.iter().map(|&task_id| TaskProgress { task_id, completed: true }).collect();
        let request = WorkerUpdateRequest { worker_address: address.into(), updates };
        self.call::<_, WorkerUpdateResponse>("WorkerUpdate", &request).map(drop)
    }

    /// The next split of a source, `None` at the end of the pass.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn split(
        &self,
        iteration_id: i64,
        repetition: i64,
        source: i64,
    ) -> Result<Option<i64>, Status> {
        let request = GetSplitRequest { iteration_id, repetition, split_provider_index: source };
        let answer: GetSplitResponse = self.call("GetSplit", &request)?;
        match (answer.split, answer.end_of_splits) {
            (None, true) => Ok(None),
            (Some(tensor), false) => {
                let value = tensor.tensor_content.as_ref().try_into().map(i64::from_le_bytes);
                value
                    .map(Some)
                    .map_err(|_| Status::internal(format!("{tensor:?} is no int64 scalar")))
            }
            other => Err(Status::internal(format!("neither split nor end: {other:?}"))),
        }
    }

    /// A picture of the whole server.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn status(&self) -> Result<GetStatusResponse, Status> {
        self.method("/rondo.v1.Admin/GetStatus", &GetStatusRequest {})
    }

    /// Whether the server says that it is well.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn is_serving(&self) -> Result<bool, Status> {
        use rondo_proto::health::health_check_response::ServingStatus;
        let request = HealthCheckRequest::default();
        let answer: HealthCheckResponse = self.method("/grpc.health.v1.Health/Check", &request)?;
        Ok(answer.status() == ServingStatus::Serving)
    }
}

/// A request for a job as clients of TensorFlow make it.
pub fn job(dataset: &str, name: Option<&str>, policy: ShardingPolicy) -> GetOrCreateJobRequest {
    GetOrCreateJobRequest {
        dataset_id: dataset.into(),
        processing_mode_def: Some(ProcessingModeDef { sharding_policy: policy.into() }),
        job_name: name.map(String::from),
        num_consumers: None,
        use_cross_trainer_cache: false,
        target_workers: TargetWorkers::Auto.into(),
        same_dataset: false,
    }
}

/// True for a status after which clients of TensorFlow try again.
pub fn is_retried(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::Aborted | Code::Cancelled)
}

/// Messages as they are.
#[derive(Clone, Copy, Debug)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
