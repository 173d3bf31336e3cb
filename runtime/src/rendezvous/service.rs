//! What other workers, and producers outside of this process, ask.

use std::future::ready;
use std::pin::pin;

use bytes::Bytes;
use rondo_core::limits::ELEMENT_BYTES_MAX;
use rondo_core::rendezvous::{Args, Asked};
use rondo_core::status::{Code, Detail, Status};
use rondo_proto::convert::{
    Fetch, FetchChunk, ReceivedTensor, RecvTensor, RendezvousMethod, RendezvousRequest, SendTensor,
    decode_rendezvous_request, encode_done, encode_fetch_chunk, encode_received_tensor,
    encode_worker_devices, encode_worker_refusal,
};
use rondo_proto::pieces::Pieces;

use super::RendezvousManager;
use super::remote::sent;
use crate::transport::{BoxFuture, Call, MessageWriter, Service};

/// Pieces of an answer whose client does not say how long they shall be, in bytes.
const PIECE_BYTES: u64 = 4 << 20;
/// The shortest pieces there are, in bytes, however short a client wants them.
const PIECE_BYTES_MIN: u64 = 4 << 10;

/// The rendezvous of a worker as a service: what of `tensorflow.WorkerService` concerns it, and
/// `rondo.v1.Rendezvous`.
#[derive(Clone)]
pub struct RendezvousService {
    manager: RendezvousManager,
}

impl RendezvousService {
    /// The service of these steps.
    pub fn new(manager: RendezvousManager) -> Self {
        Self { manager }
    }

    async fn answer(&self, call: Call) -> Result<Bytes, Status> {
        match decoded(&call)? {
            RendezvousRequest::GetStatus => {
                return Ok(encode_worker_devices(self.manager.devices()));
            }
            RendezvousRequest::CleanupGraph { step } => self.manager.cleanup(step),
            // It clears containers of resources, of which there are none.
            RendezvousRequest::CleanupAll => {}
            RendezvousRequest::MarkRecvFinished { request } => self.manager.finished(request),
            RendezvousRequest::Finish { requests } => {
                requests.into_iter().for_each(|request| self.manager.finished(request));
            }
            RendezvousRequest::Send(send) => self.send(send, call.message.len() as u64).await?,
            RendezvousRequest::Initialize { step, session } => {
                self.manager.find(step)?.initialize(&session)?;
            }
            RendezvousRequest::Abort { step, status } => {
                self.manager.find(step)?.start_abort(status);
            }
            RendezvousRequest::RecvTensor(_) | RendezvousRequest::Fetch(_) => {
                let text = format!("{} is answered with a stream", call.path);
                return Err(Status::new(Code::Internal, text));
            }
        }
        Ok(encode_done())
    }

    async fn send(&self, send: SendTensor, message_bytes: u64) -> Result<(), Status> {
        self.manager.shared.ceiling.check()?;
        let SendTensor { step, key, tensor, is_dead, waits } = send;
        let step = self.manager.find(step)?;
        let value = sent(&key, tensor, is_dead, message_bytes);
        if !waits {
            return step.put(&key, Args::default(), value);
        }
        let bytes = value.bytes;
        let mut sending = pin!(step.put_when_room(&key, Args::default(), value));
        tokio::select! {
            biased;
            sent = &mut sending => return sent,
            () = ready(()) => {}
        }
        // It waits.
        let _room = self.manager.parking.enter(bytes)?;
        sending.await
    }

    /// Dropping it, as when the client goes away, cancels the receive: the tensor stays.
    async fn stream(&self, call: Call, to: MessageWriter) -> Result<(), Status> {
        match decoded(&call)? {
            RendezvousRequest::RecvTensor(request) => self.recv_tensor(request, to).await,
            RendezvousRequest::Fetch(request) => self.fetch(request, to).await,
            other => {
                let text = format!("{} is not answered with a stream", other.method().path());
                Err(Status::new(Code::Internal, text))
            }
        }
    }

    async fn recv_tensor(&self, asked: RecvTensor, mut to: MessageWriter) -> Result<(), Status> {
        let RecvTensor { step, key, request } = asked;
        let require_ack = self.manager.caches_responses && request.get() != 0;
        let asked = Asked { request, keeps: false };
        let value = self.manager.receive_for(step, &key, asked).await?.value;
        let micros = self.manager.shared.clock.now().as_nanos() / 1000;
        let answer = encode_received_tensor(&ReceivedTensor {
            tensor: value.tensor,
            is_dead: value.is_dead,
            send_start_micros: i64::try_from(micros).unwrap_or(0),
            require_ack,
        })?;
        to.write(answer).await;
        Ok(())
    }

