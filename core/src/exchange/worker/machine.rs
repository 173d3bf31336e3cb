//! A worker of the exchange: takes what happens, and says what to do.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::batch::{Batch, Trace};
use super::peer::Peer;
use super::types::{Effect, Input};
use crate::exchange::config::Config;
use crate::exchange::ids::{Handler, InstanceRank, RequestNumber, ServerRank};
use crate::exchange::membership::Membership;
use crate::exchange::passage::Passages;
use crate::ids::{CallId, ConnectionId, Incarnation};
use crate::limits::EXPIRIES_PER_STEP_MAX;
use crate::status::Status;
use crate::time::Time;

/// Something that is to be done at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::exchange) enum Due {
    /// A call waits no longer.
    Call(CallId),
    /// A server is connected to again.
    Retry(ServerRank),
    /// A server has been away for too long.
    Grace(ServerRank),
    /// What has come of a server is acknowledged.
    Acknowledge(ServerRank),
    /// A request waits no longer for the return of a server.
    Return(Handler, ServerRank),
}

/// A call that waits.
#[derive(Clone, Copy, Debug)]
pub(in crate::exchange) struct Waiting {
    /// As the call said.
    pub(in crate::exchange) handler: Handler,
    /// The first handler of its request.
    pub(in crate::exchange) first: Handler,
    /// When it gives up, and after how long.
    pub(in crate::exchange) due: Option<(Time, crate::time::Duration)>,
}

/// An answer that is being written to where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exchange) struct Written {
    pub(in crate::exchange) handler: Handler,
    pub(in crate::exchange) server: ServerRank,
    pub(in crate::exchange) number: RequestNumber,
}

/// A worker. `T` is how its driver knows a tensor's memory; a clone of it is the same memory.
#[derive(Clone, Debug)]
pub struct Worker<T> {
    pub(in crate::exchange) config: Config,
    pub(in crate::exchange) rank: InstanceRank,
    pub(in crate::exchange) incarnation: Incarnation,
    pub(in crate::exchange) membership: Option<Membership>,
    pub(in crate::exchange) peers: BTreeMap<ServerRank, Peer>,
    /// Connections that are not over, those too that were closed.
    pub(in crate::exchange) connections: BTreeMap<ConnectionId, ServerRank>,
    /// Requests that nobody has waited for, by the first handler of each.
    pub(in crate::exchange) batches: BTreeMap<Handler, Batch<T>>,
    pub(in crate::exchange) next: Handler,
    pub(in crate::exchange) calls: BTreeMap<CallId, Waiting>,
    pub(in crate::exchange) landings: BTreeMap<ConnectionId, Written>,
    /// Stamps of requests that are over, by the first handler of each.
    pub(in crate::exchange) traces: BTreeMap<Handler, Trace>,
    /// The latest ways of requests to servers and back.
    pub(in crate::exchange) passages: Passages,
    pub(in crate::exchange) dues: BTreeSet<(Time, Due)>,
    pub(in crate::exchange) is_stopped: bool,
}

impl<T: Clone> Worker<T> {
    /// The worker of this instance rank, in this run of it.
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
            batches: BTreeMap::new(),
            next: Handler::default(),
            calls: BTreeMap::new(),
            landings: BTreeMap::new(),
            traces: BTreeMap::new(),
            passages: Passages::default(),
            dues: BTreeSet::new(),
            is_stopped: false,
        })
    }

    /// Takes one input and pushes what must be done into `out`, in order.
    pub fn step(&mut self, now: Time, input: Input<T>, out: &mut Vec<Effect<T>>) {
        match input {
            Input::Membership(membership) => self.learn(now, membership, out),
            Input::Connected { server, incarnation, connection } => {
                self.connected(server, incarnation, connection, out);
            }
            Input::NotConnected { server, incarnation, why } => {
                self.not_connected(now, server, incarnation, &why, out);
            }
            Input::Disconnected { connection, why } => {
                self.disconnected(now, connection, &why, out);
            }
            Input::Message { connection, received, message } => {
                self.hear(now, connection, received, message, out);
            }
            Input::Exchange { call, pushes, pulls, ignores_rest } => {
                let result = self.exchange(now, pushes, pulls, ignores_rest, out);
                out.push(Effect::Started { call, result: result.clone() });
                if let Ok(first) = result {
                    self.send_all(now, first, out);
                }
            }
            Input::Wait { call, handler, timeout, since } => {
                self.wait(now, call, handler, timeout.map(|timeout| (timeout, since)), out);
            }
            Input::Abandon { handler } => self.abandon(handler, out),
            Input::Cancel { call } => self.cancel(call),
            Input::Stop => self.stop(out),
            Input::Tick => self.look_at_times(now, out),
        }
    }

    /// When to call [`Worker::step`] with [`Input::Tick`] next.
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
                Due::Retry(server) => self.connect(now, server, out),
                Due::Grace(server) => self.gone_for_too_long(now, server, out),
                Due::Acknowledge(server) => self.acknowledge(server, out),
                Due::Return(first, server) => self.not_returned(first, server, out),
            }
        }
    }
}
