//! Stuck tasks: where tasks put how far they are, one that stays behind while others go on is named.
//! It is never more than named.
//!
//! The key of task 3 is `PREFIX/3`. A task has not progressed for as long as its key's value is the
//! same. It stays behind when another one's number is higher than its own; where values are no
//! decimal numbers, when another one's has changed twice since its own did: once may have been the
//! same step. A task that puts no key is behind all that do.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::key::is_under;
use super::live::Alarm;
use super::machine::{Coordination, Turn};
use super::names::seconds;
use super::ranges::ranges;
use super::record::{Change, ChangeKind};
use super::reply::Event;
use super::types::{Phase, Value};
use crate::ids::{NamespaceId, TaskIndex};
use crate::time::{Duration, Time};

/// Longest piece of a value in a text, in characters.
const SHOWN_CHARS_MAX: usize = 48;
/// All tasks are looked at so many times per timeout at most.
const LOOKS_PER_TIMEOUT: u64 = 16;

/// Where tasks put how far they are, and how long they may stay there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The directory of their keys, in normal form.
    pub key: Arc<str>,
    /// How long a task's key may stay the same while others' change.
    pub timeout: Duration,
}

/// How far tasks are, as far as one knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    by_task: BTreeMap<TaskIndex, Mark>,
    stuck: BTreeSet<TaskIndex>,
    pub(super) alarm: Option<Time>,
}

#[derive(Clone, Debug)]
struct Mark {
    value: Value,
    /// When it came to be this value.
    since: Time,
    /// When it came to be the value before.
    before: Option<Time>,
}

impl Mark {
    /// The value as a decimal number.
    fn number(&self) -> Option<i64> {
        match &self.value {
            Value::Inline(bytes) => core::str::from_utf8(bytes).ok()?.trim().parse().ok(),
            Value::Blob { .. } => None,
        }
    }

    fn shown(&self) -> String {
        match &self.value {
            Value::Inline(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                let mut shown: String =
                    text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
                if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
                    shown.push('…');
                }
                shown
            }
            Value::Blob { .. } => "a long value".into(),
        }
    }
}

/// How far the tasks are that are the furthest.
#[derive(Default)]
struct Front {
    number: Option<i64>,
    /// When a value changed that had changed before, of all.
    twice: Option<Time>,
    /// The same of values that are no numbers.
    twice_opaque: Option<Time>,
}

impl Marks {
    fn note(&mut self, task: TaskIndex, value: &Value, now: Time) -> bool {
        match self.by_task.get_mut(&task) {
            Some(mark) if mark.value == *value => return false,
            Some(mark) => {
                mark.before = Some(mark.since);
                (mark.value, mark.since) = (value.clone(), now);
            }
            None => self.begin(task, value, now),
        }
        self.stuck.remove(&task)
    }

    fn begin(&mut self, task: TaskIndex, value: &Value, now: Time) {
        let mark = Mark { value: value.clone(), since: now, before: None };
        self.by_task.insert(task, mark);
    }

    fn front(&self) -> Front {
        let mut front = Front::default();
        for mark in self.by_task.values() {
            let number = mark.number();
            front.number = front.number.max(number);
            front.twice = front.twice.max(mark.before);
            if number.is_none() {
                front.twice_opaque = front.twice_opaque.max(mark.before);
            }
        }
        front
    }

    /// Whether a task stays behind others.
    fn is_behind(&self, task: TaskIndex, front: &Front) -> bool {
        let Some(mark) = self.by_task.get(&task) else {
            return !self.by_task.is_empty();
        };
        let since = Some(mark.since);
        match mark.number() {
            Some(number) => front.number > Some(number) || front.twice_opaque > since,
            None => front.twice > since,
        }
    }

    /// How far those are that go on, for people.
    fn others(&self, now: Time) -> String {
        let moving = |(task, _): &(&TaskIndex, &Mark)| !self.stuck.contains(*task);
        let moving = self.by_task.iter().filter(moving).map(|(_, mark)| mark);
        let numbers: Vec<i64> = moving.clone().filter_map(Mark::number).collect();
        let newest = moving.map(|mark| mark.since).max();
        let far = match (numbers.iter().min(), numbers.iter().max()) {
            (Some(least), Some(most)) if least == most => format!("at {least}"),
            (Some(least), Some(most)) => format!("at {least} to {most}"),
            _ => "going on".into(),
        };
        match newest {
            Some(newest) => format!("{far}, the last change {} ago", seconds(now.since(newest))),
            None => "stuck too".into(),
        }
    }
}

impl Coordination {
    fn progress_of(&self, id: NamespaceId) -> Option<(&Progress, &Marks)> {
        let live = self.lives.get(&id)?;
        Some((live.settings.progress.as_ref()?, &live.marks))
    }

    /// Takes note of changes of keys.
    pub(super) fn note_progress(&mut self, turn: &mut Turn<'_>, id: NamespaceId, all: &[Change]) {
        let Some(progress) = self.progress_of(id).map(|(progress, _)| progress.clone()) else {
            return;
        };
        let Some(marks) = self.lives.get_mut(&id).map(|live| &mut live.marks) else {
            return;
        };
        let mut moving = Vec::new();
        for change in all {
            match (task_of(&progress.key, &change.key), &change.kind) {
                (Some(task), ChangeKind::Put(value)) => {
                    if marks.note(task, value, turn.now) {
                        moving.push(task);
                    }
                }
                (Some(task), _) => drop(marks.by_task.remove(&task)),
                (None, ChangeKind::DeletedWithAllUnder)
                    if *change.key == *progress.key || is_under(&progress.key, &change.key) =>
                {
                    marks.by_task.clear();
                }
                (None, _) => {}
            }
        }
        let unarmed = marks.alarm.is_none() && !marks.by_task.is_empty();
        for task in moving {
            let namespace = self.name_of(id);
            self.observe(turn, Event::ProgressAgain { namespace, task });
        }
        if unarmed {
            self.set_alarm(id, Alarm::Progress, Some(turn.now.after(progress.timeout)));
        }
    }

