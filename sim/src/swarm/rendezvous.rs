//! A run of workers with a rendezvous each: how many, how they are set, and what happens in their steps.
//! Drawn from a stream of its own, so that all other runs stay what they are.

use std::sync::Arc;

use clap::ValueEnum;
use rondo_core::rendezvous::{Config, Session};
use rondo_core::time::Duration;
use serde::{Deserialize, Serialize};

use super::{ExchangeShape, Swarm};
use crate::rng::{Source, Stream};

/// Which part of the house a run is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The node: the dispatcher, the coordination service, relays.
    Node,
    /// Those of the node in which some read by split what others read by element.
    Mixed,
    /// Workers with a rendezvous each.
    Rendezvous,
    /// An exchange of tensors.
    Exchange,
}

impl Part {
    /// What it is called on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Mixed => "mixed",
            Self::Rendezvous => "rendezvous",
            Self::Exchange => "exchange",
        }
    }

    /// Whether the run of a source is of this one.
    pub fn has(self, source: &Source) -> bool {
        match self {
            Self::Mixed => {
                Self::of(source) == Self::Node && Swarm::draw(source).0.reads_both_ways()
            }
            _ => Self::of(source) == self,
        }
    }

    /// Which of the three the run of a source is of.
    pub fn of(source: &Source) -> Self {
        let (rendezvous, exchange) = match source.swarm() {
            Some(swarm) => (swarm.rendezvous.is_some(), swarm.exchange.is_some()),
            None => (
                RendezvousShape::draw(&mut source.stream("rendezvous", 0)).is_some(),
                ExchangeShape::draw(&mut source.stream("exchange", 0)).is_some(),
            ),
        };
        match (rendezvous, exchange) {
            (true, _) => Self::Rendezvous,
            (false, true) => Self::Exchange,
            (false, false) => Self::Node,
        }
    }
}

/// Workers with a rendezvous each. What is likely is said in thousandths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RendezvousShape {
    /// Workers.
    pub workers: u32,
    /// Those of them that are asked as TensorFlow's workers are, by plain `RecvTensor`.
    pub plain: Vec<u32>,
    /// What each is started with.
    pub settings: RendezvousSettings,
    /// Between two steps that begin, on average, in ms.
    pub step_ms: u64,
    /// From a step's beginning to its end, on average, in ms.
    pub lasts_ms: u64,
    /// Edges of a step at most.
    pub edges: u64,
    /// Tensors under one key at most.
    pub values: u64,
    /// Bytes of a tensor at most.
    pub bytes: u64,
    /// Bytes of one message of a tensor at most.
    pub chunk_bytes: u64,
    /// How long an acknowledgement waits for a request that takes it along, in ms.
    pub finish_ms: u64,
    /// How likely an acknowledgement is never sent.
    pub unacknowledged: u32,
    /// How likely a step is initialised late.
    pub late: u32,
    /// How likely it never is, at one of its workers.
    pub never: u32,
    /// How likely a receive is given up.
    pub cancelled: u32,
    /// How likely it waits for a time only.
    pub timed: u32,
    /// How likely a sender waits for room.
    pub waits: u32,
    /// How likely a step is aborted.
    pub aborted: u32,
    /// How likely nobody cleans a step up.
    pub forgotten: u32,
    /// How likely a call names a device of another worker.
    pub astray: u32,
    /// Between two things that go wrong with a worker, on average, in ms; 0 for never.
    pub trouble_ms: u64,
    /// How long it, or the way to it, is away then, on average, in ms.
    pub away_ms: u64,
}

/// What a worker's rendezvous is started with; see [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RendezvousSettings {
    /// Whether steps need not be initialised.
    pub at_home: bool,
    /// Steps.
    pub steps_max: usize,
    /// Tensors of a step.
    pub step_tensors_max: usize,
    /// Their bytes.
    pub step_bytes_max: u64,
    /// Tensors of all steps.
    pub tensors_max: usize,
    /// Their bytes.
    pub bytes_max: u64,
    /// Calls that wait.
    pub calls_max: usize,
    /// When a step is given up, in ms; 0 for never.
    pub expiry_ms: u64,
    /// Requests that are remembered.
    pub requests_max: usize,
    /// Whether answers are kept for all.
    pub caches_responses: bool,
    /// How long another worker may be away, in ms.
    pub patience_ms: u64,
}