    async fn fetch(&self, fetch: Fetch, mut to: MessageWriter) -> Result<(), Status> {
        let Fetch { step, key, request, offset, chunk_bytes, finished } = fetch;
        finished.into_iter().for_each(|request| self.manager.finished(request));
        let asked = Asked { request, keeps: true };
        let value = self.manager.receive_for(step, &key, asked).await?.value;
        // The same each time: hence without the time at which it is sent.
        let mut answer = encode_received_tensor(&ReceivedTensor {
            tensor: value.tensor,
            is_dead: value.is_dead,
            send_start_micros: 0,
            require_ack: false,
        })?;
        let mut piece = FetchChunk {
            total_bytes: answer.len() as u64,
            offset: skipped(&mut answer, offset)?,
            data: Pieces::default(),
        };
        let bytes = if chunk_bytes == 0 { PIECE_BYTES } else { chunk_bytes.max(PIECE_BYTES_MIN) };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        while !answer.is_empty() {
            let data = answer.split_to(bytes);
            let (total_bytes, offset) = (piece.total_bytes, piece.offset);
            let next = offset.saturating_add(data.len() as u64);
            piece = FetchChunk { total_bytes: 0, offset: next, data: Pieces::default() };
            to.write(encode_fetch_chunk(FetchChunk { total_bytes, offset, data })).await;
        }
        Ok(())
    }
}

/// Leaves out what the client has. How much that is.
fn skipped(answer: &mut Pieces, offset: u64) -> Result<u64, Status> {
    let total = answer.len();
    let there = usize::try_from(offset).ok().filter(|offset| *offset <= total);
    let there = there.ok_or_else(|| {
        let text = format!("FetchRequest.offset is {offset}; the answer has {total} bytes");
        Status::new(Code::OutOfRange, text)
    })?;
    drop(answer.split_to(there));
    Ok(offset)
}

fn decoded(call: &Call) -> Result<RendezvousRequest, Status> {
    let method = RendezvousMethod::from_path(&call.path).ok_or_else(|| {
        let text = format!(
            "{} is not offered: of tensorflow.WorkerService, what concerns the rendezvous is",
            call.path
        );
        Status::new(Code::Unimplemented, text)
    })?;
    decode_rendezvous_request(method, &call.message, ELEMENT_BYTES_MAX)
}

impl Service for RendezvousService {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async { self.answer(call).await.map_err(encode_worker_refusal) })
    }

    /// RecvTensor is unary for who calls it. It is one message either way; a stream's may lie in pieces,
    /// so that the tensor need not be copied.
    fn streaming_paths(&self) -> Vec<&'static str> {
        vec![RendezvousMethod::RecvTensor.path(), RendezvousMethod::Fetch.path()]
    }

    fn streaming(&self, call: Call, to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async { self.stream(call, to).await.map_err(encode_worker_refusal) })
    }

    fn details(&self, _path: &str, status: &Status) -> Bytes {
        let encoded = status.details.iter().find_map(|detail| match detail {
            Detail::Encoded(encoded) => Some(encoded.clone()),
            _ => None,
        });
        encoded.unwrap_or_default()
    }

    fn cut(&self, _path: &str) -> Status {
        Status::new(Code::Unavailable, "the worker is shutting down")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::task::{Context, Poll, Waker};

    use rondo_core::element::{Dtype, Shape, Tensor};
    use rondo_core::ids::StepId;
    use rondo_core::rendezvous::{Config, FrameAndIter, Key, Session};

    use super::super::{Settings, Ways};
    use super::*;
    use crate::clock::Clock;

    const WORKER: &str = "/job:worker/replica:0/task:0";

    /// Sends a tensor in a message of 8,000 bytes, and waits for room if there is none.
    async fn send(service: &RendezvousService) -> Result<(), Status> {
        let device = format!("{WORKER}/device:CPU:0");
        let key = Key::create(&device, 7, &device, "edge", FrameAndIter::default()).unwrap();
        let values = Bytes::from_static(b"value");
        let tensor = Tensor::fixed(Dtype::Uint8, Shape::list(5).unwrap(), values).unwrap();
        let send = SendTensor { step: StepId::new(1), key, tensor, is_dead: false, waits: true };
        service.send(send, 8000).await
    }

    /// Their tensors are in memory, too.
    #[tokio::test]
    async fn senders_that_wait_for_room_have_a_bound_as_long_as_they_wait() {
        let machine = Config {
            devices: BTreeMap::from([("/device:CPU:0".to_owned(), 7)]),
            session: Some(Session { worker_name: WORKER.into() }),
            step_bytes_max: 10_000,
            bytes_max: 12_000,
            ..Config::default()
        };
        let settings = Settings { machine, peers: BTreeMap::new() };
        let manager = RendezvousManager::start(settings, Clock::start(), Ways::default()).unwrap();
        let service = RendezvousService::new(manager);
        send(&service).await.unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let mut waiting = Box::pin(send(&service));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        let mut another = Box::pin(send(&service));
        let Poll::Ready(Err(refused)) = another.as_mut().poll(&mut context) else {
            panic!("tensors of more than 12,000 bytes wait");
        };
        assert_eq!(refused.code, Code::ResourceExhausted);
        assert!(refused.message.contains("cannot wait for room"), "{refused}");
        drop(waiting);
        let mut next = Box::pin(send(&service));
        assert!(next.as_mut().poll(&mut context).is_pending());
    }
}
