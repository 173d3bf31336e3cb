//! What a task does while it is there: keys, barriers, watches, errors; and the steps by which it shows
//! that its job gets on when nothing goes wrong any more.

use rondo_core::coordination::{Condition, Method, Reply, TaskName, Value};
use rondo_core::ids::{Revision, TaskIndex};
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

use super::task::{CALLS_MAX, For, Task, ms};
use super::{DIRECTORIES, some_barrier, some_key};
use crate::mark::Mark;
use crate::workload::actor::With;
use crate::workload::kind::Kind;

/// The barrier at which a job meets when nothing goes wrong any more.
pub(super) const CALM: &str = "calm";

const KINDS: [Kind; 18] = [
    Kind::PutKeyValue,
    Kind::GetKeyValue,
    Kind::TryGetKeyValue,
    Kind::IncrementKeyValue,
    Kind::GetKeyValueDir,
    Kind::DeleteKeyValue,
    Kind::WatchKeys,
    Kind::Barrier,
    Kind::Barrier,
    Kind::CancelBarrier,
    Kind::GetAliveTasks,
    Kind::WatchTasks,
    Kind::GetTaskState,
    Kind::GetJobState,
    Kind::WaitForAllTasks,
    Kind::ReportError,
    Kind::ResetTask,
    Kind::ShutdownTask,
];

impl Task {
    /// Does one of the things that tasks do.
    pub(super) fn act(&mut self, now: Time, with: &mut With<'_>) {
        let Some(shape) = with.swarm.coordination.as_ref() else {
            return;
        };
        if self.calls.all().count() > CALLS_MAX {
            return;
        }
        let may_be_quiet = shape.quiet > 0 && self.relay.is_none();
        if may_be_quiet && with.stream.chance(shape.quiet) {
            self.be_quiet(now, with);
        }
        let kind = with.swarm.weights.pick(&KINDS, with.stream).unwrap_or(Kind::Barrier);
        // What ends a job is rare, however it is weighed.
        let ends = matches!(kind, Kind::ReportError | Kind::ResetTask | Kind::ShutdownTask);
        if ends && !with.stream.chance(20) {
            return;
        }
        let key = some_key(shape.keys, with.stream);
        let until = now.after(ms(1000 + with.stream.exponential(4000)));
        match kind {
            Kind::Barrier => self.come(until, shape.barriers, with),
            Kind::WatchKeys => self.watch(&key, with),
            Kind::WatchTasks => {
                let method = Method::WatchTasks { version: self.version };
                self.ask(until, For::WatchTasks, method, with);
            }
            Kind::PutKeyValue => {
                let method = self.put(&key, with);
                self.ask(until, For::Key(key), method, with);
            }
            Kind::CancelBarrier => {
                let id = some_barrier(shape.barriers, with.stream);
                let counter = self.counters.get(&id).copied().unwrap_or(0);
                self.ask(until, For::Other, Method::CancelBarrier { id, counter }, with);
            }
            kind => {
                let method = self.plain(kind, key, with);
                self.ask(until, For::Other, method, with);
            }
        }
    }

    /// Sends no heartbeat for longer than a task may, and does everything else, as a process does whose
    /// thread for heartbeats stands still.
    fn be_quiet(&mut self, now: Time, with: &mut With<'_>) {
        let beat = self.shape.heartbeat_ms;
        let stalls = with.swarm.coordination.as_ref().is_some_and(|shape| shape.stalls.is_some());
        let longest = if stalls { beat.saturating_mul(20) } else { beat.saturating_add(beat / 2) };
        let more = with.stream.below(longest);
        self.quiet_until = now.after(ms(beat.saturating_add(beat / 4).saturating_add(more)));
        with.tally.mark(Mark::TaskQuiet);
    }

    /// The first task of a job may begin another one after it, with another size. Where the service is
    /// told the size, its operator says it.
    pub(super) fn choose_size(&self, with: &mut With<'_>) {
        let varies = self.index == 0 && !self.shape.told && !self.shape.sizes.is_empty();
        if varies && !with.calm && with.stream.chance(400) {
            let size = self.shape.size_at(with.stream.below(8));
            with.known.sizes.insert(self.job, size);
        }
    }

    /// How many tasks the present job has.
    pub(super) fn present_size(&self, with: &With<'_>) -> u32 {
        with.known.sizes.get(&self.job).copied().unwrap_or(self.shape.tasks)
    }

    /// Whether the present job has a task of this number.
    pub(super) const fn takes_part(&self) -> bool {
        self.index < self.size
    }

    fn plain(&self, kind: Kind, key: String, with: &mut With<'_>) -> Method {
        let increment = i64::try_from(with.stream.between(1, 5)).unwrap_or(1);
        let directory = || key.split('/').next().unwrap_or_default().to_owned();
        match kind {
            Kind::GetKeyValue => Method::GetKeyValue { key },
            Kind::TryGetKeyValue => Method::TryGetKeyValue { key },
            Kind::IncrementKeyValue => {
                let number = with.stream.below(2);
                Method::IncrementKeyValue { key: format!("c/{number}"), increment }
            }
            Kind::GetKeyValueDir => Method::GetKeyValueDir { directory: directory() },
            Kind::DeleteKeyValue if with.stream.chance(300) => {
                Method::DeleteKeyValue { key: directory() }
            }
            Kind::DeleteKeyValue => Method::DeleteKeyValue { key },
            Kind::GetAliveTasks => {
                Method::GetAliveTasks { requester: self.name(), tasks: self.names() }
            }
            Kind::GetTaskState => Method::GetTaskState { tasks: self.names() },
            Kind::GetJobState => Method::GetJobState { job: "jax_worker".into() },
            Kind::ReportError => Method::ReportErrorToService {
                task: self.name(),
                code: 13,
                message: format!("task {} found it", self.index),
            },
            Kind::ResetTask => Method::ResetTask { task: self.name() },
            Kind::ShutdownTask => Method::ShutdownTask { task: self.name() },
            _ => {
                let devices = format!("{}.", self.index).into_bytes().into();
                Method::WaitForAllTasks { task: self.name(), devices }
            }
        }
    }

