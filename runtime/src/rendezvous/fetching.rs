//! Tensors fetched from other workers: from Rondo's in pieces, over as many connections as it takes; from
//! TensorFlow's as they know it, once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rondo_core::element::Tensor;
use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_core::rendezvous::{Failure, Value};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{
    Fetch, RecvTensor, RendezvousMethod, RendezvousRequest, WorkerDevice,
    decode_fetch_chunk_in_pieces, decode_received_tensor, decode_worker_devices,
    decode_worker_refusal, encode_rendezvous_request,
};

use super::acknowledging::{Acknowledgements, acknowledge};
use super::assembling::{Partial, joined};
use super::manager::Ways;
use super::remote::value;
use super::state::Wanted;
use crate::transport::{MessageStream, Transport, is_unreached};

/// An answer above this is long: it goes on over a connection for such, in bytes.
const SHORT_BYTES_MAX: u64 = 64 << 10;
/// Pieces in which long answers are asked for, in bytes. What comes in one is not copied; what is lost
/// with a broken connection is asked for again.
const PIECE_BYTES: u64 = 32 << 20;
/// How long a worker may take to tell of its devices, and to hear that we have a tensor.
const DEADLINE: Duration = Duration::from_secs(10);

/// Fetches tensors from other workers.
pub(super) struct Fetcher {
    /// By the workers' names.
    addresses: BTreeMap<String, String>,
    ways: Ways,
    /// Addresses at which TensorFlow answers.
    tensorflow: Mutex<BTreeSet<String>>,
    acknowledgements: Arc<Acknowledgements>,
}

/// Why an answer did not come.
enum NoAnswer {
    /// There was no way, or it broke.
    Away(Status),
    /// The worker does not know Fetch.
    NotRondo,
    Refused(Status),
}

/// A fetch, as long as it is not over: its worker need not keep the answer once nobody wants it.
struct Asking<'a> {
    fetcher: &'a Fetcher,
    address: &'a str,
    wanted: &'a Wanted,
    is_long: bool,
    /// Whether the worker may keep an answer for us that we do not want any more.
    is_given_up: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.is_given_up {
            self.fetcher.acknowledge(self.address, self.wanted, self.is_long);
        }
    }
}

impl Fetcher {
    pub(super) fn new(addresses: BTreeMap<String, String>, ways: Ways) -> Self {
        Self { addresses, ways, tensorflow: Mutex::default(), acknowledgements: Arc::default() }
    }

    /// Fetches a tensor. What came when the connection breaks stays in `partial`.
    pub(super) async fn fetch(
        &self,
        wanted: &Wanted,
        partial: &mut Partial,
    ) -> Result<Value<Tensor>, Failure> {
        let address = self.address(&wanted.worker).map_err(Failure::Refused)?;
        if !self.is_tensorflow(address) {
            match self.fetch_in_pieces(address, wanted, partial).await {
                Ok(value) => return Ok(value),
                Err(NoAnswer::Away(status)) => return Err(Failure::Away(status)),
                Err(NoAnswer::Refused(status)) => return Err(Failure::Refused(status)),
                Err(NoAnswer::NotRondo) => self.note_tensorflow(address),
            }
        }
        self.recv_tensor(address, wanted).await
    }

    /// The devices of another worker.
    pub(super) async fn devices_of(&self, worker: &str) -> Result<Vec<WorkerDevice>, Status> {
        let address = self.address(worker)?;
        let message = encode_rendezvous_request(&RendezvousRequest::GetStatus)?.join();
        let path = RendezvousMethod::GetStatus.path();
        let answer = self.ways.short.unary(address, path, message, DEADLINE).await?;
        decode_worker_devices(&answer)
    }

    fn address(&self, worker: &str) -> Result<&str, Status> {
        self.addresses.get(worker).map(String::as_str).ok_or_else(|| {
            let known: Vec<&str> = self.addresses.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let text = format!(
                "No worker known as {worker}: its address is not among the peers (--rendezvous-peer), of \
                 which there are {known}"
            );
            Status::new(Code::Internal, text)
        })
    }

    fn is_tensorflow(&self, address: &str) -> bool {
        self.tensorflow.lock().unwrap_or_else(PoisonError::into_inner).contains(address)
    }

    fn note_tensorflow(&self, address: &str) {
        tracing::debug!(address, "a worker of TensorFlow's");
        let mut all = self.tensorflow.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(address.to_owned());
    }

    fn acknowledge(&self, address: &str, wanted: &Wanted, is_long: bool) {
        let what = (wanted.request, is_long);
        acknowledge(&self.acknowledgements, &self.ways.short, address, what);
    }

    async fn fetch_in_pieces(
        &self,
        address: &str,
        wanted: &Wanted,
        partial: &mut Partial,
    ) -> Result<Value<Tensor>, NoAnswer> {
        let mut asking =
            Asking { fetcher: self, address, wanted, is_long: false, is_given_up: true };
        while !partial.is_whole() {
            asking.is_long = partial.total() > SHORT_BYTES_MAX;
            if let Err(none) = self.ask_for_rest(address, wanted, partial).await {
                // A worker that we shall ask again keeps it; one that refuses has nothing to keep.
                asking.is_given_up = false;
                return Err(none);
            }
        }
        let answer = std::mem::take(partial).finish();
        decoded(&answer).map(|(value, _)| value).map_err(NoAnswer::Refused)
    }

