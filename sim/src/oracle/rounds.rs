//! Coordinated reads: in a round all consumers read the same tasks in the same order, and each
//! consumer reads round after round, none left out.
//!
//! A heartbeat names a client and not a consumer, so an iteration counts no more once a heartbeat
//! in it was forged or overtaken, or a client of it ended that did not say so itself: the protocol
//! cannot see those.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Request};
use rondo_core::ids::{ClientId, IterationId, TaskId};
use rondo_core::time::Time;

use super::{Caller, Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

#[derive(Default)]
pub(super) struct Rounds {
    read: BTreeMap<(IterationId, i64), (i64, Vec<TaskId>)>,
    /// The last round of each consumer.
    last: BTreeMap<(IterationId, i64), i64>,
    /// Whose each client is.
    owners: BTreeMap<ClientId, u32>,
    spoilt: BTreeSet<IterationId>,
}

impl Rounds {
    fn spoil(&mut self, client: ClientId, shadow: &Shadow) {
        if let Some(client) = shadow.state().clients().get(&client) {
            self.spoilt.insert(client.iteration);
        }
    }

    fn taken(&mut self, by: Caller, request: &Request, shadow: &Shadow) {
        let fair = by.honest && !by.stale;
        match request {
            Request::ClientHeartbeat(heartbeat) => {
                let owner = *self.owners.entry(heartbeat.client).or_insert(by.actor);
                if !fair || owner != by.actor {
                    self.spoil(heartbeat.client, shadow);
                }
            }
            Request::ReleaseClient { client } => self.spoil(*client, shadow),
            Request::MaybeRemoveTask { task, .. } if !fair => {
                let task = shadow.state().tasks().get(task);
                self.spoilt.extend(task.map(|task| task.iteration));
            }
            _ => {}
        }
    }

    fn record(&mut self, record: &Record, during: bool, shadow: &Shadow) {
        let Record::Dispatcher(record) = record else {
            return;
        };
        match record {
            dispatcher::Record::AcquireClient { iteration, .. } => {
                // Somebody who comes late begins with the first round, alone.
                let late = self.last.keys().any(|(of, _)| of == iteration);
                self.spoilt.extend(late.then_some(*iteration));
            }
            dispatcher::Record::ReleaseClient { id, .. } if !during => self.spoil(*id, shadow),
            _ => {}
        }
    }

    fn read(
        &mut self,
        iteration: IterationId,
        consumer: i64,
        round: i64,
        tasks: &[TaskId],
    ) -> Verdict {
        if self.spoilt.contains(&iteration) {
            return Ok(());
        }
        let last = self.last.insert((iteration, consumer), round);
        if last.is_some_and(|last| last.checked_add(1) != Some(round)) {
            return Err(format!(
                "consumer {consumer} of iteration {iteration} read round {round} after {last:?}"
            ));
        }
        let first = self.read.entry((iteration, round));
        let (other, read) = first.or_insert_with(|| (consumer, tasks.to_vec()));
        if *other != consumer {
            reached(Check::Rounds);
        }
        match read == tasks {
            true => Ok(()),
            false => Err(format!(
                "in round {round} of iteration {iteration} consumer {consumer} read {tasks:?} and \
                 consumer {other} {read:?}"
            )),
        }
    }
}

impl Oracle for Rounds {
    fn name(&self) -> &'static str {
        "rounds"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Taken, SeenKind::RoundRead, SeenKind::DispatcherRecord]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { by, request, .. } => self.taken(*by, request, shadow),
            Seen::Recorded { record, during, .. } => {
                self.record(record, during.is_some(), shadow);
            }
            Seen::RoundRead { iteration, consumer, round, tasks, .. } => {
                return self.read(*iteration, *consumer, *round, tasks);
            }
            _ => {}
        }
        Ok(())
    }
}
