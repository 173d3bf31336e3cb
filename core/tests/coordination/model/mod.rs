//! A second, naive telling of what the service does, to compare with: no records, no index, no
//! alarms. Every call is answered from plain lists, searched from end to end; errors are their
//! codes.
//!
//! It knows one namespace whose job has a fixed size, speaking to it through at most one relay.

mod barriers;
mod heard;
mod keys;
mod relay;
mod tasks;

use std::collections::BTreeMap;

pub(crate) use barriers::{Barrier, Name, Stands};
pub(crate) use heard::{Heard, heard};
pub(crate) use keys::{Changed, Key};
pub(crate) use relay::{Asked, Relay};
use rondo_core::coordination::{Method, NamespaceConfig, Stamp};
use rondo_core::ids::CallId;
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};
pub(crate) use tasks::{Phase, Task};

/// What survives a crash.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kept {
    life: u64,
    keys: Vec<Key>,
    /// All changes of this life, in order.
    changes: Vec<Changed>,
    revision: u64,
    /// The revision with which this life began.
    first: u64,
    tasks: BTreeMap<i32, Task>,
    devices: BTreeMap<i32, Vec<u8>>,
    former: BTreeMap<i32, u64>,
    polled: bool,
    sticky: Option<Code>,
    barriers: BTreeMap<Name, Barrier>,
    relay: Option<Relay>,
}

/// What a call waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Waits {
    ForKey(String),
    ForChanges(String),
    ForTasks,
    ForError(i32),
    At(Name, i32),
    /// Of whom, who asks, and its relay's mark with the method.
    ForTheLiving(Vec<i32>, i32, Option<(Stamp, Asked)>),
}

/// What calls hear.
type Told = Vec<(CallId, Heard)>;

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) kept: Kept,
    size: i32,
    settings: NamespaceConfig,
    now: Time,
    /// Since when the process runs.
    started: Time,
    last_heard: BTreeMap<i32, Time>,
    /// When open barriers end.
    due: BTreeMap<Name, Time>,
    waiting: Vec<(CallId, Waits)>,
    told: Told,
}

impl Model {
    pub(crate) fn start(settings: &NamespaceConfig, kept: Kept, now: Time) -> Self {
        let size = settings.tasks.unwrap() as i32;
        let grace = |barrier: &Barrier| {
            let least = now.after(barrier.timeout.min(settings.heartbeat_timeout));
            barrier.opened.after(barrier.timeout).max(least)
        };
        let open = kept.barriers.iter().filter(|(_, barrier)| barrier.stands == Stands::Open);
        let due = open.map(|(name, barrier)| (name.clone(), grace(barrier))).collect();
        let last_heard = kept.tasks.keys().map(|task| (*task, now)).collect();
        let settings = settings.clone();
        let (waiting, told) = (Vec::new(), Told::new());
        Self { kept, size, settings, now, started: now, last_heard, due, waiting, told }
    }

    pub(crate) fn cancel(&mut self, call: CallId) {
        self.waiting.retain(|(waiting, _)| *waiting != call);
    }

    pub(crate) fn waiting(&self) -> Vec<CallId> {
        self.waiting.iter().map(|(call, _)| *call).collect()
    }

    /// Takes a call; tells what it and those it wakes hear.
    pub(crate) fn take(
        &mut self,
        now: Time,
        call: CallId,
        method: &Method,
        stamp: Option<Stamp>,
    ) -> Told {
        self.now = now;
        self.watching(|model| {
            let at_once = model.once(call, method, stamp);
            model.told.extend(at_once.map(|heard| (call, heard)));
        })
    }

    /// What is due is done: barriers end, and silent tasks are lost.
    pub(crate) fn tick(&mut self, now: Time) -> Told {
        self.now = now;
        self.watching(|model| {
            let silent = model.silent();
            let mut over: Vec<_> = model.due.iter().map(|(name, at)| (*at, name.clone())).collect();
            over.sort();
            for (_, name) in over.into_iter().filter(|(at, _)| *at <= now) {
                model.fail_barrier(&name, Code::DeadlineExceeded);
            }
            model.lose(&silent);
        })
    }

    /// Does something, and wakes whoever watches tasks if that changed any.
    fn watching(&mut self, something: impl FnOnce(&mut Self)) -> Told {
        let before = (self.kept.life, self.kept.tasks.clone());
        something(self);
        if before != (self.kept.life, self.kept.tasks.clone()) {
            let all = self.states(&(0..self.size).collect::<Vec<_>>());
            self.release(&Heard::Tasks(all), |waits| *waits == Waits::ForTasks);
        }
        std::mem::take(&mut self.told)
    }

    fn answer(&mut self, call: CallId, method: &Method, stamp: Option<Stamp>) -> Option<Heard> {
        match method {
            Method::RegisterTask { .. }
            | Method::Heartbeat { .. }
            | Method::ShutdownTask { .. }
            | Method::ResetTask { .. }
            | Method::PollForError { .. }
            | Method::ReportErrorToService { .. }
            | Method::GetTaskState { .. }
            | Method::WatchTasks { .. }
            | Method::GetAliveTasks { .. }
            | Method::WaitForAllTasks { .. } => self.of_tasks(call, method, stamp),
            Method::Barrier { id, counter, timeout_ms, tasks, source } => {
                let timeout = Duration::from_millis(u64::try_from(*timeout_ms).unwrap_or(0));
                let tasks: Vec<_> = tasks.iter().map(|task| task.index.get()).collect();
                self.barrier(call, (id, *counter, timeout), &tasks, source.index.get(), stamp)
            }
            Method::CancelBarrier { id, counter } => Some(self.cancel_barrier(id, *counter)),
            Method::ResetNamespace => {
                self.begin_life();
                Some(Heard::LifeBegun)
            }
            other => self.of_keys(call, other),
        }
    }

    fn release(&mut self, heard: &Heard, which: impl Fn(&Waits) -> bool) {
        let (go, stay) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, waits)| which(waits));
        self.waiting = stay;
        self.told.extend(go.into_iter().map(|(call, _)| (call, heard.clone())));
    }

    fn begin_life(&mut self) {
        let tasks = std::mem::take(&mut self.kept.tasks);
        let revision = self.kept.revision + 1;
        self.kept = Kept {
            life: self.kept.life + 1,
            revision,
            first: revision,
            former: tasks.into_iter().map(|(task, known)| (task, known.incarnation)).collect(),
            ..Kept::default()
        };
        self.last_heard.clear();
        self.due.clear();
        self.release(&Heard::Refused(Code::Aborted), |_| true);
    }

    fn has(&self, task: i32) -> bool {
        (0..self.size).contains(&task)
    }
}
