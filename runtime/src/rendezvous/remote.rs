//! The rendezvous of one step.

use std::sync::Arc;
use std::time::Duration;

use rondo_core::element::Tensor;
use rondo_core::ids::StepId;
use rondo_core::rendezvous::{Args, Delivery, Input, Key, Session, Value};
use rondo_core::status::Status;
use rondo_core::time;

use super::receive::{Receive, Waiting, done};
use super::state::{Asked, Shared};

/// The rendezvous of one step, whose tensors come from this worker and from others. A clone is of the
/// same step.
#[derive(Clone)]
pub struct RemoteRendezvous {
    shared: Arc<Shared>,
    step: StepId,
}

impl RemoteRendezvous {
    pub(super) const fn new(shared: Arc<Shared>, step: StepId) -> Self {
        Self { shared, step }
    }

    /// The step.
    pub const fn step(&self) -> StepId {
        self.step
    }

    /// Says which worker the step is of. What was asked before is carried out now. The same once more
    /// changes nothing.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a name that is none, INTERNAL if the step is of another worker, and why the
    /// step ended if it has.
    pub fn initialize(&self, session: &Session) -> Result<(), Status> {
        let (step, session) = (self.step, session.clone());
        self.at_once(|call| Input::Initialize { call, step, session })
    }

    /// Whether tensors of other processes come through it too.
    pub const fn is_cross_process(&self) -> bool {
        true
    }

    /// Hands over a tensor, or leaves it for who will want it. Never waits.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if nobody wants it yet and there is no room for it, INVALID_ARGUMENT for a key
    /// whose source is not this worker's, and why the step ended if it has.
    pub fn send(&self, key: &Key, args: Args, tensor: Tensor, is_dead: bool) -> Result<(), Status> {
        self.put(key, args, sent(key, tensor, is_dead, 0))
    }

    /// The same with a value as [`sent`] makes it.
    pub(super) fn put(&self, key: &Key, args: Args, value: Value<Tensor>) -> Result<(), Status> {
        let (step, key) = (self.step, key.clone());
        self.at_once(|call| Input::Send { call, step, key, args, value, waits: false })
    }

    /// As [`RemoteRendezvous::send`], but waits where there is no room for now. Dropping the future
    /// takes the tensor back, unless it was taken on before.
    ///
    /// # Errors
    /// As [`RemoteRendezvous::send`]; RESOURCE_EXHAUSTED for a tensor that there is never room for.
    pub async fn send_when_room(
        &self,
        key: &Key,
        args: Args,
        tensor: Tensor,
        is_dead: bool,
    ) -> Result<(), Status> {
        self.put_when_room(key, args, sent(key, tensor, is_dead, 0)).await
    }

    /// The same with a value as [`sent`] makes it.
    pub(super) async fn put_when_room(
        &self,
        key: &Key,
        args: Args,
        value: Value<Tensor>,
    ) -> Result<(), Status> {
        let (step, key) = (self.step, key.clone());
        let asked =
            self.shared.ask(|call| Input::Send { call, step, key, args, value, waits: true });
        done(Waiting::of(&self.shared, asked).await)
    }

    /// Asks for a tensor, from wherever its key says.
    pub fn recv_async(&self, key: &Key, args: Args) -> Receive {
        self.receive(key, args, None)
    }

    /// Waits for a tensor, from wherever its key says.
    ///
    /// # Errors
    /// DEADLINE_EXCEEDED if it does not come in time (`None`: however long that takes), and why the step
    /// ended if it has.
    pub async fn recv(
        &self,
        key: &Key,
        args: Args,
        timeout: Option<Duration>,
    ) -> Result<Delivery<Tensor>, Status> {
        self.receive(key, args, timeout).await
    }

    /// The step cannot go on: whoever waits in it, or asks for something of it from now on, is told
    /// this. The first reason stays.
    pub fn start_abort(&self, status: Status) {
        self.shared.tell(Input::Abort { step: self.step, status });
    }

    fn receive(&self, key: &Key, args: Args, timeout: Option<Duration>) -> Receive {
        let (step, key, timeout) = (self.step, key.clone(), timeout.map(span));
        let asked = self.shared.ask(|call| Input::Recv { call, step, key, args, timeout });
        Receive(Waiting::of(&self.shared, asked))
    }

    fn at_once(
        &self,
        input: impl FnOnce(rondo_core::ids::CallId) -> Input<Tensor>,
    ) -> Result<(), Status> {
        match self.shared.ask(input) {
            Asked::Answered(outcome) => done(outcome),
            // Does not happen: these calls are answered at once.
            Asked::Waits(call, _) => {
                self.shared.cancel(call);
                Ok(())
            }
        }
    }
}

/// Bytes that count for a tensor that is held beside those of its values and its key: of its entries in maps,
/// and of its heads.
const HELD_BYTES: u64 = 512;

/// A tensor that is sent, in a message of so many bytes if it comes from another process. While it is held,
/// its key takes memory too, and so does the whole message, which the values may be part of.
pub(super) fn sent(key: &Key, tensor: Tensor, is_dead: bool, message_bytes: u64) -> Value<Tensor> {
    let value = value(tensor, is_dead);
    let beside = value.tensor.layout_bytes().saturating_add(HELD_BYTES);
    let bytes = value.bytes.saturating_add(key.text().len() as u64).max(message_bytes);
    Value { bytes: bytes.saturating_add(beside), ..value }
}

/// A tensor as the machine counts it.
pub(super) fn value(tensor: Tensor, is_dead: bool) -> Value<Tensor> {
    let bytes = tensor.size_bytes();
    Value { tensor, bytes, is_dead }
}

/// The core's word for a span of time.
pub(super) fn span(span: Duration) -> time::Duration {
    time::Duration::from_nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
