//! The rendezvous of a worker's steps: requests to it and its answers, for both sides, as TensorFlow's
//! workers speak (`tensorflow.WorkerService`) and as Rondo's do (`rondo.v1.Rendezvous`).

mod answers;
mod chunks;
mod method;
mod refusals;
mod requests;
mod sending;
mod tensors;
#[cfg(test)]
mod tests;

use rondo_core::element::Tensor;
use rondo_core::ids::{RequestId, StepId};
use rondo_core::rendezvous::Key;

pub use answers::{WorkerDevice, decode_worker_devices, encode_done, encode_worker_devices};
pub use chunks::{
    FetchChunk, content_of_fetch_chunk, decode_fetch_chunk, decode_fetch_chunk_in_pieces,
    encode_fetch_chunk,
};
pub use method::{RendezvousMethod, SERVICE_RENDEZVOUS, SERVICE_WORKER};
pub use refusals::{decode_worker_refusal, encode_worker_refusal};
pub use requests::{RendezvousRequest, decode_rendezvous_request, encode_rendezvous_request};
pub use tensors::{
    ReceivedTensor, content_of_received_tensor, dead_tensor, decode_received_tensor,
    encode_received_tensor,
};

/// A request for a tensor, as TensorFlow's workers make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecvTensor {
    /// The step.
    pub step: StepId,
    /// The key.
    pub key: Key,
    /// Tells requests apart; 0 tells nothing.
    pub request: RequestId,
}

/// A request for a tensor that may be made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The step.
    pub step: StepId,
    /// The key.
    pub key: Key,
    /// Tells requests apart; not 0.
    pub request: RequestId,
    /// Bytes of the answer that the client has.
    pub offset: u64,
    /// An answer of more than so many bytes comes in several messages; 0 leaves that to the worker.
    pub chunk_bytes: u64,
    /// Requests whose answers the client has.
    pub finished: Vec<RequestId>,
}

/// A tensor that is produced outside of the process that hosts the rendezvous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendTensor {
    /// The step.
    pub step: StepId,
    /// The key.
    pub key: Key,
    /// The tensor.
    pub tensor: Tensor,
    /// Whether it comes of a branch that was not taken: then the tensor has no meaning.
    pub is_dead: bool,
    /// Whether the call waits for room where there is none for now.
    pub waits: bool,
}
