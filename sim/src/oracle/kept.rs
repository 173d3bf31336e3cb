//! The state that the core keeps equals what models of the simulator's own make of the records: the keys of
//! each namespace, the tasks that have come to each barrier, the splits of each source that were handed out.
//!
//! `replay` compares the core's `apply` with itself. A mistake of it that is the same live and in replay is
//! seen here.

mod sources;

use rondo_core::control::Record;
use rondo_core::coordination::{self, Barrier, Namespace};
use rondo_core::dispatcher;
use rondo_core::time::Time;

use self::sources::Sources;
use super::jobs::Jobs;
use super::watches::model::Keys;
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

#[derive(Default)]
pub(super) struct KeptState {
    keys: Keys,
    jobs: Jobs,
    sources: Sources,
}

impl KeptState {
    fn check(&self, dispatcher: &dispatcher::State, service: &coordination::State) -> Verdict {
        for of in service.namespaces().values() {
            self.check_keys(of)?;
            of.open_barriers().try_for_each(|barrier| self.check_barrier(of, barrier))?;
        }
        reached(Check::KeptSplits);
        self.sources.check(dispatcher)
    }

    fn check_keys(&self, of: &Namespace) -> Verdict {
        reached(Check::KeptKeys);
        match self.keys.difference(of) {
            Some(difference) => Err(format!("namespace {:?}: {difference}", of.head().name)),
            None => Ok(()),
        }
    }

    fn check_barrier(&self, of: &Namespace, barrier: &Barrier) -> Verdict {
        let life = self.jobs.get(of.head().id);
        let own = life.and_then(|life| life.instance(&barrier.key, barrier.counter));
        reached(Check::KeptBarriers);
        let came = own.iter().flat_map(|own| &own.came).copied();
        if came.eq(barrier.arrived.keys().map(|task| task.get())) {
            return Ok(());
        }
        let (name, counter, arrived) = (barrier.key.id(), barrier.counter, &barrier.arrived);
        Err(format!("these have come to {name}::{counter}: {arrived:?}, and should be: {own:?}"))
    }
}

impl Oracle for KeptState {
    fn name(&self) -> &'static str {
        "kept"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Recovered,
            SeenKind::Looked,
            SeenKind::DispatcherRecord,
            SeenKind::CoordinationRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Recorded { lsn, record: Record::Coordination(record), .. } => {
                self.keys.record(*lsn, record);
                self.jobs.apply(record);
            }
            Seen::Recorded { lsn, record: Record::Dispatcher(record), .. } => {
                self.sources.record(*lsn, record);
            }
            Seen::Recovered { state, .. } => {
                self.keys.recovered(state.applied);
                self.sources.recovered(state.applied);
                self.jobs.recover(&state.coordination);
                return self.check(&state.dispatcher, &state.coordination);
            }
            Seen::Looked(_) => return self.check(shadow.state(), shadow.coordination()),
            _ => {}
        }
        Ok(())
    }
}
