//! A server of the exchange: takes what happens, and says what to do.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::peer::{Arriving, Peer};
use super::types::{Effect, Input, Partial};
use crate::exchange::config::Config;
use crate::exchange::ids::{InstanceRank, Key, RequestNumber, UnitHandler, WorkerRank};
use crate::exchange::membership::Membership;
use crate::exchange::refusal::PeerLost;
use crate::ids::{CallId, ConnectionId, Incarnation};
use crate::limits::EXPIRIES_PER_STEP_MAX;
use crate::status::Status;
use crate::time::{Duration, Time};

/// Something that is to be done at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::exchange) enum Due {
    /// A call waits no longer.
    Call(CallId),
    /// A worker has been away for too long.
    Grace(WorkerRank),
    /// No worker has introduced itself on a connection.
    Greeting(ConnectionId),
}

/// A call for a batch that waits.
#[derive(Clone, Copy, Debug)]
pub(in crate::exchange) struct Parked {
    pub(in crate::exchange) call: CallId,
    pub(in crate::exchange) partial: Partial,
    /// When it gives up, and after how long.
    pub(in crate::exchange) due: Option<(Time, Duration)>,
}

/// A part of a registered buffer: where pushes of one key and worker land.
#[derive(Clone, Debug)]
pub(in crate::exchange) struct Slot<T> {
    pub(in crate::exchange) buffer: T,
    pub(in crate::exchange) offset: u64,
    pub(in crate::exchange) bytes: u64,
    /// Whether something is written there, or may be read.
    pub(in crate::exchange) is_taken: bool,
}

/// A unit that was given out and whose worker was lost since.
#[derive(Clone, Debug)]
pub(in crate::exchange) struct Orphan {
    pub(in crate::exchange) worker: WorkerRank,
    pub(in crate::exchange) lost: PeerLost,
    pub(in crate::exchange) slots: Vec<Key>,
}

/// A server. `T` is how its driver knows a tensor's memory; a clone of it is the same memory.
#[derive(Clone, Debug)]
pub struct Server<T> {
    pub(in crate::exchange) config: Config,
    pub(in crate::exchange) rank: InstanceRank,
    pub(in crate::exchange) incarnation: Incarnation,
    pub(in crate::exchange) membership: Option<Membership>,
    pub(in crate::exchange) peers: BTreeMap<WorkerRank, Peer<T>>,
    /// Connections on which a worker was welcomed, and which are not over or replaced.
    pub(in crate::exchange) connections: BTreeMap<ConnectionId, WorkerRank>,
    /// Connections on which no worker has introduced itself, and when the server closes them.
    pub(in crate::exchange) strangers: BTreeMap<ConnectionId, Time>,
    /// Requests that are being read, also from connections that were given up.
    pub(in crate::exchange) arriving: BTreeMap<ConnectionId, Arriving>,
    /// Units that were not answered.
    pub(in crate::exchange) units: BTreeMap<UnitHandler, (WorkerRank, RequestNumber)>,
    pub(in crate::exchange) orphans: BTreeMap<UnitHandler, Orphan>,
    pub(in crate::exchange) next: UnitHandler,
    /// Workers of which a unit waits.
    pub(in crate::exchange) ready: BTreeSet<WorkerRank>,
    /// Workers that take part and are not lost.
    pub(in crate::exchange) up: BTreeSet<WorkerRank>,
    /// Units that were given out, owe no answer and are not released; of lost workers too.
    pub(in crate::exchange) unowing: BTreeSet<UnitHandler>,
    /// Units that owed no answer and are over: one of nothing is taken all the same.
    pub(in crate::exchange) excused: BTreeSet<UnitHandler>,
    pub(in crate::exchange) parked: VecDeque<Parked>,
    pub(in crate::exchange) slots: BTreeMap<(WorkerRank, Key), Slot<T>>,
    pub(in crate::exchange) dues: BTreeSet<(Time, Due)>,
    pub(in crate::exchange) is_stopped: bool,
}

impl<T: Clone> Server<T> {
    /// The server of this instance rank, in this run of it.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the settings make no sense.
    pub fn start(
        config: Config,
        rank: InstanceRank,
        incarnation: Incarnation,
    ) -> Result<Self, Status> {
        config.check()?;
        Ok(Self {
            config,
            rank,
            incarnation,
            membership: None,
            peers: BTreeMap::new(),
            connections: BTreeMap::new(),
            strangers: BTreeMap::new(),
            arriving: BTreeMap::new(),
            units: BTreeMap::new(),
            orphans: BTreeMap::new(),
            next: UnitHandler::default(),
            ready: BTreeSet::new(),
            up: BTreeSet::new(),
            unowing: BTreeSet::new(),
            excused: BTreeSet::new(),
            parked: VecDeque::new(),
            slots: BTreeMap::new(),
            dues: BTreeSet::new(),
            is_stopped: false,
        })
    }

    /// Takes one input and pushes what must be done into `out`, in order.
    pub fn step(&mut self, now: Time, input: Input<T>, out: &mut Vec<Effect<T>>) {
        match input {
            Input::Membership(membership) => self.learn(membership, out),
            Input::Connected { connection } => self.connected(now, connection),
            Input::Message { connection, received, message } => {
                self.hear(now, connection, received, message, out);
            }
            Input::NotTaken { connection, number, acknowledged, refusal } => {
                self.not_taken(connection, number, &acknowledged, refusal, out);
            }
            Input::Disconnected { connection, why } => {
                self.disconnected(now, connection, &why, out);
            }
            Input::GetBatch { call, timeout, partial } => {
                self.get_batch(now, call, timeout, partial, out);
            }
            Input::Respond { call, answers } => {
                let result = self.respond(now, answers, out);
                out.push(Effect::Done { call, result });
            }
            Input::Release { call, unit } => {
                let result = self.release_unit(unit, out);
                out.push(Effect::Done { call, result });
            }
            Input::RegisterBuffer { call, buffer, bytes, workers, keys } => {
                let result = self.register(&buffer, bytes, &workers, &keys);
                out.push(Effect::Done { call, result });
            }
            Input::Cancel { call } => self.cancel(call),
            Input::Stop => self.stop(out),
            Input::Tick => self.look_at_times(now, out),
        }
    }

    /// When to call [`Server::step`] with [`Input::Tick`] next.
    pub fn deadline(&self) -> Option<Time> {
        self.dues.first().map(|(at, _)| *at)
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Sees to what is due by now.
    fn look_at_times(&mut self, now: Time, out: &mut Vec<Effect<T>>) {
        for _ in 0..EXPIRIES_PER_STEP_MAX {
            let Some((at, due)) = self.dues.first().copied().filter(|(at, _)| *at <= now) else {
                return;
            };
            self.dues.remove(&(at, due));
            match due {
                Due::Call(call) => self.too_late(call, out),
                Due::Grace(worker) => self.gone_for_too_long(now, worker, out),
                Due::Greeting(connection) => self.not_introduced((now, at), connection, out),
            }
        }
    }
}
