//! A second, naive telling of what the service does, to compare with: no records, no index, no
//! time. Every call is answered from plain lists, searched from end to end.
//!
//! It knows a recoverable job of fixed size whose tasks neither die nor leave: registering, keys
//! with revisions, barriers of all tasks, who is alive. Timeouts and errors have tests of their
//! own.

use std::collections::BTreeMap;

use rondo_core::coordination::{Method, Reply, Value};
use rondo_core::ids::{CallId, TaskIndex};
use rondo_core::status::Code;

/// What a call should hear, as far as the model says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Registered,
    Put,
    Value(String),
    Directory(Vec<(String, String)>),
    Deleted,
    Passed(i64),
    Alive(Vec<(i32, u64)>),
    Refused(Code),
}

/// What survives a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// Keys with their values and how often anything had changed when they did.
    keys: Vec<(String, String, u64)>,
    changes: u64,
    incarnations: BTreeMap<i32, u64>,
    begun: bool,
    barriers: BTreeMap<String, Barrier>,
}

#[derive(Clone, Debug)]
struct Barrier {
    instance: i64,
    here: Vec<i32>,
    open: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) kept: Kept,
    tasks: i32,
    waiting: Vec<(CallId, Waits)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Waits {
    ForAll(i32),
    ForKey(String),
    AtBarrier(String, i32),
    ForTheLiving(Vec<i32>, i32),
}

