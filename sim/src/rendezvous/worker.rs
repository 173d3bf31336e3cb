//! A worker: its process, if it has one, and what that knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::bytes::BytesMut;
use rondo_core::element::Tensor;
use rondo_core::ids::{CallId, RequestId, StepId};
use rondo_core::rendezvous::{Key, Rendezvous};
use rondo_core::time::Time;

use super::event::{Event, Purpose};
use crate::clock::Clock;
use crate::fault::Fault;
use crate::rng::{Source, Stream};
use crate::swarm::Swarm;

/// Workers' clocks show this when a run begins.
const BEGINNING: Time = Time::from_millis(1_000_000_000);

/// Whether a worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Being {
    /// It runs.
    Up,
    /// It stands still, and what happens to it waits.
    Paused,
    /// Its process is gone.
    Down,
}

/// A worker.
#[derive(Debug)]
pub(super) struct Worker {
    /// `/job:NAME/replica:N/task:N`.
    pub(super) name: Arc<str>,
    pub(super) being: Being,
    /// How many processes there have been.
    pub(super) life: u32,
    pub(super) process: Option<Process>,
    /// What happened while it stood still.
    pub(super) held: Vec<Event>,
    pub(super) clock: Clock,
    pub(super) stream: Stream,
    /// The incarnations of the other workers' devices, as far as they were read.
    pub(super) known: BTreeMap<u32, u64>,
}

/// A worker's process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) machine: Rendezvous<Tensor>,
    pub(super) incarnation: u64,
    /// Who waits for what.
    pub(super) callers: BTreeMap<CallId, Purpose>,
    pub(super) fetches: BTreeMap<CallId, Fetching>,
    /// Requests whose answers it has, by the worker that does not know yet.
    pub(super) finished: BTreeMap<u32, Vec<RequestId>>,
    /// When it is to be woken.
    pub(super) wakes_at_ns: Option<u64>,
}

/// A tensor on its way from another worker.
#[derive(Clone, Debug)]
pub(super) struct Fetching {
    pub(super) server: u32,
    pub(super) step: StepId,
    pub(super) key: Key,
    pub(super) request: RequestId,
    /// What has come of the answer.
    pub(super) received: BytesMut,
    pub(super) total: Option<u64>,
    /// Where it is asked for now.
    pub(super) connection: Option<u64>,
}

impl Worker {
    pub(super) fn new(number: u32, source: &Source, swarm: &Swarm) -> Self {
        let mut stream = source.stream("rendezvous-worker", number);
        let drift = match swarm.faults.has(Fault::ClockDrift) {
            true => i32::try_from(stream.below(100_000)).unwrap_or(0).saturating_sub(50_000),
            false => 0,
        };
        Self {
            name: format!("/job:worker/replica:0/task:{number}").into(),
            being: Being::Down,
            life: 0,
            process: None,
            held: Vec::new(),
            clock: Clock::showing(BEGINNING, drift),
            stream,
            known: BTreeMap::new(),
        }
    }

    /// The name of its device.
    pub(super) fn device(&self) -> String {
        format!("{}/device:CPU:0", self.name)
    }
}