    fn put(&mut self, key: &str, with: &mut With<'_>) -> Method {
        self.written = self.written.saturating_add(1);
        let long_bytes = with.swarm.coordination.as_ref().map_or(0, |shape| shape.long_bytes);
        let often = if long_bytes > 1000 { 900 } else { 30 };
        let long = usize::from(with.stream.chance(often)) * long_bytes as usize;
        let value = format!("{}.{}{}", self.own_number(), self.written, "x".repeat(long));
        let known = self.revisions.get(key).copied().unwrap_or_default();
        let conditions = [
            Condition::Absent,
            Condition::Always,
            Condition::Always,
            Condition::Present,
            Condition::Revision(known),
        ];
        let condition = with.stream.pick(&conditions).copied().unwrap_or(Condition::Absent);
        let index = TaskIndex::new(i32::try_from(self.index).unwrap_or(0));
        Method::PutKeyValue {
            key: key.to_owned(),
            value: Value::Inline(value.into_bytes().into()),
            condition,
            lease: with.stream.chance(150).then_some(index),
        }
    }

    /// Comes to a barrier: all do, or the first two, each with its own list of who must.
    fn come(&mut self, until: Time, barriers: u64, with: &mut With<'_>) {
        let id = some_barrier(barriers, with.stream);
        let pair = self.size > 2 && *id == *"b1";
        if (pair && self.index > 1) || self.waits_at(&id) {
            return;
        }
        let tasks = match pair {
            true => vec![TaskName::of(0), TaskName::of(1)],
            false if with.stream.chance(300) => self.names(),
            false => Vec::new(),
        };
        let timeout_ms = with.stream.pick(&[4000, 1000, 15_000]).copied().unwrap_or(4000);
        let counter = self.counters.get(&id).copied().unwrap_or(0);
        let source = self.name();
        let method = Method::Barrier { id: id.clone(), counter, timeout_ms, tasks, source };
        let until = match with.stream.chance(200) {
            true => until,
            false => Time::NEVER,
        };
        self.ask(until, For::Barrier(id), method, with);
    }

    fn waits_at(&self, id: &str) -> bool {
        self.calls.all().any(|open| matches!(&open.what, For::Barrier(of) if **of == *id))
    }

    /// Watches one directory, from where it knows everything.
    fn watch(&mut self, key: &str, with: &mut With<'_>) {
        if self.calls.all().any(|open| open.what == For::Watch) {
            return;
        }
        let key = match with.stream.chance(200) && self.watched.is_none() {
            true => key.to_owned(),
            false => "k".to_owned(),
        };
        // Now and then as somebody who knows nothing new since long ago.
        let long_ago = with.stream.chance(50);
        let from = self.watched.map(|upto| if long_ago { Revision::new(1) } else { upto });
        let method = Method::WatchKeys { key, from };
        self.ask(Time::NEVER, For::Watch, method, with);
    }

    /// Takes an answer that matters to what it does later.
    pub(super) fn heard(&mut self, what: &For, answer: Result<Reply, Status>) {
        match (what, answer) {
            (For::Step, Ok(_)) => self.step = self.step.saturating_add(1),
            // What was still on its way when all healed has filled the room that was made.
            (For::Step, Err(status)) if status.code == Code::ResourceExhausted => self.step = 0,
            (For::Key(key), Ok(Reply::Put { revision } | Reply::Value { revision, .. })) => {
                self.revisions.insert(key.clone(), revision);
            }
            (For::Watch, Ok(Reply::Changes { upto, .. } | Reply::Keys { upto, .. })) => {
                self.watched = Some(upto);
            }
            (For::WatchTasks, Ok(Reply::Tasks { version, .. })) => self.version = version,
            _ => {}
        }
    }

    /// The next step when nothing goes wrong any more: there is room, everybody puts a key, reads those
    /// of the others, and meets them.
    pub(super) fn go_on(&mut self, now: Time, with: &mut With<'_>) {
        let waits = |open: &super::task::Open| open.what == For::Step;
        if self.calls.all().any(waits) || self.waits_at(CALM) {
            return;
        }
        let (peers, step) = (self.size, self.step);
        let directories = u32::try_from(DIRECTORIES.len()).unwrap_or(0);
        let until = now.after(ms(5000));
        let method = if let Some(directory) = DIRECTORIES.get(step as usize) {
            Method::DeleteKeyValue { key: (*directory).to_owned() }
        } else if step == directories {
            Method::PutKeyValue {
                key: format!("{CALM}/{}", self.index),
                value: Value::Inline(self.own_number().into_bytes().into()),
                condition: Condition::Always,
                lease: None,
            }
        } else if step <= directories.saturating_add(peers) {
            let peer = step.saturating_sub(directories).saturating_sub(1);
            Method::GetKeyValue { key: format!("{CALM}/{peer}") }
        } else {
            let counter = self.counters.get(CALM).copied().unwrap_or(0);
            let method = Method::Barrier {
                id: CALM.into(),
                counter,
                timeout_ms: 10_000,
                tasks: Vec::new(),
                source: self.name(),
            };
            return self.ask(Time::NEVER, For::Barrier(CALM.into()), method, with);
        };
        self.ask(until, For::Step, method, with);
    }
}
