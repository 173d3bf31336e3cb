//! Processes at one address, one after another, in the model.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::dispatcher::{Reply, WorkerHeartbeat};
use rondo_core::ids::{IterationId, TaskId};
use rondo_core::time::{Duration, Time};

use super::splitting::Holder;
use super::{Heard, Kept, Model};

/// The process at an address.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    /// From when on it names each task that it runs.
    runs: BTreeMap<TaskId, Time>,
    /// Finished tasks that it does not have: it did not name them when it was heard last, or was told
    /// to drop them then.
    pub(super) dropped: BTreeSet<TaskId>,
    /// Uids of those before it.
    former: Vec<i64>,
    /// Uids of former ones heard since the present one was.
    strangers: Vec<i64>,
}

/// Processes run the tasks that took splits.
pub(super) fn survivors(kept: &Kept, now: Time) -> BTreeMap<String, Process> {
    let mut all: BTreeMap<String, Process> = BTreeMap::new();
    for (id, task) in &kept.tasks {
        let given = &kept.iteration(task.iteration).unwrap().given;
        let uid = kept.workers.iter().find(|it| it.address == task.address).unwrap().uid;
        if uid == -1 && given.count(&Holder::Task(*id)) > 0 {
            all.entry(task.address.clone()).or_default().runs.insert(*id, now);
        }
    }
    all
}

impl Model {
    pub(super) fn is_reborn(&self, now: Time, before: i64, heartbeat: &WorkerHeartbeat) -> bool {
        let own = self.unfinished_on(&heartbeat.address);
        let process = self.processes.get(&heartbeat.address).cloned().unwrap_or_default();
        let runs = process.runs.iter().filter(|(id, from)| **from <= now && own.contains(*id));
        let runs: Vec<&TaskId> = runs.map(|(id, _)| id).collect();
        let names_none = runs.iter().all(|id| !heartbeat.current_tasks.contains(id));
        before != heartbeat.uid || before == -1 && !runs.is_empty() && names_none
    }

    /// Whether another process has the address by now. A former one gets it back with its third
    /// heartbeat in a row.
    pub(super) fn is_former(&mut self, before: i64, heartbeat: &WorkerHeartbeat) -> bool {
        let address = &heartbeat.address;
        let is_lost = self.kept.lost.contains(address);
        let process = self.processes.entry(address.clone()).or_default();
        if before == heartbeat.uid {
            process.strangers.clear();
            return false;
        }
        if is_lost || !process.former.contains(&heartbeat.uid) {
            return false;
        }
        process.strangers.push(heartbeat.uid);
        let last = process.strangers.iter().rev().take(3);
        last.filter(|uid| **uid == heartbeat.uid).count() < 3
    }

    /// Takes note of a heartbeat.
    pub(super) fn note_process(
        &mut self,
        now: Time,
        (before, reborn): (i64, bool),
        heartbeat: &WorkerHeartbeat,
    ) {
        let own = self.unfinished_on(&heartbeat.address);
        let process = self.processes.entry(heartbeat.address.clone()).or_default();
        if before != heartbeat.uid {
            process.former.retain(|uid| *uid != heartbeat.uid);
            process.former.extend(Some(before).filter(|uid| *uid != -1));
            process.strangers.clear();
        }
        if reborn {
            process.runs.clear();
        }
        if heartbeat.uid == -1 {
            let named = heartbeat.current_tasks.iter().filter(|id| own.contains(id));
            process.runs.extend(named.map(|id| (*id, now)));
        }
    }

    /// A worker has named its tasks in a heartbeat, and the answer tells it to drop some. The model notes
    /// which finished tasks the worker has no more.
    pub(super) fn note_dropped(
        &mut self,
        address: &str,
        named: &BTreeSet<TaskId>,
        told: &[TaskId],
    ) {
        let own =
            self.kept.tasks.iter().filter(|(_, task)| task.finished && task.address == address);
        let is_gone = |id: &TaskId| !named.contains(id) || told.contains(id);
        let dropped = own.map(|(id, _)| *id).filter(is_gone).collect();
        self.processes.entry(address.into()).or_default().dropped = dropped;
    }

    /// Takes note of a split that a worker got: it knows the task, and names it in all heartbeats
    /// that it sends from now on.
    pub(super) fn note_split(
        &mut self,
        now: Time,
        iteration: IterationId,
        asker: Option<&str>,
        heard: &Heard,
    ) {
        let (Some(address), Ok(Reply::Split(Some(_)))) = (asker, heard) else {
            return;
        };
        let uid = self.kept.workers.iter().find(|it| it.address == address).map(|it| it.uid);
        if let (Some(-1), Some(task)) = (uid, self.kept.task_on(address, iteration)) {
            let process = self.processes.entry(address.into()).or_default();
            process.runs.entry(task).or_insert(now.after(Duration::from_secs(5)));
        }
    }
}
