//! A repetition that ended by itself does not begin again, however long ago its iteration was freed;
//! unless its job was set back to a position.

use std::collections::BTreeMap;

use rondo_core::control::Record;
use rondo_core::dispatcher;
use rondo_core::ids::{JobId, Lsn};
use rondo_core::time::Time;

use super::{Oracle, Seen, Shadow, Verdict};
use crate::checks::{Check, reached};

/// Repetitions whose iterations are freed, by the record that freed them.
#[derive(Default)]
pub(super) struct Repetitions {
    freed: BTreeMap<(JobId, i64), Lsn>,
}

impl Repetitions {
    fn record(&mut self, lsn: Lsn, record: &dispatcher::Record, shadow: &Shadow) -> Verdict {
        let state = shadow.state();
        match record {
            dispatcher::Record::FreeIteration { id, .. } => {
                let of = state.iterations().get(id).filter(|of| of.finished && !of.collected);
                self.freed.extend(of.map(|of| ((of.job, of.repetition), lsn)));
            }
            dispatcher::Record::RestorePosition { job, .. } => {
                let id = state.jobs().values().find(|of| of.name == *job).map(|of| of.id);
                self.freed.retain(|(of, _), _| Some(*of) != id);
            }
            dispatcher::Record::CreateIteration { job, repetition, .. }
            | dispatcher::Record::ResumeIteration { job, repetition, .. } => {
                let of_job = (*job, i64::MIN)..=(*job, i64::MAX);
                if self.freed.range(of_job).next().is_some() {
                    reached(Check::Repetitions);
                }
                if self.freed.contains_key(&(*job, *repetition)) {
                    return Err(format!("repetition {repetition} of job {job} begins again"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Oracle for Repetitions {
    fn name(&self) -> &'static str {
        "repetitions"
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Recorded { lsn, record: Record::Dispatcher(record), .. } => {
                return self.record(*lsn, record, shadow);
            }
            // What was not durable may be gone, the end of the iteration with it.
            Seen::Recovered { state, .. } => self.freed.retain(|_, lsn| *lsn <= state.applied),
            _ => {}
        }
        Ok(())
    }
}
