//! What tasks are told of each other: states, versions, who is alive.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::live::{Doing, Seat};
use super::machine::{Answer, Asked, Coordination, Said, Turn};
use super::record::{AliveAnswer, Record};
use super::refusal::Refusal;
use super::reply::Reply;
use super::types::{Phase, TaskInfo, TaskName};
use crate::ids::{CallId, Incarnation, NamespaceId, TaskIndex};
use crate::limits::{COORDINATION_TASKS_MAX, RELAYS_MAX};

/// So many tasks may be named in one request, however few the job has.
const NAMED_TASKS_MIN: u32 = 1024;

impl Coordination {
    /// `GetTaskState`.
    pub(super) fn task_states(
        &self,
        turn: &Turn<'_>,
        id: NamespaceId,
        names: &[TaskName],
    ) -> Answer {
        check_list(names)?;
        let namespace = self.namespace(id)?;
        let bound = namespace.bound().max(NAMED_TASKS_MIN);
        if names.len() as u64 > u64::from(bound) {
            // Each name has an answer of its own, which may repeat a long error.
            return Err(Refusal::TooMany { what: "names of tasks", bound: bound.into() });
        }
        let info = |name| Ok(namespace.info(self.index_of(id, name, "request")?));
        let infos = names.iter().map(info).collect::<Result<_, Refusal>>()?;
        Ok(Said::Now(Reply::TaskStates(infos), turn.log.last()))
    }

    /// `GetJobState`.
    pub(super) fn job_state(&self, turn: &Turn<'_>, id: NamespaceId, job: &str) -> Answer {
        let namespace = self.namespace(id)?;
        let infos = match *self.live(id)?.settings.job == *job {
            true => namespace.indexes().map(|task| namespace.info(task)).collect(),
            false => Vec::new(),
        };
        Ok(Said::Now(Reply::TaskStates(infos), turn.log.last()))
    }

    /// `WatchTasks` and `WatchJobState`.
    pub(super) fn watch_tasks(
        &mut self,
        turn: &Turn<'_>,
        asked: Asked<'_>,
        version: i64,
    ) -> Answer {
        let Asked { id, call, .. } = asked;
        let newest = self.namespace(id)?.head.version;
        if version > newest {
            return Err(Refusal::FutureVersion { asked: version, newest });
        }
        if version < newest {
            return Ok(Said::Now(self.all_tasks(id)?, turn.log.last()));
        }
        self.park(call, id, Seat::TaskWatch)?;
        self.live_mut(id)?.task_watches.insert(call);
        Ok(Said::Later)
    }

    fn all_tasks(&self, id: NamespaceId) -> Result<Reply, Refusal> {
        let namespace = self.namespace(id)?;
        let tasks: Arc<[TaskInfo]> = namespace.indexes().map(|task| namespace.info(task)).collect();
        Ok(Reply::Tasks { tasks, version: namespace.head.version })
    }

    /// Wakes watches of tasks whose version is passed. Only a record changes a version, so a step looks at
    /// no other namespaces than those in which it recorded something.
    pub(super) fn tell_versions(&mut self, turn: &Turn<'_>) {
        for id in core::mem::take(&mut self.touched) {
            let Ok(version) = self.namespace(id).map(|namespace| namespace.head.version) else {
                continue;
            };
            let Ok(live) = self.live_mut(id) else {
                continue;
            };
            if live.told_version == version {
                continue;
            }
            live.told_version = version;
            let calls = core::mem::take(&mut live.task_watches);
            if !calls.is_empty() {
                let reply = self.all_tasks(id);
                self.answer_all(turn, calls, reply, turn.log.last());
            }
        }
    }

    /// `GetAliveTasks`.
    pub(super) fn alive_tasks(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        requester: &TaskName,
        names: &[TaskName],
    ) -> Answer {
        let Asked { id, call, caller } = asked;
        check_list(names)?;
        let task = self.index_of(id, requester, "request")?;
        let job = self.live(id)?.settings.job.clone();
        let own = names.iter().filter(|name| name.job.as_ref().is_none_or(|asked| *asked == job));
        let set: BTreeSet<TaskIndex> = own.map(|name| name.index).collect();
        if !set.contains(&task) {
            return Err(Refusal::NotAmongAsked { task: self.called(id, task, caller.dialect) });
        }
        let tasks: Arc<[TaskIndex]> = set.into_iter().collect();
        self.park(call, id, Seat::Alive(tasks.clone()))?;
        self.note(id, task, Doing::AskedWhoIsAlive, turn.now);
        let group = self.live_mut(id)?.groups.entry(tasks.clone()).or_default();
        group.add(call, task, caller.stamp);
        self.complete_group(turn, id, &tasks)?;
        Ok(Said::Later)
    }

