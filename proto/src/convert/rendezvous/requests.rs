//! Requests to a rendezvous, for both sides.

use bytes::Bytes;
use prost::Message as _;
use rondo_core::ids::{RequestId, StepId};
use rondo_core::limits::REQUEST_BYTES_MAX;
use rondo_core::rendezvous::{Key, Session};
use rondo_core::status::{Code, Status};

use super::sending::{decode_send, encode_send};
use super::{Fetch, RecvTensor, RendezvousMethod, SendTensor};
use crate::convert::check::{field, message};
use crate::pieces::Pieces;
use crate::{admin as wire, tf};

/// A request to a rendezvous, decoded and checked.
#[derive(Clone, Debug)]
pub enum RendezvousRequest {
    /// Which devices the worker has: answer with [`super::encode_worker_devices`].
    GetStatus,
    /// A tensor is wanted.
    RecvTensor(RecvTensor),
    /// A step is over.
    CleanupGraph {
        /// The step.
        step: StepId,
    },
    /// Containers of resources are to be cleared, of which there are none.
    CleanupAll,
    /// The client has what answered its request.
    MarkRecvFinished {
        /// The request.
        request: RequestId,
    },
    /// A tensor is wanted, and may be asked for again.
    Fetch(Fetch),
    /// The client has what answered its requests.
    Finish {
        /// The requests.
        requests: Vec<RequestId>,
    },
    /// A tensor is produced.
    Send(SendTensor),
    /// A step learns which worker it is of.
    Initialize {
        /// The step.
        step: StepId,
        /// The worker.
        session: Session,
    },
    /// A step cannot go on.
    Abort {
        /// The step.
        step: StepId,
        /// Why.
        status: Status,
    },
}

impl RendezvousRequest {
    /// The method that carries it.
    pub const fn method(&self) -> RendezvousMethod {
        match self {
            Self::GetStatus => RendezvousMethod::GetStatus,
            Self::RecvTensor(_) => RendezvousMethod::RecvTensor,
            Self::CleanupGraph { .. } => RendezvousMethod::CleanupGraph,
            Self::CleanupAll => RendezvousMethod::CleanupAll,
            Self::MarkRecvFinished { .. } => RendezvousMethod::MarkRecvFinished,
            Self::Fetch(_) => RendezvousMethod::Fetch,
            Self::Finish { .. } => RendezvousMethod::Finish,
            Self::Send(_) => RendezvousMethod::Send,
            Self::Initialize { .. } => RendezvousMethod::Initialize,
            Self::Abort { .. } => RendezvousMethod::Abort,
        }
    }
}

/// Decodes the request message of `method`. A tensor's values are slices of `bytes` where they can be.
///
/// # Errors
/// INVALID_ARGUMENT for malformed bytes and wrong values, RESOURCE_EXHAUSTED for requests that are too
/// long and for tensors that take more than `bytes_max` bytes of memory beside the message, or repeat
/// values for more than [`rondo_core::limits::EXPANDED_BYTES_MAX`], UNIMPLEMENTED for tensors of variants
/// and resources.
pub fn decode_rendezvous_request(
    method: RendezvousMethod,
    bytes: &Bytes,
    bytes_max: u64,
) -> Result<RendezvousRequest, Status> {
    // What is sent may be long.
    if method != RendezvousMethod::Send {
        short(method, bytes)?;
    }
    Ok(match method {
        RendezvousMethod::GetStatus => {
            message::<tf::GetStatusRequest>("GetStatusRequest", bytes)?;
            RendezvousRequest::GetStatus
        }
        RendezvousMethod::Send => RendezvousRequest::Send(decode_send(bytes, bytes_max)?),
        RendezvousMethod::RecvTensor => {
            let request: tf::RecvTensorRequest = message("RecvTensorRequest", bytes)?;
            RendezvousRequest::RecvTensor(RecvTensor {
                step: StepId::new(request.step_id),
                key: Key::parse(&request.rendezvous_key)?,
                request: RequestId::new(request.request_id),
            })
        }
        RendezvousMethod::CleanupGraph => {
            let request: tf::CleanupGraphRequest = message("CleanupGraphRequest", bytes)?;
            RendezvousRequest::CleanupGraph { step: StepId::new(request.step_id) }
        }
        RendezvousMethod::CleanupAll => {
            message::<tf::CleanupAllRequest>("CleanupAllRequest", bytes)?;
            RendezvousRequest::CleanupAll
        }
        RendezvousMethod::MarkRecvFinished => {
            let request: tf::MarkRecvFinishedRequest = message("MarkRecvFinishedRequest", bytes)?;
            RendezvousRequest::MarkRecvFinished { request: RequestId::new(request.request_id) }
        }
        RendezvousMethod::Fetch => RendezvousRequest::Fetch(decode_fetch(bytes)?),
        RendezvousMethod::Finish => {
            let request: wire::FinishRequest = message("FinishRequest", bytes)?;
            let requests = field("FinishRequest", "request_id").items(request.request_id)?;
            RendezvousRequest::Finish { requests: ids(requests) }
        }
        RendezvousMethod::Initialize => decode_initialize(bytes)?,
        RendezvousMethod::Abort => decode_abort(bytes)?,
    })
}

