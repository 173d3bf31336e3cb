//! Records of barriers.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;

use super::record::{Kept, Opening, Participants, Record};
use super::state::{Arrival, Barrier, Namespace, Outcome};
use super::types::{BarrierKey, Fault};
use crate::ids::{Lsn, TaskIndex};
use crate::limits::{BARRIERS_MAX, LISTED_PARTICIPANTS_MAX};
use crate::log::{ApplyError, missing};
use crate::time::{Duration, Time};

impl Namespace {
    pub(super) fn apply_barrier(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match record {
            Record::ArriveAtBarrier { barrier, counter, task, stamp, opening, at, .. } => {
                if !self.can_have(*task) {
                    return Err(missing("task", task));
                }
                match opening {
                    Some(opening) => self.open(lsn, (barrier, *counter), *task, opening, *at)?,
                    None => self.check_open(barrier, *counter)?,
                }
                let arrival = Arrival { at: *at, stamp: *stamp };
                if let Some(stamp) = stamp {
                    self.note_stamp(*stamp);
                }
                self.arrive(lsn, barrier, *task, arrival)
            }
            Record::LeaveBarrier { barrier, task, .. } => {
                let barrier = self.barriers.get_mut(barrier);
                let barrier = barrier.ok_or_else(|| missing("task at a barrier", task))?;
                barrier.arrived.remove(task).ok_or_else(|| missing("task at a barrier", task))?;
                barrier.changed = lsn;
                Ok(())
            }
            Record::EndBarrier { barrier, counter, fault, at, .. } => {
                self.end(lsn, (barrier, *counter), fault.as_ref(), *at)
            }
            _ => Err(ApplyError("the record is of no kind that barriers have".into())),
        }
    }

    fn open(
        &mut self,
        lsn: Lsn,
        (key, counter): (&BarrierKey, i64),
        initiator: TaskIndex,
        opening: &Opening,
        at: Time,
    ) -> Result<(), ApplyError> {
        if self.index.open.contains(key) {
            return Err(ApplyError(format!("barrier {} is open already", key.id())));
        }
        self.replace(Barrier {
            key: key.clone(),
            counter,
            participants: Some(opening.participants.clone()),
            opened: at,
            timeout: opening.timeout,
            initiator: Some(initiator),
            arrived: BTreeMap::new(),
            outcome: None,
            changed: lsn,
        });
        Ok(())
    }

    /// Puts a barrier in place of what it was before, and among those of its kind.
    pub(super) fn replace(&mut self, barrier: Barrier) {
        let key = barrier.key.clone();
        self.take_out(&key);
        let listed = barrier.listed();
        match (&barrier.outcome, &key) {
            (None, _) => {
                self.index.open.insert(key.clone());
            }
            (Some(_), BarrierKey::Named(_)) => {
                self.index.ended.insert((barrier.changed, key.clone()));
                if listed > 0 {
                    self.index.ended_with_list.insert((barrier.changed, key.clone()));
                }
            }
            (Some(_), _) => {}
        }
        self.index.listed = self.index.listed.saturating_add(listed);
        self.barriers.insert(key, barrier);
        self.forget_oldest_barriers();
    }

    /// Takes a barrier out, and out of what leads to it.
    fn take_out(&mut self, key: &BarrierKey) -> Option<Barrier> {
        let barrier = self.barriers.remove(key)?;
        let place = (barrier.changed, key.clone());
        self.index.open.remove(key);
        self.index.ended.remove(&place);
        self.index.ended_with_list.remove(&place);
        self.index.listed = self.index.listed.saturating_sub(barrier.listed());
        Some(barrier)
    }

    /// Forgets ended barriers, and lists of ended barriers, above their bounds: those first that ended
    /// first. The next instance of a barrier without a list settles its participants anew.
    fn forget_oldest_barriers(&mut self) {
        while self.barriers.len() > BARRIERS_MAX {
            let Some((_, oldest)) = self.index.ended.first().cloned() else {
                return;
            };
            self.take_out(&oldest);
        }
        while self.index.listed > LISTED_PARTICIPANTS_MAX {
            let Some((_, oldest)) = self.index.ended_with_list.pop_first() else {
                return;
            };
            if let Some(barrier) = self.barriers.get_mut(&oldest) {
                self.index.listed = self.index.listed.saturating_sub(barrier.listed());
                barrier.participants = None;
            }
        }
    }

    fn check_open(&self, key: &BarrierKey, counter: i64) -> Result<(), ApplyError> {
        let barrier = self
            .barriers
            .get(key)
            .filter(|barrier| barrier.outcome.is_none() && barrier.counter == counter);
        match barrier {
            Some(_) => Ok(()),
            None => Err(missing("open barrier", format!("{}::{counter}", key.id()))),
        }
    }

    fn arrive(
        &mut self,
        lsn: Lsn,
        key: &BarrierKey,
        task: TaskIndex,
        arrival: Arrival,
    ) -> Result<(), ApplyError> {
        let barrier = self.barriers.get_mut(key).ok_or_else(|| missing("barrier", key.id()))?;
        barrier.arrived.insert(task, arrival);
        barrier.changed = lsn;
        Ok(())
    }

    fn end(
        &mut self,
        lsn: Lsn,
        (key, counter): (&BarrierKey, i64),
        fault: Option<&Fault>,
        at: Time,
    ) -> Result<(), ApplyError> {
        let fault = fault.cloned().map(Arc::new);
        if fault.is_none() {
            self.check_open(key, counter)?;
            self.turn_all(key, at, lsn);
        }
        let (mut ended, arrived) = match self.take_out(key) {
            Some(mut before) => {
                let arrived = core::mem::take(&mut before.arrived);
                (before, arrived)
            }
            None => (Barrier::never_opened(key.clone(), at), BTreeMap::new()),
        };
        let kept = Kept::Barrier { counter, fault: fault.as_deref().cloned() };
        for stamp in arrived.values().filter_map(|arrival| arrival.stamp) {
            self.keep_result(stamp.relay, stamp.sequence, stamp.acknowledged, kept.clone());
        }
        (ended.counter, ended.changed) = (counter, lsn);
        ended.outcome = Some(fault.map_or(Outcome::Passed, Outcome::Failed));
        self.replace(ended);
        Ok(())
    }
}

impl Barrier {
    /// How many tasks its own list of participants names.
    pub(super) fn listed(&self) -> usize {
        match &self.participants {
            Some(Participants::Some(tasks)) => tasks.len(),
            Some(Participants::All) | None => 0,
        }
    }

    fn never_opened(key: BarrierKey, at: Time) -> Self {
        Self {
            key,
            counter: 0,
            participants: None,
            opened: at,
            timeout: Duration::ZERO,
            initiator: None,
            arrived: BTreeMap::new(),
            outcome: None,
            changed: Lsn::NONE,
        }
    }
}
