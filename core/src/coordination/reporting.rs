//! Draws the picture.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::live::Live;
use super::machine::Coordination;
use super::ranges::ranges;
use super::report::{CoordinationTaskReport, NamespaceReport, Report, TaskWait, WaitReport};
use super::state::{Barrier, Namespace, Task};
use super::types::Phase;
use crate::ids::{NamespaceId, TaskIndex};
use crate::time::Time;

impl Coordination {
    pub(super) fn report(&self, now: Time) -> Report {
        let both = self.lives.iter().filter_map(|(id, live)| {
            Some(self.report_namespace(self.state.namespaces.get(id)?, live, now))
        });
        Report { namespaces: both.collect() }
    }

    fn report_namespace(&self, namespace: &Namespace, live: &Live, now: Time) -> NamespaceReport {
        let head = &namespace.head;
        let tasks = namespace.tasks.values();
        let connected = tasks.clone().filter(|task| task.phase == Phase::Connected).count();
        let absent = namespace.indexes().filter(|task| !namespace.tasks.contains_key(task));
        let mut waits: Vec<_> = namespace
            .open_barriers()
            .map(|barrier| self.report_barrier(namespace, live, barrier, now))
            .collect();
        waits.extend(report_keys(live, now));
        waits.sort_by_key(|wait| Reverse(wait.waiting_ms));
        NamespaceReport {
            name: head.name.to_string(),
            life: head.life,
            incarnation: head.incarnation.to_string(),
            tasks_expected: head.size,
            tasks_connected: connected as u64,
            never_registered: ranges(absent),
            tasks: tasks.map(|task| self.report_task(head.id, task, live, now)).collect(),
            waits,
            error: head.sticky.as_ref().map(|fault| format!("{fault}")),
            keys: namespace.store.entries().len() as u64,
            size_bytes: namespace.store.size_bytes(),
            revision: head.revision.get(),
            waiting_calls: live.seats_taken() as u64,
            heartbeat_timeout_ms: Some(live.settings.heartbeat_timeout.as_millis()),
        }
    }

    fn report_barrier(
        &self,
        namespace: &Namespace,
        live: &Live,
        barrier: &Barrier,
        now: Time,
    ) -> WaitReport {
        let missing: Vec<TaskIndex> = namespace.missing_at(barrier).collect();
        let wait = |(task, at): (&TaskIndex, Time)| TaskWait {
            task: task.get(),
            waiting_ms: now.since(at).as_millis(),
        };
        let came = barrier.arrived.iter().map(|(task, arrival)| (task, arrival.at));
        let due = live.barrier_alarms.get(&barrier.key);
        WaitReport {
            kind: "barrier".into(),
            what: format!("{}::{}", barrier.key.id(), barrier.counter),
            waiting_ms: now.since(barrier.opened).as_millis(),
            remaining_ms: due.map(|due| due.since(now).as_millis()),
            came: ranges(barrier.arrived.keys().copied()),
            missing: ranges(missing.iter().copied()),
            about_missing: self.described(namespace.head.id, &missing, now),
            waits: came.map(wait).collect(),
            calls: live.waiting.get(&barrier.key).map_or(0, |calls| calls.len() as u64),
        }
    }

    fn report_task(
        &self,
        id: NamespaceId,
        task: &Task,
        live: &Live,
        now: Time,
    ) -> CoordinationTaskReport {
        let beat = live.beats.get(&task.index);
        let doing = beat.and_then(|beat| beat.doing.as_ref());
        let state = match task.phase {
            Phase::Registering => "registering",
            Phase::Connected => "connected",
            Phase::Disconnected => "disconnected",
            Phase::Error => "error",
        };
        let progress = self.progress_shown(id, task.index, now);
        CoordinationTaskReport {
            task: task.index.get(),
            state: state.into(),
            since_ms: now.since(task.since).as_millis(),
            incarnation: task.incarnation.to_string(),
            recoverable: task.recoverable,
            peer: beat.and_then(|beat| beat.peer.as_ref()).map(|peer| peer.to_string()),
            silent_ms: beat.and_then(|beat| beat.heard).map(|heard| now.since(heard).as_millis()),
            last_did: doing.map(|(doing, _)| doing.to_string()),
            last_did_ms: doing.map(|(_, at)| now.since(*at).as_millis()),
            error: task.fault.as_ref().map(|fault| format!("{fault}")),
            progress_ms: progress.as_ref().map(|(_, ms)| *ms),
            progress: progress.map(|(shown, _)| shown),
            stuck: self.stuck(id, task.index, now),
        }
    }
}

fn report_keys(live: &Live, now: Time) -> impl Iterator<Item = WaitReport> + '_ {
    live.gets.iter().map(move |(key, calls)| {
        let first = calls.values().min().copied().unwrap_or(now);
        WaitReport {
            kind: "key".into(),
            what: key.to_string(),
            waiting_ms: now.since(first).as_millis(),
            remaining_ms: None,
            came: String::new(),
            missing: String::new(),
            about_missing: String::new(),
            waits: Vec::new(),
            calls: calls.len() as u64,
        }
    })
}