    /// Takes pieces to the end, or until it turns out that the answer is long.
    async fn ask_for_rest(
        &self,
        address: &str,
        wanted: &Wanted,
        partial: &mut Partial,
    ) -> Result<(), NoAnswer> {
        let is_long = partial.total() > SHORT_BYTES_MAX;
        let (way, chunk_bytes) = match is_long {
            true => (&self.ways.long, PIECE_BYTES),
            false => (&self.ways.short, SHORT_BYTES_MAX),
        };
        let finished = self.acknowledgements.take(address);
        let request = Fetch {
            step: wanted.step,
            key: wanted.key.clone(),
            request: wanted.request,
            offset: partial.len(),
            chunk_bytes,
            finished: finished.clone(),
        };
        let mut answer = self.call(way, address, RendezvousRequest::Fetch(request))?;
        let mut is_first = true;
        while !partial.is_whole() {
            let message = match answer.next_pieces().await {
                Ok(Some(message)) => message,
                Ok(None) => {
                    let (came, total) = (partial.len(), partial.total());
                    let text = format!("the answer to Fetch ends after {came} of {total} bytes");
                    return Err(NoAnswer::Refused(Status::new(Code::Internal, text)));
                }
                Err(status) => {
                    if is_first {
                        self.acknowledgements.put_back(address, finished);
                    }
                    return Err(no_answer(status));
                }
            };
            is_first = false;
            let chunk = decode_fetch_chunk_in_pieces(message);
            chunk.and_then(|chunk| partial.push(chunk)).map_err(NoAnswer::Refused)?;
            if !is_long && partial.total() > SHORT_BYTES_MAX {
                // It comes once more, so that all of it can be read to where it stays.
                partial.forget();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Asks a worker of TensorFlow's, once and without a deadline: one that passes would end its step.
    async fn recv_tensor(&self, address: &str, wanted: &Wanted) -> Result<Value<Tensor>, Failure> {
        let Wanted { step, key, request, .. } = wanted.clone();
        let request = RendezvousRequest::RecvTensor(RecvTensor { step, key, request });
        let mut answer = match self.call(&self.ways.long, address, request) {
            Ok(answer) => answer,
            Err(NoAnswer::Away(status) | NoAnswer::Refused(status)) => {
                return Err(Failure::Refused(status));
            }
            Err(NoAnswer::NotRondo) => return Err(Failure::Refused(nothing())),
        };
        let message = match answer.next_pieces().await {
            Ok(Some(message)) => joined(message),
            Ok(None) => return Err(Failure::Refused(nothing())),
            Err(status) if is_unreached(&status) => return Err(Failure::Away(status)),
            Err(status) if is_broken(&status) => return Err(Failure::Lost(status)),
            Err(status) => return Err(Failure::Refused(decode_worker_refusal(status))),
        };
        let (value, must_tell) = decoded(&message).map_err(Failure::Refused)?;
        if must_tell {
            self.mark_finished(address, wanted);
        }
        Ok(value)
    }

    fn mark_finished(&self, address: &str, wanted: &Wanted) {
        let finished = RendezvousRequest::MarkRecvFinished { request: wanted.request };
        let Ok(message) = encode_rendezvous_request(&finished) else { return };
        let path = finished.method().path();
        let told = self.ways.short.unary(address, path, message.join(), DEADLINE);
        tokio::spawn(async move {
            if let Err(status) = told.await {
                tracing::debug!(%status, "a worker keeps a tensor that we have");
            }
        });
    }

    fn call(
        &self,
        way: &Arc<dyn Transport>,
        address: &str,
        request: RendezvousRequest,
    ) -> Result<MessageStream, NoAnswer> {
        let message = encode_rendezvous_request(&request).map_err(NoAnswer::Refused)?.join();
        Ok(way.streaming(address, request.method().path(), message))
    }
}

/// The tensor in an answer, and whether its worker keeps it until it is told.
fn decoded(answer: &Bytes) -> Result<(Value<Tensor>, bool), Status> {
    let received = decode_received_tensor(answer, ELEMENT_BYTES_MAX)?;
    Ok((value(received.tensor, received.is_dead), received.require_ack))
}

fn no_answer(status: Status) -> NoAnswer {
    match status.code {
        Code::Unimplemented => NoAnswer::NotRondo,
        // A worker that ends says so, or breaks the connection: one comes back in its place, or none.
        Code::Unavailable => NoAnswer::Away(status),
        _ => NoAnswer::Refused(decode_worker_refusal(status)),
    }
}

fn is_broken(status: &Status) -> bool {
    status.code == Code::Unavailable
}

fn nothing() -> Status {
    Status::new(Code::Internal, "the answer to RecvTensor has no message")
}