    /// Answers a group if all of it that are connected have asked. What relays are told is recorded
    /// before: on another connection they may ask again, when the others have gone on.
    fn complete_group(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        tasks: &Arc<[TaskIndex]>,
    ) -> Result<(), Refusal> {
        let Some(namespace) = self.state.namespaces.get(&id) else {
            return Ok(());
        };
        let connected = |task: &TaskIndex| {
            let known = namespace.tasks.get(task);
            known.is_some_and(|known| known.phase == Phase::Connected)
        };
        let Some(group) = self.lives.get_mut(&id).and_then(|live| live.groups.get_mut(tasks))
        else {
            return Ok(());
        };
        if group.waits(tasks, connected) {
            return Ok(());
        }
        let of = |task: TaskIndex| {
            let known = namespace.tasks.get(&task);
            (task, known.map_or(Incarnation::new(0), |known| known.incarnation))
        };
        let alive: Arc<[_]> = tasks.iter().copied().filter(connected).map(of).collect();
        let answer = AliveAnswer { tasks: alive.clone(), stamps: group.stamps() };
        self.keep_alive_answer(turn, id, answer)?;
        let calls = self.live_mut(id)?.groups.remove(tasks).unwrap_or_default().into_calls();
        self.answer_all(turn, calls, Ok(Reply::Alive(alive)), turn.log.last());
        Ok(())
    }

    /// Records what requests of relays are told. A relay that has acknowledged a request does not ask it
    /// again: nothing would be kept of its answer, so nothing is recorded of it.
    fn keep_alive_answer(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        mut answer: AliveAnswer,
    ) -> Result<(), Refusal> {
        let known = &self.namespace(id)?.relays;
        let mut new = BTreeSet::new();
        answer.stamps.retain(|stamp| match known.get(&stamp.relay) {
            Some(relay) => stamp.sequence > relay.acknowledged,
            // Several may wait that are not known yet. Those beyond the bound are refused if they ask again.
            None => {
                let has_room = known.len().saturating_add(new.len()) < RELAYS_MAX;
                new.contains(&stamp.relay) || has_room && new.insert(stamp.relay)
            }
        });
        if answer.stamps.is_empty() {
            return Ok(());
        }
        let relays: BTreeSet<_> = answer.stamps.iter().map(|stamp| stamp.relay).collect();
        self.commit(turn, Record::AnswerAlive { namespace: id, answer })?;
        relays.into_iter().for_each(|relay| self.hear_relay(id, relay, turn.now));
        Ok(())
    }

    /// Somebody is not there any more: groups that waited for nobody else are answered. `None`
    /// stands for everybody.
    pub(super) fn recheck_groups(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        task: Option<TaskIndex>,
    ) -> Result<(), Refusal> {
        let concerned = self.live(id)?.groups.keys().filter(|tasks| match task {
            Some(task) => tasks.binary_search(&task).is_ok(),
            None => true,
        });
        let concerned: Vec<_> = concerned.cloned().collect();
        for tasks in concerned {
            self.complete_group(turn, id, &tasks)?;
        }
        Ok(())
    }

    /// What a task asked before it restarted, it does not ask now.
    pub(super) fn drop_from_groups(
        &mut self,
        turn: &Turn<'_>,
        id: NamespaceId,
        task: TaskIndex,
    ) -> Result<(), Refusal> {
        let live = self.live_mut(id)?;
        let mut dropped: Vec<CallId> = Vec::new();
        for group in live.groups.values_mut().filter(|group| group.has(task)) {
            dropped.extend(group.drop_asker(task));
        }
        live.groups.retain(|_, group| !group.is_empty());
        let name = self.called(id, task, self.dialect_of(id));
        let refusal = Refusal::CameAgain { task: name, id: "GetAliveTasks".into() };
        self.answer_all(turn, dropped, Err(refusal), turn.log.last());
        Ok(())
    }
}

