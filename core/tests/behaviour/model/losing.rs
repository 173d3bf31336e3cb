//! Lost workers in the model.

use std::collections::BTreeMap;

use rondo_core::ids::{IterationId, TaskId};
use rondo_core::time::{Duration, Time};

use super::{Kept, Model};

/// A worker's signs of life.
#[derive(Clone, Debug)]
pub(super) struct Signs {
    /// From when on it is silent.
    since: Time,
    /// Whether this process has heard it.
    heard: bool,
    /// Its silences between heartbeats to this process.
    gaps: Vec<Duration>,
}

/// Whoever is in a recovered state and not lost has just given one.
pub(super) fn survivors(kept: &Kept, now: Time) -> BTreeMap<String, Signs> {
    let addresses = kept.workers.iter().map(|worker| worker.address.clone());
    let alive = addresses.filter(|address| !kept.lost.contains(address));
    let signs = Signs { since: now, heard: false, gaps: Vec::new() };
    alive.map(|address| (address, signs.clone())).collect()
}

impl Signs {
    /// Three times the largest gap of the present eight gaps and the eight before them; at least
    /// 3 s, and 90 s before two gaps are known. None counts for more than the patience at its end.
    fn patience(&self, timeout: Duration) -> Duration {
        let gaps = &self.gaps;
        let blocks = gaps.chunks(8).rev().take(2);
        let largest = blocks.flatten().copied().max().unwrap_or_default();
        let least = Duration::from_secs(if gaps.len() < 2 { 30 } else { 1 });
        let gap = largest.max(least);
        timeout.max(Duration::from_nanos(gap.as_nanos() * 3))
    }
}

impl Model {
    pub(super) fn hear_worker(&mut self, now: Time, address: &str, reborn: bool) {
        let now = self.held_up.less(now);
        let signs = self.signs.entry(address.into()).or_insert(Signs {
            since: now,
            heard: false,
            gaps: Vec::new(),
        });
        if reborn {
            signs.gaps.clear();
        } else if signs.heard {
            let patience = signs.patience(self.config.worker_timeout.unwrap_or_default());
            signs.gaps.push(now.since(signs.since).min(patience));
        }
        (signs.since, signs.heard) = (now, true);
        self.lost_since.remove(address);
    }

    pub(super) fn lose_silent(&mut self, now: Time, refuses: bool) {
        let Some(timeout) = self.config.worker_timeout else {
            return;
        };
        let (at, now) = (now, self.held_up.less(now));
        let mut lost = Vec::new();
        for (address, signs) in &mut self.signs {
            let ends = signs.since.after(signs.patience(timeout));
            if now <= ends || self.kept.lost.contains(address) {
                continue;
            }
            if refuses {
                signs.since = now;
            } else {
                lost.push(address.clone());
            }
        }
        let again = self.config.reissue_lost_splits;
        for address in lost {
            self.kept.lose(&address, again);
            self.lost_since.insert(address, at);
        }
        let open: Vec<IterationId> = self.kept.iterations.iter().map(|i| i.id).collect();
        open.into_iter().for_each(|id| self.kept.make_reader(id));
    }
}

impl Kept {
    fn lose(&mut self, address: &str, again: bool) {
        self.lost.insert(address.into());
        let own = |id: &TaskId| self.tasks[id].address == address && !self.tasks[id].finished;
        let uncoordinated = self.iterations.iter();
        let uncoordinated = uncoordinated.filter(|i| self.job_of(i).consumers.is_none());
        let tasks = uncoordinated.flat_map(|iteration| &iteration.active);
        let tasks: Vec<TaskId> = tasks.copied().filter(own).collect();
        for task in tasks {
            let iteration = self.tasks[&task].iteration;
            self.forsake(task, again);
            self.stray(address, iteration);
            self.erase(task);
            self.end_if_over(iteration);
        }
    }
}