    /// Learns from the keys of a recovered state how far tasks are; everybody just got there.
    pub(super) fn recall_progress(&mut self, id: NamespaceId, now: Time) {
        let Some((progress, _)) = self.progress_of(id) else {
            return;
        };
        let (key, timeout) = (progress.key.clone(), progress.timeout);
        let Some(namespace) = self.state.namespaces.get(&id) else {
            return;
        };
        let Some(live) = self.lives.get_mut(&id) else {
            return;
        };
        for entry in namespace.store.under(&key) {
            if let Some(task) = task_of(&key, entry.key()) {
                live.marks.begin(task, &entry.value(), now);
            }
        }
        if !live.marks.by_task.is_empty() {
            self.set_alarm(id, Alarm::Progress, Some(now.after(timeout)));
        }
    }

    /// Looks at how far everybody is, and names who is stuck.
    pub(super) fn look_at_progress(&mut self, turn: &mut Turn<'_>, id: NamespaceId) {
        let Some((progress, marks)) = self.progress_of(id) else {
            return;
        };
        let (front, timeout) = (marks.front(), progress.timeout);
        let (mut stuck, mut next) = (BTreeSet::new(), None);
        for (task, since) in self.connected_since(id, marks) {
            let patience = self.attention.patience(since, timeout);
            if patience > turn.now {
                next = Some(next.map_or(patience, |next: Time| next.min(patience)));
            } else if marks.is_behind(task, &front) {
                stuck.insert(task);
            }
        }
        let some_connected = next.is_some() || !stuck.is_empty();
        let pause = Duration::from_nanos((timeout.as_nanos() / LOOKS_PER_TIMEOUT).max(1));
        let soonest = turn.now.after(pause);
        let next = next.unwrap_or_else(|| turn.now.after(timeout)).max(soonest);
        let Some(marks) = self.lives.get_mut(&id).map(|live| &mut live.marks) else {
            return;
        };
        let named: Vec<_> = stuck.difference(&marks.stuck).copied().collect();
        marks.stuck = stuck;
        self.name_stuck(turn, id, &named);
        let goes_on = some_connected || self.has_connected(id);
        self.set_alarm(id, Alarm::Progress, goes_on.then_some(next));
    }

    /// Connected tasks, each with since when it is where it is.
    fn connected_since<'a>(
        &'a self,
        id: NamespaceId,
        marks: &'a Marks,
    ) -> impl Iterator<Item = (TaskIndex, Time)> + 'a {
        let namespace = self.state.namespaces.get(&id).into_iter();
        let tasks = namespace.flat_map(|namespace| namespace.tasks.values());
        let connected = tasks.filter(|task| task.phase == Phase::Connected);
        connected.map(|task| {
            let mark = marks.by_task.get(&task.index);
            (task.index, mark.map_or(task.since, |mark| mark.since.max(task.since)))
        })
    }

    fn has_connected(&self, id: NamespaceId) -> bool {
        let namespace = self.state.namespaces.get(&id);
        namespace.is_some_and(|all| all.tasks.values().any(|task| task.phase == Phase::Connected))
    }

    fn name_stuck(&self, turn: &mut Turn<'_>, id: NamespaceId, named: &[TaskIndex]) {
        let Some(first) = named.first() else {
            return;
        };
        let about = self.stuck(id, *first, turn.now).unwrap_or_default();
        let whom = self.described(id, named, turn.now);
        self.observe(
            turn,
            Event::NoProgress {
                namespace: self.name_of(id),
                tasks: ranges(named.iter().copied()).into(),
                reason: format!("task {first}: {about}; {whom}").into(),
            },
        );
    }

    /// In what way a task is stuck, for people; `None` if it is not.
    pub(super) fn stuck(&self, id: NamespaceId, task: TaskIndex, now: Time) -> Option<String> {
        let (progress, marks) = self.progress_of(id)?;
        if !marks.stuck.contains(&task) {
            return None;
        }
        let key = &progress.key;
        let itself = match marks.by_task.get(&task) {
            Some(mark) => {
                let span = seconds(now.since(mark.since));
                format!("its key {key}/{task} has been {} for {span}", mark.shown())
            }
            None => format!("it has put no key {key}/{task}"),
        };
        Some(format!("{itself}, while the others are {}", marks.others(now)))
    }

    /// How far a task is, and since when, in ms.
    pub(super) fn progress_shown(
        &self,
        id: NamespaceId,
        task: TaskIndex,
        now: Time,
    ) -> Option<(String, u64)> {
        let mark = self.progress_of(id)?.1.by_task.get(&task)?;
        Some((mark.shown(), now.since(mark.since).as_millis()))
    }
}

/// The task whose key this is.
fn task_of(directory: &str, key: &str) -> Option<TaskIndex> {
    let number: i32 = key.strip_prefix(directory)?.strip_prefix('/')?.parse().ok()?;
    // Written in one way only, so that each task has one key.
    let is_own = number >= 0 && key.ends_with(&*format!("/{number}"));
    is_own.then(|| TaskIndex::new(number))
}