fn short(method: RendezvousMethod, bytes: &Bytes) -> Result<(), Status> {
    if bytes.len() <= REQUEST_BYTES_MAX {
        return Ok(());
    }
    let (name, size) = (method.name(), bytes.len());
    let text = format!(
        "{name}Request is {size} bytes long; at most {REQUEST_BYTES_MAX} bytes are allowed"
    );
    Err(Status::new(Code::ResourceExhausted, text))
}

fn ids(numbers: Vec<i64>) -> Vec<RequestId> {
    numbers.into_iter().map(RequestId::new).collect()
}

fn decode_fetch(bytes: &Bytes) -> Result<Fetch, Status> {
    const NAME: &str = "FetchRequest";
    let request: wire::FetchRequest = message(NAME, bytes)?;
    if request.request_id == 0 {
        let right = "it must be drawn anew for each tensor, and be none of those in use";
        return Err(field(NAME, "request_id").refuse(0, right));
    }
    Ok(Fetch {
        step: StepId::new(request.step_id),
        key: Key::parse(&request.rendezvous_key)?,
        request: RequestId::new(request.request_id),
        offset: request.offset,
        chunk_bytes: request.chunk_bytes,
        finished: ids(field(NAME, "finished").items(request.finished)?),
    })
}

fn decode_initialize(bytes: &Bytes) -> Result<RendezvousRequest, Status> {
    const NAME: &str = "InitializeRequest";
    let request: wire::InitializeRequest = message(NAME, bytes)?;
    let worker_name = field(NAME, "worker_name").name(request.worker_name)?.into();
    let step = StepId::new(request.step_id);
    Ok(RendezvousRequest::Initialize { step, session: Session { worker_name } })
}

fn decode_abort(bytes: &Bytes) -> Result<RendezvousRequest, Status> {
    const NAME: &str = "AbortRequest";
    let request: wire::AbortRequest = message(NAME, bytes)?;
    let number = request.code;
    let code = Code::of_number(number).ok_or_else(|| {
        field(NAME, "code").refuse(number, "it must be a gRPC status code from 1 to 16")
    })?;
    let text = field(NAME, "message").name(request.message)?;
    let step = StepId::new(request.step_id);
    Ok(RendezvousRequest::Abort { step, status: Status::new(code, text) })
}

/// Encodes a request as the request message of its method. What is long of a tensor is not copied.
///
/// # Errors
/// UNIMPLEMENTED for tensors of variants and resources.
pub fn encode_rendezvous_request(request: &RendezvousRequest) -> Result<Pieces, Status> {
    let message = match request {
        RendezvousRequest::GetStatus => tf::GetStatusRequest {}.encode_to_vec(),
        RendezvousRequest::RecvTensor(RecvTensor { step, key, request }) => tf::RecvTensorRequest {
            step_id: step.get(),
            rendezvous_key: key.text().to_owned(),
            request_id: request.get(),
            ..Default::default()
        }
        .encode_to_vec(),
        RendezvousRequest::CleanupGraph { step } => {
            tf::CleanupGraphRequest { step_id: step.get() }.encode_to_vec()
        }
        RendezvousRequest::CleanupAll => tf::CleanupAllRequest::default().encode_to_vec(),
        RendezvousRequest::MarkRecvFinished { request } => {
            tf::MarkRecvFinishedRequest { request_id: request.get() }.encode_to_vec()
        }
        RendezvousRequest::Fetch(fetch) => encode_fetch(fetch),
        RendezvousRequest::Finish { requests } => {
            wire::FinishRequest { request_id: numbers(requests) }.encode_to_vec()
        }
        RendezvousRequest::Send(send) => return encode_send(send),
        RendezvousRequest::Initialize { step, session } => wire::InitializeRequest {
            step_id: step.get(),
            worker_name: session.worker_name.as_ref().to_owned(),
        }
        .encode_to_vec(),
        RendezvousRequest::Abort { step, status } => wire::AbortRequest {
            step_id: step.get(),
            code: status.code.number(),
            message: status.message.clone(),
        }
        .encode_to_vec(),
    };
    Ok(message.into())
}

fn encode_fetch(fetch: &Fetch) -> Vec<u8> {
    wire::FetchRequest {
        step_id: fetch.step.get(),
        rendezvous_key: fetch.key.text().to_owned(),
        request_id: fetch.request.get(),
        offset: fetch.offset,
        chunk_bytes: fetch.chunk_bytes,
        finished: numbers(&fetch.finished),
    }
    .encode_to_vec()
}

fn numbers(ids: &[RequestId]) -> Vec<i64> {
    ids.iter().map(|id| id.get()).collect()
}
