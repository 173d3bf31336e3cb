//! Each split of a pass goes to at most one worker, unless its caller left without taking the answer and
//! it was taken back; where lost splits are handed out again, to at most one that is neither lost nor
//! restarted since it took it, and whose task was not removed for others to read.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Reply, Request};
use rondo_core::ids::{CallId, IterationId, WorkerId};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

/// A split: its iteration, source and pass, and its value.
type Split = (IterationId, i64, i64, i64);

/// Who took a split, and when by the count of calls.
#[derive(Clone, Debug)]
struct Taker {
    asker: Option<Arc<str>>,
    taken: u64,
}

pub(super) struct Splits {
    reissue: bool,
    /// Calls taken so far.
    count: u64,
    asking: CallMap<(IterationId, i64, i64, Taker)>,
    taken: BTreeMap<Split, Taker>,
    addresses: BTreeMap<WorkerId, Arc<str>>,
    /// When each address was last declared lost or restarted, or lost a task to others.
    gone: BTreeMap<Arc<str>, u64>,
}

impl Splits {
    pub(super) fn new(reissue: bool) -> Self {
        Self {
            reissue,
            count: 0,
            asking: CallMap::default(),
            taken: BTreeMap::new(),
            addresses: BTreeMap::new(),
            gone: BTreeMap::new(),
        }
    }

    fn record(&mut self, record: &Record, shadow: &Shadow) {
        let Record::Dispatcher(record) = record else {
            return;
        };
        match record {
            dispatcher::Record::RegisterWorker { id, address, .. } => {
                self.addresses.insert(*id, address.clone());
            }
            dispatcher::Record::LoseWorker { id, .. }
            | dispatcher::Record::RestartTasks { worker: id, .. } => {
                let known = self.addresses.get(id).cloned();
                let address =
                    known.or_else(|| Some(shadow.state().workers().get(id)?.address.clone()));
                if let Some(address) = address {
                    self.gone.insert(address, self.count);
                }
            }
            // Its caller left without taking the answer. A split's value is its place.
            dispatcher::Record::TakeBackSplit { iteration, source, repetition, place, .. } => {
                let value = place.cast_signed();
                self.taken.remove(&(*iteration, i64::from(*source), *repetition, value));
            }
            // Its splits are for others from here on.
            dispatcher::Record::RemoveTask { id, again: true } => {
                let task = shadow.state().tasks().get(id);
                let worker = task.and_then(|task| shadow.state().workers().get(&task.worker));
                if let Some(worker) = worker {
                    self.gone.insert(worker.address.clone(), self.count);
                }
            }
            _ => {}
        }
    }

    /// Whether a split may go to somebody else.
    fn is_free(&self, taker: &Taker) -> bool {
        let gone = taker.asker.as_ref().and_then(|asker| self.gone.get(asker));
        self.reissue && gone.is_some_and(|gone| *gone >= taker.taken)
    }

    fn answered(&mut self, call: CallId, reply: &Reply) -> Verdict {
        let Some((iteration, source, pass, taker)) = self.asking.remove(&call) else {
            return Ok(());
        };
        let Reply::Split(Some(value)) = reply else {
            return Ok(());
        };
        let split = (iteration, source, pass, *value);
        let before = self.taken.get(&split);
        reached(if before.is_none() { Check::SplitsFirst } else { Check::SplitsAgain });
        if let Some(before) = before
            && !self.is_free(before)
        {
            return Err(format!(
                "split {value} of source {source}, pass {pass} of iteration {iteration} went to \
                 {:?} and then to {:?}",
                before.asker, taker.asker
            ));
        }
        self.taken.insert(split, taker);
        Ok(())
    }
}

impl Oracle for Splits {
    fn name(&self) -> &'static str {
        "splits"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Answered,
            SeenKind::GivenUp,
            SeenKind::Died,
            SeenKind::Configured,
            SeenKind::DispatcherRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { call, request, .. } => {
                self.count = self.count.saturating_add(1);
                if let Request::GetSplit { iteration, repetition, source, asker } = request {
                    let taker = Taker { asker: asker.clone(), taken: self.count };
                    self.asking.insert(*call, (*iteration, *source, *repetition, taker));
                }
            }
            Seen::Recorded { record, .. } => self.record(record, shadow),
            Seen::Answered { call, answer: Ok(reply), .. } => return self.answered(*call, reply),
            Seen::Answered { call, .. } | Seen::GivenUp { call } => {
                self.asking.remove(call);
            }
            Seen::Died => self.asking.clear(),
            Seen::Configured(config) => self.reissue |= config.reissue_lost_splits,
            _ => {}
        }
        Ok(())
    }
}