fn tidy(key: &str) -> String {
    let parts: Vec<_> = key.split('/').filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

fn text(value: &Value) -> String {
    match value {
        Value::Inline(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Blob { .. } => "a blob".into(),
    }
}

impl Model {
    pub(crate) fn of(tasks: i32) -> Self {
        Self { tasks, ..Self::default() }
    }

    /// The process dies with all who wait.
    pub(crate) fn crash(&mut self, kept: Kept) {
        self.kept = kept;
        self.waiting.clear();
    }

    pub(crate) fn cancel(&mut self, call: CallId) {
        self.waiting.retain(|(waiting, _)| *waiting != call);
    }

    /// Takes a call; tells what it and those it wakes should hear.
    pub(crate) fn take(&mut self, call: CallId, method: &Method) -> Vec<(CallId, Heard)> {
        let mut heard = Vec::new();
        let at_once = match method {
            Method::RegisterTask { task, incarnation, .. } => {
                self.register(call, task.index.get(), incarnation.get(), &mut heard)
            }
            Method::PutKeyValue { key, value, condition, .. } => {
                self.put(&tidy(key), &text(value), *condition, &mut heard)
            }
            Method::GetKeyValue { key } => self.get(call, tidy(key)),
            Method::TryGetKeyValue { key } => {
                Some(self.find(&tidy(key)).map_or(Heard::Refused(Code::NotFound), Heard::Value))
            }
            Method::IncrementKeyValue { key, increment } => {
                self.increment(&tidy(key), *increment, &mut heard)
            }
            Method::GetKeyValueDir { directory } => Some(self.list(&tidy(directory))),
            Method::DeleteKeyValue { key } => {
                self.delete(&tidy(key));
                Some(Heard::Deleted)
            }
            Method::Barrier { id, counter, source, .. } => {
                self.barrier(call, id, *counter, source.index.get(), &mut heard)
            }
            Method::GetAliveTasks { requester, tasks } => {
                let mut tasks: Vec<_> = tasks.iter().map(|task| task.index.get()).collect();
                tasks.sort_unstable();
                tasks.dedup();
                self.alive(call, requester.index.get(), tasks, &mut heard)
            }
            other => panic!("not in the model: {other:?}"),
        };
        heard.extend(at_once.map(|answer| (call, answer)));
        heard
    }

    fn release(
        &mut self,
        heard: &mut Vec<(CallId, Heard)>,
        answer: &Heard,
        which: impl Fn(&Waits) -> bool,
    ) {
        let (go, stay) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, waits)| which(waits));
        self.waiting = stay;
        heard.extend(go.into_iter().map(|(call, _)| (call, answer.clone())));
    }

    fn register(
        &mut self,
        call: CallId,
        task: i32,
        incarnation: u64,
        heard: &mut Vec<(CallId, Heard)>,
    ) -> Option<Heard> {
        if !(0..self.tasks).contains(&task) {
            return Some(Heard::Refused(Code::InvalidArgument));
        }
        let before = self.kept.incarnations.insert(task, incarnation);
        if self.kept.begun {
            if before != Some(incarnation) {
                self.restart(task, heard);
            }
            return Some(Heard::Registered);
        }
        self.release(heard, &Heard::Refused(Code::AlreadyExists), |waits| {
            *waits == Waits::ForAll(task)
        });
        if self.kept.incarnations.len() < self.tasks as usize {
            self.waiting.push((call, Waits::ForAll(task)));
            return None;
        }
        self.kept.begun = true;
        self.release(heard, &Heard::Registered, |waits| matches!(waits, Waits::ForAll(_)));
        Some(Heard::Registered)
    }

    /// A new process has neither come to a barrier nor asked anything.
    fn restart(&mut self, task: i32, heard: &mut Vec<(CallId, Heard)>) {
        for barrier in self.kept.barriers.values_mut().filter(|barrier| barrier.open) {
            barrier.here.retain(|here| *here != task);
        }
        self.release(heard, &Heard::Refused(Code::Cancelled), |waits| match waits {
            Waits::AtBarrier(_, waiting) | Waits::ForTheLiving(_, waiting) => *waiting == task,
            Waits::ForAll(_) | Waits::ForKey(_) => false,
        });
    }

    fn find(&self, key: &str) -> Option<String> {
        let found = self.kept.keys.iter().find(|(there, _, _)| there == key);
        found.map(|(_, value, _)| value.clone())
    }

    fn set(&mut self, key: &str, value: &str, heard: &mut Vec<(CallId, Heard)>) {
        self.kept.changes += 1;
        self.kept.keys.retain(|(there, _, _)| there != key);
        self.kept.keys.push((key.into(), value.into(), self.kept.changes));
        let answer = Heard::Value(value.into());
        self.release(heard, &answer, |waits| *waits == Waits::ForKey(key.into()));
    }

    fn put(
        &mut self,
        key: &str,
        value: &str,
        condition: rondo_core::coordination::Condition,
        heard: &mut Vec<(CallId, Heard)>,
    ) -> Option<Heard> {
        use rondo_core::coordination::Condition::{Absent, Always, Present, Revision};
        let there = self.kept.keys.iter().find(|(there, _, _)| there == key);
        let revision = there.map_or(0, |(_, _, revision)| *revision);
        let refused = match condition {
            Absent if there.is_some() => Some(Code::AlreadyExists),
            Present if there.is_none() => Some(Code::NotFound),
            Revision(asked) if asked.get() != revision => Some(Code::FailedPrecondition),
            Absent | Always | Present | Revision(_) => None,
        };
        if let Some(code) = refused {
            return Some(Heard::Refused(code));
        }
        self.set(key, value, heard);
        Some(Heard::Put)
    }

    fn get(&mut self, call: CallId, key: String) -> Option<Heard> {
        let found = self.find(&key).map(Heard::Value);
        if found.is_none() {
            self.waiting.push((call, Waits::ForKey(key)));
        }
        found
    }

    fn increment(
        &mut self,
        key: &str,
        increment: i64,
        heard: &mut Vec<(CallId, Heard)>,
    ) -> Option<Heard> {
        let before = self.find(key).map_or(Ok(0), |value| value.parse::<i64>());
        let sum = before.ok().and_then(|before| before.checked_add(increment));
        let Some(sum) = sum else {
            return Some(Heard::Refused(Code::FailedPrecondition));
        };
        self.set(key, &sum.to_string(), heard);
        Some(Heard::Value(sum.to_string()))
    }

    fn list(&self, directory: &str) -> Heard {
        let beginning = format!("{directory}/");
        let under = self.kept.keys.iter().filter(|(key, _, _)| key.starts_with(&beginning));
        let mut under: Vec<_> = under.map(|(key, value, _)| (key.clone(), value.clone())).collect();
        under.sort();
        Heard::Directory(under)
    }

    fn delete(&mut self, key: &str) {
        let (beginning, before) = (format!("{key}/"), self.kept.keys.len());
        self.kept.keys.retain(|(there, _, _)| there != key && !there.starts_with(&beginning));
        self.kept.changes += u64::from(self.kept.keys.len() < before);
    }

    /// In a recoverable job counter 0 says "I restarted" wherever it does not fit.
    fn barrier(
        &mut self,
        call: CallId,
        id: &str,
        counter: i64,
        task: i32,
        heard: &mut Vec<(CallId, Heard)>,
    ) -> Option<Heard> {
        if !(0..self.tasks).contains(&task) {
            return Some(Heard::Refused(Code::InvalidArgument));
        }
        let recoverable = self.kept.incarnations.contains_key(&task);
        let restarted = counter == 0 && recoverable;
        let Some(barrier) = self.kept.barriers.get_mut(id) else {
            let open = counter == 0;
            let barrier = Barrier { instance: 0, here: Vec::new(), open };
            self.kept.barriers.insert(id.into(), barrier);
            return match open {
                true => self.come(call, id, task, heard),
                false => Some(Heard::Refused(Code::Internal)),
            };
        };
        if barrier.open && (counter == barrier.instance || restarted) {
            return self.come(call, id, task, heard);
        }
        if !barrier.open && (counter == barrier.instance + 1 || restarted) {
            *barrier = Barrier { instance: barrier.instance + 1, here: Vec::new(), open: true };
            return self.come(call, id, task, heard);
        }
        None.or_else(|| self.out_of_step(id, counter, heard))
    }

    fn out_of_step(
        &mut self,
        id: &str,
        counter: i64,
        heard: &mut Vec<(CallId, Heard)>,
    ) -> Option<Heard> {
        let barrier = self.kept.barriers.get_mut(id)?;
        if !barrier.open && counter == barrier.instance {
            // The end it had: all had come, or some had been out of step.
            return Some(match barrier.here.len() as i32 == self.tasks {
                true => Heard::Passed(counter),
                false => Heard::Refused(Code::Internal),
            });
        }
        if barrier.open {
            barrier.open = false;
            barrier.here.clear();
            let answer = Heard::Refused(Code::Internal);
            self.release(
                heard,
                &answer,
                |waits| matches!(waits, Waits::AtBarrier(at, _) if at == id),
            );
        }
        Some(Heard::Refused(Code::Internal))
    }

    fn come(
        &mut self,
        call: CallId,
        id: &str,
        task: i32,
        heard: &mut Vec<(CallId, Heard)>,
    ) -> Option<Heard> {
        let place = Waits::AtBarrier(id.into(), task);
        self.release(heard, &Heard::Refused(Code::Cancelled), |waits| *waits == place);
        let tasks = self.tasks as usize;
        let barrier = self.kept.barriers.get_mut(id)?;
        if !barrier.here.contains(&task) {
            barrier.here.push(task);
        }
        if barrier.here.len() < tasks {
            self.waiting.push((call, place));
            return None;
        }
        barrier.open = false;
        let answer = Heard::Passed(barrier.instance);
        self.release(heard, &answer, |waits| matches!(waits, Waits::AtBarrier(at, _) if at == id));
        Some(answer)
    }

    fn alive(
        &mut self,
        call: CallId,
        task: i32,
        tasks: Vec<i32>,
        heard: &mut Vec<(CallId, Heard)>,
    ) -> Option<Heard> {
        if !(0..self.tasks).contains(&task) || !tasks.contains(&task) {
            return Some(Heard::Refused(Code::InvalidArgument));
        }
        self.waiting.push((call, Waits::ForTheLiving(tasks.clone(), task)));
        let connected = self.kept.begun.then(|| self.kept.incarnations.clone());
        let alive: Vec<_> = connected
            .unwrap_or_default()
            .into_iter()
            .filter(|(task, _)| tasks.contains(task))
            .collect();
        let asked = |who: &i32| {
            let place = Waits::ForTheLiving(tasks.clone(), *who);
            self.waiting.iter().any(|(_, waits)| *waits == place)
        };
        if alive.iter().all(|(who, _)| asked(who)) {
            let answer = Heard::Alive(alive);
            self.release(
                heard,
                &answer,
                |waits| matches!(waits, Waits::ForTheLiving(of, _) if *of == tasks),
            );
        }
        None
    }
}

/// What the real service's answer says to the model.
pub(crate) fn heard(answer: &Result<Reply, rondo_core::status::Status>) -> Heard {
    match answer {
        Ok(Reply::Registered(_)) => Heard::Registered,
        Ok(Reply::Put { .. }) => Heard::Put,
        Ok(Reply::Value { value, .. }) => Heard::Value(text(value)),
        Ok(Reply::Directory(entries)) => {
            let entry = |entry: &rondo_core::coordination::KeyEntry| {
                (entry.key.to_string(), text(&entry.value))
            };
            Heard::Directory(entries.iter().map(entry).collect())
        }
        Ok(Reply::Deleted { .. }) => Heard::Deleted,
        Ok(Reply::BarrierPassed { counter }) => Heard::Passed(*counter),
        Ok(Reply::Alive(tasks)) => {
            let of = |(task, incarnation): &(TaskIndex, rondo_core::ids::Incarnation)| {
                (task.get(), incarnation.get())
            };
            Heard::Alive(tasks.iter().map(of).collect())
        }
        Err(status) => Heard::Refused(status.code),
        other => panic!("not in the model: {other:?}"),
    }
}
