//! From a call to its decision: which namespace, which life, which method.

use alloc::sync::Arc;
use bytes::Bytes;

use super::barriers::Coming;
use super::live::Doing;
use super::machine::{Answer, Asked, Coordination, Said, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::registration::Registrant;
use super::reply::Reply;
use super::request::{Call, Caller, Method};
use super::types::{BarrierKey, Dialect, Phase, TaskName};
use crate::ids::{CallId, NamespaceId};
use crate::limits::{DEVICES_BYTES_MAX, NAMESPACES_MAX};

impl Coordination {
    /// Takes a call to a namespace.
    pub(super) fn call(
        &mut self,
        turn: &mut Turn<'_>,
        call: CallId,
        asked: Call,
        entropy: u64,
    ) -> Answer {
        let Call { namespace, caller, method } = asked;
        let id = self.enter(turn, &namespace, entropy)?;
        self.check_life(id, &caller, &method)?;
        self.once(turn, Asked { id, call, caller: &caller }, method, entropy)
    }

    /// The namespace of a name. Its first call begins its first life.
    fn enter(
        &mut self,
        turn: &mut Turn<'_>,
        name: &Arc<str>,
        entropy: u64,
    ) -> Result<NamespaceId, Refusal> {
        let unknown = || Refusal::UnknownNamespace(name.clone());
        if let Some(id) = self.state.by_name.get(name) {
            return self.lives.contains_key(id).then_some(*id).ok_or_else(unknown);
        }
        let settings = self.config.namespaces.iter().find(|settings| settings.name == *name);
        let settings = settings.cloned().ok_or_else(unknown)?;
        if self.state.namespaces.len() >= NAMESPACES_MAX {
            return Err(Refusal::TooMany { what: "namespaces", bound: NAMESPACES_MAX as u64 });
        }
        let last = self.state.namespaces.keys().next_back();
        let id = last.map_or(NamespaceId::new(1), |last| last.next());
        self.begin_life(turn, id, Arc::new(settings), entropy)?;
        Ok(id)
    }

    /// A request for another life of the namespace is none for this one.
    fn check_life(&self, id: NamespaceId, caller: &Caller, method: &Method) -> Result<(), Refusal> {
        let anew = matches!(method, Method::RegisterTask { .. } | Method::ResetNamespace);
        let Some(asked) = caller.life.filter(|_| !anew) else {
            return Ok(());
        };
        let ours = self.namespace(id)?.head.incarnation;
        match caller.dialect {
            _ if asked == ours => Ok(()),
            Dialect::X => Err(Refusal::OtherService { asked, ours }),
            Dialect::T | Dialect::Rondo => Err(Refusal::OtherLife { asked, ours }),
        }
    }

    /// Refuses a request that a process makes for a task when another process has registered as that
    /// task since. The caller must say which process it is: dialect X does in every request, and a
    /// connection knows it where one process registered on it. A request that does not say it counts
    /// as one of the newest process.
    fn check_process(
        &self,
        id: NamespaceId,
        caller: &Caller,
        method: &Method,
    ) -> Result<(), Refusal> {
        let (Some(asked), Some(task)) = (caller.incarnation, method.spoken_for(caller)) else {
            return Ok(());
        };
        let namespace = self.namespace(id)?;
        let Some(known) = namespace.tasks.get(&task).filter(|known| known.incarnation != asked)
        else {
            return Ok(());
        };
        let former = namespace.head.former.get(&task) == Some(&asked);
        let task = self.called(id, task, caller.dialect);
        Err(match former {
            true => Refusal::FormerIncarnation { task, asked: asked.get() },
            false => Refusal::OtherIncarnation {
                task,
                known: known.incarnation.get(),
                asked: asked.get(),
            },
        })
    }

    pub(super) fn perform(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        method: Method,
        entropy: u64,
    ) -> Answer {
        let Asked { id, caller, .. } = asked;
        self.check_process(id, caller, &method)?;
        match method {
            Method::RegisterTask { task, incarnation, recoverable, tasks } => {
                let registrant = Registrant { incarnation, recoverable, tasks };
                self.register(turn, asked, &task, registrant, entropy)
            }
            Method::Heartbeat { task, incarnation } => {
                self.heartbeat(turn, id, caller, &task, incarnation)
            }
            Method::ShutdownTask { task } => self.shut_down(turn, asked, &task),
            Method::ResetTask { task } => self.reset(turn, id, caller, &task),
            Method::PollForError { task } => self.poll(turn, asked, &task),
            Method::ReportErrorToService { task, code, message } => {
                self.report_error(turn, asked, &task, (code, &message))
            }
            Method::ReportErrorToTask => Err(Refusal::NoAgent),
            Method::GetTaskState { tasks } => self.task_states(turn, id, &tasks),
            Method::GetJobState { job } => self.job_state(turn, id, &job),
            Method::WatchTasks { version } => self.watch_tasks(turn, asked, version),
            Method::GetAliveTasks { requester, tasks } => {
                self.alive_tasks(turn, asked, &requester, &tasks)
            }
            Method::WaitForAllTasks { task, devices } => {
                self.wait_for_devices(turn, asked, &task, devices)
            }
            Method::ResetNamespace => self.reset_namespace(turn, id, entropy),
            method => self.perform_shared(turn, asked, method),
        }
    }

    fn reset_namespace(&mut self, turn: &mut Turn<'_>, id: NamespaceId, entropy: u64) -> Answer {
        let settings = self.live(id)?.settings.clone();
        let incarnation = self.begin_life(turn, id, settings, entropy)?;
        Ok(Said::Now(Reply::LifeBegun(incarnation), turn.log.last()))
    }

    /// Methods of barriers and keys.
    fn perform_shared(&mut self, turn: &mut Turn<'_>, asked: Asked<'_>, method: Method) -> Answer {
        let id = asked.id;
        match method {
            Method::Barrier { id: name, counter, timeout_ms, tasks, source } => {
                self.barrier(turn, asked, (&name, counter, timeout_ms), &tasks, &source)
            }
            Method::CancelBarrier { id: name, counter } => {
                self.cancel_barrier(turn, id, &name, counter)
            }
            Method::PutKeyValue { key, value, condition, lease } => {
                self.put_key(turn, asked, &key, (value, condition), lease)
            }
            Method::GetKeyValue { key } => self.get_key(turn, asked, &key),
            Method::TryGetKeyValue { key } => self.try_get_key(id, &key),
            Method::IncrementKeyValue { key, increment } => {
                self.increment_key(turn, asked, &key, increment)
            }
            Method::GetKeyValueDir { directory } => self.directory(id, &directory),
            Method::DeleteKeyValue { key } => self.delete_key(turn, id, &key),
            Method::WatchKeys { key, from } => self.watch_keys(asked, &key, from),
            _ => Err(Refusal::Defect("a method of tasks was taken for one of keys".into())),
        }
    }

    /// `WaitForAllTasks`.
    fn wait_for_devices(
        &mut self,
        turn: &mut Turn<'_>,
        asked: Asked<'_>,
        name: &TaskName,
        devices: Bytes,
    ) -> Answer {
        let id = asked.id;
        let task = self.index_of(id, name, "request")?;
        let (found, bound) = (devices.len() as u64, DEVICES_BYTES_MAX as u64);
        if found > bound {
            return Err(Refusal::TooLong { what: "device_info", found, bound });
        }
        let known = self.namespace(id)?.tasks.get(&task);
        let dialect = asked.caller.dialect;
        let Some(known) = known.filter(|known| known.phase == Phase::Connected) else {
            return Err(Refusal::MustRegister { task: self.called(id, task, dialect) });
        };
        if known.devices.is_none() {
            self.check_room(id)?;
            self.memory.check_all("descriptions of devices")?;
            self.commit(turn, Record::OfferDevices { namespace: id, task, devices })?;
        }
        self.note(id, task, Doing::WaitsForDevices, turn.now);
        let key = BarrierKey::Devices;
        if let Some(outcome) = self.outcome_of(id, &key)? {
            return self.again(id, &key, 0, &outcome);
        }
        let timeout = self.live(id)?.settings.devices_timeout;
        self.come_to_own(turn, asked, Coming { key, counter: 0, timeout, task, stamp: None })
    }
}
