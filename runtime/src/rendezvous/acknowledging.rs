//! What other workers are told that we have, so that they need not keep it: with the next request to
//! them, or a little later by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rondo_core::ids::RequestId;
use rondo_proto::convert::{RendezvousRequest, encode_rendezvous_request};

use crate::transport::Transport;

/// How long to wait for a request that can carry them.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a worker may take to hear it.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often it is tried. What a worker does not hear it keeps until its step ends.
const TRIES_MAX: u32 = 6;
/// Ids that one request carries at most.
const CARRIED_MAX: usize = 1024;

/// Requests whose answers we have, by the address of who answered.
#[derive(Default)]
pub(super) struct Acknowledgements(Mutex<BTreeMap<String, Queue>>);

#[derive(Default)]
struct Queue {
    requests: Vec<RequestId>,
    /// Whether a task is about to tell.
    is_telling: bool,
}

impl Acknowledgements {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some that a request to this address can carry.
    pub(super) fn take(&self, address: &str) -> Vec<RequestId> {
        let mut queues = self.lock();
        let Some(queue) = queues.get_mut(address) else { return Vec::new() };
        let rest = queue.requests.split_off(queue.requests.len().min(CARRIED_MAX));
        std::mem::replace(&mut queue.requests, rest)
    }

    /// Puts those back that were not carried.
    pub(super) fn put_back(&self, address: &str, requests: Vec<RequestId>) {
        if requests.is_empty() {
            return;
        }
        let mut queues = self.lock();
        queues.entry(address.to_owned()).or_default().requests.extend(requests);
    }

    /// Adds one. Whether somebody must see to it that it is told.
    fn add(&self, address: &str, request: RequestId) -> bool {
        let mut queues = self.lock();
        let queue = queues.entry(address.to_owned()).or_default();
        queue.requests.push(request);
        !std::mem::replace(&mut queue.is_telling, true)
    }

    /// Some to be told by themselves; nobody tells any more if there are none.
    fn take_to_tell(&self, address: &str) -> Vec<RequestId> {
        let requests = self.take(address);
        if requests.is_empty() {
            self.lock().remove(address);
        }
        requests
    }
}

/// Has the worker at `address` told that we have what answered a request: soon, or at once if it holds
/// much memory.
pub(super) fn acknowledge(
    all: &Arc<Acknowledgements>,
    transport: &Arc<dyn Transport>,
    address: &str,
    (request, is_long): (RequestId, bool),
) {
    let must_tell = all.add(address, request);
    if is_long {
        // The one that waits for others to come along tells what is left.
        let requests = all.take(address);
        let (all, transport, address) =
            (Arc::clone(all), Arc::clone(transport), address.to_owned());
        tokio::spawn(async move {
            if !tell(&transport, &address, &requests).await {
                all.put_back(&address, requests);
            }
            if must_tell {
                tell_all(all, transport, address).await;
            }
        });
    } else if must_tell {
        tokio::spawn(tell_all(Arc::clone(all), Arc::clone(transport), address.to_owned()));
    }
}

/// Tells until nothing is left to tell.
async fn tell_all(all: Arc<Acknowledgements>, transport: Arc<dyn Transport>, address: String) {
    let mut tries = 0_u32;
    loop {
        tokio::time::sleep(PAUSE.saturating_mul(1 << (2 * tries))).await;
        let requests = all.take_to_tell(&address);
        if requests.is_empty() {
            return;
        }
        if tell(&transport, &address, &requests).await {
            tries = 0;
            continue;
        }
        tries = tries.saturating_add(1);
        if tries < TRIES_MAX {
            all.put_back(&address, requests);
        } else {
            let count = requests.len();
            tracing::debug!(address, count, "a worker keeps tensors that we have: not reached");
            tries = 0;
        }
    }
}

async fn tell(transport: &Arc<dyn Transport>, address: &str, requests: &[RequestId]) -> bool {
    let finish = RendezvousRequest::Finish { requests: requests.to_vec() };
    let Ok(message) = encode_rendezvous_request(&finish) else { return true };
    let told = transport.unary(address, finish.method().path(), message.join(), DEADLINE).await;
    told.is_ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rondo_core::status::{Code, Status};
    use tokio::sync::mpsc;

    use super::*;
    use crate::transport::{BoxFuture, MessageStream};

    /// A worker that is out of reach for the first calls, and takes in the others.
    struct Far {
        misses: Mutex<u32>,
        taken: mpsc::UnboundedSender<Bytes>,
    }

    impl Transport for Far {
        fn unary(
            &self,
            _: &str,
            _: &'static str,
            message: Bytes,
            _: Duration,
        ) -> BoxFuture<'static, Result<Bytes, Status>> {
            let mut misses = self.misses.lock().unwrap();
            if let Some(left) = misses.checked_sub(1) {
                *misses = left;
                return Box::pin(async { Err(Status::new(Code::Unavailable, "nobody there")) });
            }
            self.taken.send(message).unwrap();
            Box::pin(async { Ok(Bytes::new()) })
        }

        fn streaming(&self, _: &str, _: &'static str, _: Bytes) -> MessageStream {
            MessageStream::written(|_| std::future::pending())
        }
    }

    #[tokio::test]
    async fn what_a_worker_could_not_be_told_is_told_again() {
        for is_long in [false, true] {
            let (taken, mut told) = mpsc::unbounded_channel();
            let transport: Arc<dyn Transport> = Arc::new(Far { misses: Mutex::new(2), taken });
            let all = Arc::new(Acknowledgements::default());
            let request = RequestId::new(7);
            acknowledge(&all, &transport, "far:1", (request, is_long));
            let message = tokio::time::timeout(Duration::from_secs(60), told.recv()).await;
            let finish = RendezvousRequest::Finish { requests: vec![request] };
            let expected = encode_rendezvous_request(&finish).unwrap().join();
            assert_eq!(message.expect("it is told"), Some(expected), "long: {is_long}");
        }
    }
}
