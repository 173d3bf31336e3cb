//! Reading by split.

mod delivering;
mod held;
mod holding;
mod streams;
mod trial;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use self::held::Held;
use self::holding::Holding;
use self::streams::Stream;
use self::trial::Trial;
use super::config::BySplit;
use super::report::{Report, Stall};
use super::shared::Shared;
use super::types::{Answer, Effect, RpcId};
use crate::ids::CallId;
use crate::limits::RECORDS_PROTOCOL;
use crate::status::{Code, Status};
use crate::time::Time;

/// The splits a reader holds, and what it does with them.
#[derive(Clone, Debug)]
pub(super) struct Splits {
    way: BySplit,
    /// By place.
    held: BTreeMap<u64, Held>,
    /// Splits it has held so far.
    taken: u64,
    /// The split that is handed on, to its end.
    current: Option<u64>,
    streams: BTreeMap<RpcId, Stream>,
    trial: Trial,
    holding: Holding,
    /// Calls that wait for acknowledgements, with the request that brings them, once it is under way.
    flushes: BTreeMap<CallId, Option<RpcId>>,
    buffered: usize,
    buffered_bytes: u64,
    /// Bytes of the largest message so far: as many may come with each message that is asked for.
    largest: u64,
}

impl Splits {
    pub(super) fn new(way: BySplit) -> Self {
        Self {
            way,
            held: BTreeMap::new(),
            taken: 0,
            current: None,
            streams: BTreeMap::new(),
            trial: Trial::default(),
            holding: Holding::default(),
            flushes: BTreeMap::new(),
            buffered: 0,
            buffered_bytes: 0,
            largest: 0,
        }
    }

    /// Takes an answer to a request for splits, or what a stream has brought.
    ///
    /// # Errors
    /// What ends the reader.
    pub(super) fn answered(
        &mut self,
        now: Time,
        rpc: RpcId,
        result: Result<Answer, Status>,
        entropy: u64,
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        match result {
            Ok(Answer::Records(records)) => self.received(rpc, records, shared, out),
            Ok(Answer::Splits(answer)) => self.told_splits(now, rpc, answer, out),
            Ok(_) => Err(Status::new(Code::Internal, "an answer to something else")),
            Err(status) if self.streams.contains_key(&rpc) => {
                self.stream_failed(now, rpc, status, entropy, shared)
            }
            Err(status) => self.holding_failed(now, status, entropy, shared),
        }
    }

    /// Does what can be done now; true when everything of the iteration has been read.
    ///
    /// # Errors
    /// What ends the reader.
    pub(super) fn go_on(
        &mut self,
        now: Time,
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) -> Result<bool, Status> {
        self.deliver(shared, out);
        self.hold_if_due(now, shared, out);
        self.open_streams(now, shared, out);
        self.take_more(now, shared, out);
        self.tell_if_drained(out);
        Ok(self.holding.is_finished && self.held.is_empty())
    }

    /// When to go on.
    pub(super) fn deadline(&self, shared: &Shared) -> Option<Time> {
        let holds = self.holding_due(shared);
        let opens = self.opening_due(shared);
        holds.into_iter().chain(opens).min()
    }

    /// Whether no worker can be asked.
    pub(super) fn lacks_tasks(&self, shared: &Shared) -> bool {
        shared.tasks.iter().all(|task| task.address(RECORDS_PROTOCOL).is_none())
    }

    /// Adds how the splits stand.
    pub(super) fn report(&self, report: Report) -> Report {
        Report {
            buffered: self.buffered,
            buffered_bytes: self.buffered_bytes,
            splits_taken: self.taken,
            splits_held: self.held.len(),
            splits_undelivered: self.held.values().filter(|held| !held.is_delivered()).count(),
            unconsumed: self.unconsumed(),
            ..report
        }
    }

    fn unconsumed(&self) -> u64 {
        self.held.values().map(Held::unconsumed).fold(0, u64::saturating_add)
    }

    /// Why nothing moves, if nothing does.
    pub(super) fn stall(&self, now: Time, shared: &Shared) -> Option<Stall> {
        if let Some((since, status)) = self.holding.retry.why() {
            return Some(Stall::Dispatcher { since: now.since(*since), status: status.clone() });
        }
        if self.buffered > 0 {
            // Somebody could take what lies here.
            return (shared.wanted == 0 && !self.has_room(shared)).then_some(Stall::Application);
        }
        if shared.is_told && self.lacks_tasks(shared) {
            return Some(Stall::NoWorkers { unsuited: shared.tasks.len() });
        }
        let unread = self.held.values().any(|held| !held.is_received());
        if !unread {
            let records = self.unconsumed();
            let held_up = self.holding.was_answered && shared.wanted > 0;
            return held_up.then_some(match records {
                0 if self.holding.is_with_workers => Stall::WithWorkers,
                0 => Stall::NoSplits,
                records => Stall::Unconsumed { records },
            });
        }
        self.worker_stall(now, shared)
    }

    fn worker_stall(&self, now: Time, shared: &Shared) -> Option<Stall> {
        let failing = self.held.values().filter_map(|held| {
            let (since, status) = held.retry.why()?;
            let (worker, _) = held.avoided.clone()?;
            Some((now.since(*since), worker, status))
        });
        let (since, worker, status) = failing.max_by_key(|(since, ..)| *since)?;
        let is_long = since >= shared.config.worker_patience;
        is_long.then(|| Stall::Workers { worker, since, status: status.clone() })
    }
}
