//! What a ledger knows of one step, of one key, of one call.

use std::collections::{BTreeMap, VecDeque};

use rondo_core::element::{Tensor, Values};
use rondo_core::ids::{CallId, RequestId, StepId};
use rondo_core::rendezvous::{Args, Held, Key, Value};
use rondo_core::status::Status;
use rondo_core::time::Time;

/// A step.
#[derive(Clone, Debug)]
pub(super) struct Book {
    pub(super) is_initialized: bool,
    /// What it was aborted with.
    pub(super) status: Option<Status>,
    /// By the key's text.
    pub(super) lines: BTreeMap<String, Queues>,
    pub(super) held: Held,
    /// When something last happened with it.
    pub(super) used: Time,
}

/// What was sent under a key and who waits for it. Where a step is not initialised there may be both.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub(super) tensors: VecDeque<Sent>,
    pub(super) receivers: VecDeque<Receiver>,
}

/// A tensor that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) serial: u64,
    /// Whether its key names a device of this worker.
    pub(super) is_home: bool,
    pub(super) value: Value<Tensor>,
    pub(super) args: Args,
    pub(super) state: State,
}

/// How far a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its sender is not answered.
    Asked(CallId),
    /// Its sender is answered, and somebody gets it in the same step of the machine.
    Passing,
    /// It is held.
    Held,
}

/// Somebody who waits; several calls if they are of one request.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) request: Option<RequestId>,
    pub(super) args: Args,
    pub(super) calls: Vec<CallId>,
}

/// A call that waits.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) step: StepId,
    pub(super) key: Key,
    pub(super) role: Role,
    pub(super) due: Option<Time>,
    /// What it is to be told since its step ended.
    pub(super) ends: Option<Status>,
}

/// What a call waits for.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// Room for its tensor.
    Sender { waits: bool },
    /// A tensor.
    Receiver,
    /// What answered its request before.
    Again { serial: u64 },
    /// A tensor of another worker.
    Fetcher(Fetch),
}

/// A tensor that is fetched.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub(super) args: Args,
    pub(super) request: RequestId,
    /// Whether it is under way.
    pub(super) is_open: bool,
    /// When it was last asked for.
    pub(super) asked: Time,
    /// Since when its worker is away.
    pub(super) away: Option<Time>,
}

/// What answered a request and is kept.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) step: StepId,
    pub(super) key: String,
    pub(super) serial: u64,
    pub(super) bytes: u64,
}

/// Each tensor begins with a number of its own.
pub(super) fn serial_of(tensor: &Tensor) -> Option<u64> {
    let bytes = match tensor.values() {
        Values::Fixed(bytes) | Values::Strings { bytes, .. } | Values::Encoded(bytes) => bytes,
    };
    let first: [u8; 8] = bytes.get(..8)?.try_into().ok()?;
    Some(u64::from_le_bytes(first))
}

/// Counts one tensor more.
pub(super) const fn add(held: &mut Held, bytes: u64) {
    held.tensors = held.tensors.saturating_add(1);
    held.bytes = held.bytes.saturating_add(bytes);
}

/// Counts one tensor less.
pub(super) const fn take(held: &mut Held, bytes: u64) {
    held.tensors = held.tensors.saturating_sub(1);
    held.bytes = held.bytes.saturating_sub(bytes);
}
