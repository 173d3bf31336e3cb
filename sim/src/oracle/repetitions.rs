//! A repetition that ended by itself does not begin again, however long ago its iteration and its job were
//! freed; nor does one that was abandoned. Unless an operator deleted the job, or its job was set back to a
//! position that was saved before; or was to begin at one that an operator deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::dispatcher;
use rondo_core::ids::{JobId, Lsn};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

/// What became of repetitions, by the name of their job, oldest first.
#[derive(Default)]
pub(super) struct Repetitions {
    changes: Vec<(Lsn, Arc<str>, Change)>,
    /// Repetitions that must not begin, after all changes, by job.
    over: BTreeMap<Arc<str>, BTreeSet<i64>>,
    /// Those that must not begin in a job that is set back to a position, by position.
    saved: BTreeMap<Arc<str>, BTreeSet<i64>>,
}

#[derive(Clone, Debug)]
enum Change {
    /// It ended, and its iteration was freed; or it was given up.
    Over(i64),
    /// A position of the job was saved.
    Saved(Arc<str>),
    /// The job was set back to a position.
    SetBack(Arc<str>),
    /// All of the job's may begin again.
    Anew,
}

impl Repetitions {
    fn change(&mut self, lsn: Lsn, job: Arc<str>, change: Change) {
        self.apply(&job, &change);
        self.changes.push((lsn, job, change));
    }

    fn apply(&mut self, job: &Arc<str>, change: &Change) {
        match change {
            Change::Over(repetition) => {
                self.over.entry(job.clone()).or_default().insert(*repetition);
            }
            Change::Saved(position) => {
                let over = self.over.get(job).cloned().unwrap_or_default();
                self.saved.insert(position.clone(), over);
            }
            Change::SetBack(position) => {
                let over = self.saved.get(position).cloned().unwrap_or_default();
                self.over.insert(job.clone(), over);
            }
            Change::Anew => drop(self.over.remove(job)),
        }
    }

    fn record(&mut self, lsn: Lsn, record: &dispatcher::Record, shadow: &Shadow) -> Verdict {
        let state = shadow.state();
        let name = |id: JobId| state.jobs().get(&id).map(|job| job.name.clone());
        match record {
            dispatcher::Record::FreeIteration { id, .. } => {
                let of = state.iterations().get(id).filter(|of| of.finished && !of.collected);
                if let Some((of, job)) = of.and_then(|of| Some((of, name(of.job)?))) {
                    self.change(lsn, job, Change::Over(of.repetition));
                }
            }
            dispatcher::Record::AbandonIteration { id, .. } => {
                let of = state.iterations().get(id);
                if let Some((of, job)) = of.and_then(|of| Some((of, name(of.job)?))) {
                    self.change(lsn, job, Change::Over(of.repetition));
                }
            }
            dispatcher::Record::SavePosition { name, job, .. } => {
                self.change(lsn, job.clone(), Change::Saved(name.clone()));
            }
            dispatcher::Record::RestorePosition { name, job, .. } => {
                self.change(lsn, job.clone(), Change::SetBack(name.clone()));
            }
            // A job that is yet to come and was to begin there begins at the beginning.
            dispatcher::Record::DeletePosition { name: position } => {
                let waiting = state.restorations().values().filter(|it| it.position == *position);
                let to_come = waiting.filter(|it| state.job_named(&it.job).is_none());
                let jobs: Vec<Arc<str>> = to_come.map(|waits| waits.job.clone()).collect();
                jobs.into_iter().for_each(|job| self.change(lsn, job, Change::Anew));
            }
            dispatcher::Record::DeleteJob { name: job, .. } => {
                self.change(lsn, job.clone(), Change::Anew);
            }
            dispatcher::Record::CreateIteration { job, repetition, .. }
            | dispatcher::Record::ResumeIteration { job, repetition, .. } => {
                if let Some(job) = name(*job) {
                    return self.begins(&job, *repetition);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begins(&self, job: &Arc<str>, repetition: i64) -> Verdict {
        let Some(over) = self.over.get(job).filter(|over| !over.is_empty()) else {
            return Ok(());
        };
        reached(Check::Repetitions);
        match over.contains(&repetition) {
            true => Err(format!("repetition {repetition} of job {job:?} begins again")),
            false => Ok(()),
        }
    }

    /// What was not durable may be gone, the end of an iteration with it.
    fn recovered(&mut self, upto: Lsn) {
        if self.changes.last().is_none_or(|(lsn, ..)| *lsn <= upto) {
            return;
        }
        self.changes.retain(|(lsn, ..)| *lsn <= upto);
        self.over.clear();
        self.saved.clear();
        for (_, job, change) in std::mem::take(&mut self.changes) {
            self.change(upto, job, change);
        }
    }
}

impl Oracle for Repetitions {
    fn name(&self) -> &'static str {
        "repetitions"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Recovered, SeenKind::DispatcherRecord]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Recorded { lsn, record: Record::Dispatcher(record), .. } => {
                return self.record(*lsn, record, shadow);
            }
            Seen::Recovered { state, .. } => self.recovered(state.applied),
            _ => {}
        }
        Ok(())
    }
}
