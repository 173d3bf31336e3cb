//! No state grows after clients are gone: long after everybody has left, only that is there which
//! the settings keep for ever.

use rondo_core::dispatcher::{Config, ShardingPolicy, State};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

pub(super) struct Leftover {
    config: Config,
}

impl Leftover {
    pub(super) const fn new(config: Config) -> Self {
        Self { config }
    }

    fn check(&self, state: &State) -> Verdict {
        // Nothing is maintained at all without it.
        if self.config.job_gc_timeout.is_none() {
            return Ok(());
        }
        reached(Check::Leftover);
        if let Some(id) = state.clients().keys().next() {
            return Err(format!("client {id} is still there"));
        }
        for iteration in state.iterations().values() {
            let job = state.jobs().get(&iteration.job);
            let dynamic = job.is_some_and(|job| job.sharding == ShardingPolicy::Dynamic);
            let is_given_up = self.config.gc_dynamic_sharding_jobs
                || self.config.abandoned_iteration_retention.is_some();
            let kept = dynamic && !iteration.finished && !is_given_up;
            if !kept {
                return Err(format!("iteration {} is still there", iteration.id));
            }
        }
        self.check_workers(state)?;
        self.check_jobs(state)?;
        self.check_datasets(state)
    }

    fn check_workers(&self, state: &State) -> Verdict {
        if self.config.lost_worker_retention.is_none() {
            return Ok(());
        }
        let busy = |id| state.tasks().values().any(|task| task.worker == id);
        match state.workers().values().find(|worker| worker.lost && !busy(worker.id)) {
            Some(worker) => Err(format!("lost worker {} is still there", worker.address)),
            None => Ok(()),
        }
    }

    fn check_jobs(&self, state: &State) -> Verdict {
        let unused = state.jobs().values().find(|job| {
            let used = state.iterations().values().any(|iteration| iteration.job == job.id);
            !used && (job.anonymous || self.config.named_job_retention.is_some())
        });
        match unused {
            Some(job) => Err(format!("job {} is still there", job.name)),
            None => Ok(()),
        }
    }

    fn check_datasets(&self, state: &State) -> Verdict {
        if self.config.dataset_retention.is_none() {
            return Ok(());
        }
        let next = state.counters().dataset;
        let unused = state.datasets().keys().find(|id| {
            let used = state.jobs().values().any(|job| job.dataset == **id);
            // One whose number is still to come must stay, or it would be given away again.
            let to_come = id.as_str().parse::<i64>().is_ok_and(|number| number >= next);
            // The current version stays as long as others.
            let needed = state.versions().values().any(|versions| {
                let others =
                    versions.later.len() > 1 || state.datasets().contains_key(&versions.name);
                versions.current == **id && others
            });
            !used && !to_come && !needed
        });
        match unused {
            Some(id) => Err(format!("dataset {id} is still there")),
            None => Ok(()),
        }
    }
}

impl Oracle for Leftover {
    fn name(&self) -> &'static str {
        "leftover"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Configured, SeenKind::GoneLongAgo]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Configured(config) => {
                self.config.clone_from(config);
                Ok(())
            }
            Seen::GoneLongAgo(node) => self.check(node.dispatcher().state()),
            _ => Ok(()),
        }
    }
}