impl RendezvousShape {
    /// In one of seven runs.
    pub(super) fn draw(s: &mut Stream) -> Option<Self> {
        if !s.chance(140) {
            return None;
        }
        let workers = s.pick(&[2, 1, 3, 4]).copied().unwrap_or(2);
        let plain = (0..workers).filter(|_| s.chance(300)).collect();
        let settings = RendezvousSettings::draw(s);
        let mut pick = |of: &[u64]| s.pick(of).copied().unwrap_or(0);
        let mut shape = Self {
            workers,
            plain,
            settings,
            step_ms: pick(&[1000, 200, 4000]),
            lasts_ms: pick(&[2000, 300, 10_000]),
            edges: pick(&[4, 1, 8]),
            values: pick(&[2, 1, 6]),
            bytes: pick(&[64, 16, 3000]),
            chunk_bytes: pick(&[1 << 20, 64, 700]),
            finish_ms: pick(&[5, 0, 500]),
            trouble_ms: pick(&[0, 1500, 5000, 15_000]),
            away_ms: pick(&[500, 50, 4000]),
            ..Self::calm()
        };
        let mut rate = |of: &[u32]| s.pick(of).copied().unwrap_or(0);
        shape.unacknowledged = rate(&[0, 0, 100, 500]);
        shape.late = rate(&[0, 200, 600]);
        shape.never = rate(&[0, 0, 100]);
        shape.cancelled = rate(&[0, 100, 400]);
        shape.timed = rate(&[0, 100, 400]);
        shape.waits = rate(&[0, 300, 900]);
        shape.aborted = rate(&[0, 100, 400]);
        shape.forgotten = rate(&[0, 0, 100, 400]);
        shape.astray = rate(&[0, 0, 30]);
        Some(shape)
    }

    /// Two workers, and nothing out of the way.
    pub const fn calm() -> Self {
        Self {
            workers: 2,
            plain: Vec::new(),
            settings: RendezvousSettings::roomy(),
            step_ms: 1000,
            lasts_ms: 2000,
            edges: 4,
            values: 2,
            bytes: 64,
            chunk_bytes: 1 << 20,
            finish_ms: 5,
            unacknowledged: 0,
            late: 0,
            never: 0,
            cancelled: 0,
            timed: 0,
            waits: 0,
            aborted: 0,
            forgotten: 0,
            astray: 0,
            trouble_ms: 0,
            away_ms: 500,
        }
    }
}

impl RendezvousSettings {
    const fn roomy() -> Self {
        Self {
            at_home: false,
            steps_max: 1 << 16,
            step_tensors_max: 1 << 16,
            step_bytes_max: 1 << 30,
            tensors_max: 1 << 20,
            bytes_max: 1 << 30,
            calls_max: 1 << 16,
            expiry_ms: 20_000,
            requests_max: 100_000,
            caches_responses: false,
            patience_ms: 5000,
        }
    }

    /// Bounds so low that they are met, or as they are.
    fn draw(s: &mut Stream) -> Self {
        let most = Self::roomy();
        let mut or = |most: usize, low: &[usize]| match s.chance(250) {
            true => s.pick(low).copied().unwrap_or(most),
            false => most,
        };
        let steps_max = or(most.steps_max, &[8, 3]);
        let step_tensors_max = or(most.step_tensors_max, &[4, 1]);
        let tensors_max = or(most.tensors_max, &[6, 2]);
        let calls_max = or(most.calls_max, &[16, 6]);
        let step_bytes_max = or(1 << 30, &[4000, 100]) as u64;
        let bytes_max = or(1 << 30, &[6000, 150]) as u64;
        Self {
            at_home: s.chance(150),
            steps_max,
            step_tensors_max,
            step_bytes_max,
            tensors_max,
            bytes_max,
            calls_max,
            expiry_ms: s.pick(&[20_000, 0, 2000, 6000]).copied().unwrap_or(20_000),
            caches_responses: s.chance(300),
            patience_ms: s.pick(&[5000, 500, 20_000]).copied().unwrap_or(5000),
            ..most
        }
    }

    /// The machine's settings in a process of a worker of this name.
    pub fn config(&self, worker: &Arc<str>, incarnation: u64, entropy: u64) -> Config {
        let session = Session { worker_name: worker.clone() };
        let expiry = Some(self.expiry_ms).filter(|ms| *ms > 0);
        Config {
            devices: [("/device:CPU:0".to_owned(), incarnation)].into(),
            session: Some(session).filter(|_| self.at_home),
            steps_max: self.steps_max,
            step_tensors_max: self.step_tensors_max,
            step_bytes_max: self.step_bytes_max,
            tensors_max: self.tensors_max,
            bytes_max: self.bytes_max,
            calls_max: self.calls_max,
            step_expiry: expiry.map(Duration::from_millis),
            requests_max: self.requests_max,
            caches_responses: self.caches_responses,
            patience: Duration::from_millis(self.patience_ms),
            entropy,
        }
    }
}