fn check_list(names: &[TaskName]) -> Result<(), Refusal> {
    match names.len() > COORDINATION_TASKS_MAX {
        true => {
            let bound = COORDINATION_TASKS_MAX as u64;
            Err(Refusal::TooMany { what: "tasks in the list", bound })
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::super::config::{Config, NamespaceConfig};
    use super::super::request::{Call, Caller, Condition, Method, Stamp};
    use super::super::state::State;
    use super::*;
    use crate::ids::{Lsn, RelayId};
    use crate::log::Log;
    use crate::time::Time;

    /// The number of namespaces does not matter to a step that changes one of them, or none.
    #[test]
    fn a_step_looks_at_the_namespaces_that_it_changed() {
        let named = |number: u64| NamespaceConfig {
            tasks: Some(2),
            ..NamespaceConfig::named(format!("n{number}"))
        };
        let config = Config { namespaces: (0..100).map(named).collect() };
        let now = Time::from_millis(1_000);
        let mut service = Coordination::start(config, State::default(), now);
        let (mut log, mut out) = (Log::starting_at(Lsn::new(1)), Vec::new());
        let mut ask = |service: &mut Coordination, number: u64, method: Method| {
            let mut turn = Turn { now, log: &mut log, out: &mut out };
            let namespace = format!("n{number}").as_str().into();
            let call = Call { namespace, caller: Caller::default(), method };
            let id = CallId::new(1_000 + turn.out.len() as u64);
            drop(service.call(&mut turn, id, call, 7));
            let looked_at = service.touched.len();
            service.finish(&mut turn);
            assert!(service.touched.is_empty());
            looked_at
        };
        let get = || Method::TryGetKeyValue { key: "k".into() };
        for number in 0..100 {
            assert_eq!(ask(&mut service, number, get()), 1, "the first call begins a life");
        }
        assert_eq!(ask(&mut service, 5, get()), 0);
        let register = Method::RegisterTask {
            task: TaskName::of(0),
            incarnation: Incarnation::new(1),
            recoverable: false,
            tasks: None,
        };
        assert_eq!(ask(&mut service, 5, register), 1);
    }

    /// Several relays that are not known yet may wait for one answer.
    #[test]
    fn no_answer_makes_more_relays_known_than_there_may_be() {
        let namespace = NamespaceConfig { tasks: Some(3), ..NamespaceConfig::named("n") };
        let config = Config { namespaces: alloc::vec![namespace] };
        let now = Time::from_millis(1_000);
        let mut service = Coordination::start(config, State::default(), now);
        let (mut log, mut out) = (Log::starting_at(Lsn::new(1)), Vec::new());
        let mut calls = 0;
        let mut ask = |service: &mut Coordination, relay: Option<u64>, method: Method| {
            calls += 1;
            out.clear();
            let mut turn = Turn { now, log: &mut log, out: &mut out };
            let relay = relay.map(RelayId::new);
            let stamp = relay.map(|relay| Stamp { relay, sequence: 1, acknowledged: 0 });
            let caller = Caller { stamp, ..Caller::default() };
            let call = Call { namespace: "n".into(), caller, method };
            drop(service.call(&mut turn, CallId::new(calls), call, 7));
            service.finish(&mut turn);
        };
        for task in 0..3 {
            let register = Method::RegisterTask {
                task: TaskName::of(task),
                incarnation: Incarnation::new(1),
                recoverable: false,
                tasks: None,
            };
            ask(&mut service, None, register);
        }
        for relay in 1..RELAYS_MAX as u64 {
            let put = Method::PutKeyValue {
                key: "k".into(),
                value: "v".into(),
                condition: Condition::Always,
                lease: None,
            };
            ask(&mut service, Some(relay), put);
        }
        let known = |service: &Coordination| {
            let namespaces = service.state.namespaces.values();
            namespaces.map(|namespace| namespace.relays.len()).sum::<usize>()
        };
        assert_eq!(known(&service), RELAYS_MAX - 1);
        let tasks = || (0..3).map(TaskName::of).collect();
        for (task, relay) in [(0, Some(1 << 20)), (1, Some(2 << 20)), (2, None)] {
            let alive = Method::GetAliveTasks { requester: TaskName::of(task), tasks: tasks() };
            ask(&mut service, relay, alive);
        }
        assert_eq!(known(&service), RELAYS_MAX);
    }
}
