//! Histories from bytes, as fuzzing makes them: every byte decides something. What is drawn is
//! small, so that things collide.

use rondo_core::coordination::{Condition, Method, NamespaceConfig, TaskName};
use rondo_core::ids::{Incarnation, Revision, TaskIndex};
use rondo_core::time::Duration;

use crate::drawing::Dice;
use crate::driver::settings;
use crate::world::*;

pub(crate) const TASKS: i32 = 3;
/// More than that is only slow.
const HAPPENINGS_MAX: usize = 200;

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Asks(Method),
    /// The same through a relay, which has all results but the last few.
    Relayed(Method, u8),
    /// The relay asks one of its last requests again.
    Again(u8),
    AllRegister(u64),
    /// All tasks come to a barrier, one after the other.
    AllCome(&'static str, i64),
    AllLeave,
    AllTellDevices,
    /// Waits for a change of keys after the newest revision less this.
    Watches(&'static str, u64),
    /// Waits for a change of tasks.
    WatchesTasks,
    /// Time passes; those of these tasks that are there beat.
    Wait(u64, u8),
    Cancel(u8),
    /// The disk catches up.
    Sync,
    /// The process dies; the disk had so many of the steps it need not have had.
    Crash(u8),
}

impl Dice<'_> {
    /// A job's settings, and whether what is written becomes durable at once.
    pub(crate) fn settings(&mut self) -> (NamespaceConfig, bool) {
        let byte = self.byte();
        let recoverable = byte & 3 == 3;
        let shutdown_timeout = Duration::from_secs(if byte & 12 == 12 { 0 } else { 30 });
        let settings = settings(TASKS as u32);
        (NamespaceConfig { recoverable, shutdown_timeout, ..settings }, byte & 16 == 0)
    }

    /// The rest as a history. Most begin with all tasks registered.
    pub(crate) fn history(&mut self) -> Vec<Happening> {
        let mut history = match self.byte() % 4 {
            0 => Vec::new(),
            _ => vec![Happening::AllRegister(1)],
        };
        history.extend(self.draw_all(HAPPENINGS_MAX - history.len(), Self::happening));
        history
    }

    fn happening(&mut self) -> Happening {
        match self.byte() % 20 {
            0..3 => Happening::Asks(self.of_keys()),
            3..6 => Happening::Asks(self.of_tasks()),
            6..8 => Happening::Asks(self.of_barriers()),
            8 => Happening::Relayed(self.of_keys(), self.byte() % 3),
            9 => Happening::Relayed(self.of_tasks(), self.byte() % 3),
            10 => Happening::Relayed(self.of_barriers(), self.byte() % 3),
            11 => Happening::Again(self.byte()),
            12 => Happening::AllCome(self.one(&["x", "y"]), self.one(&[0, 1, 2])),
            13 => match self.byte() % 5 {
                0 => Happening::AllLeave,
                1 => Happening::WatchesTasks,
                2 => Happening::AllTellDevices,
                _ => Happening::AllRegister(self.one(&[1, 1, 2])),
            },
            14 => Happening::Watches(self.key(), self.one(&[0, 0, 1, 3, 100])),
            15 | 16 => Happening::Wait(
                self.one(&[0, 0, 2_000, 4_000, 9_999, 10_001, 30_000, 61_000]),
                self.byte(),
            ),
            17 => Happening::Cancel(self.byte()),
            18 => Happening::Sync,
            _ => Happening::Crash(self.byte()),
        }
    }

    fn of_keys(&mut self) -> Method {
        let key = self.key();
        match self.byte() % 8 {
            0 | 1 => Method::PutKeyValue {
                key: key.into(),
                value: self.value().into(),
                condition: self.condition(),
                lease: None,
            },
            2 => leased(key, self.value(), self.task()),
            3 => get(key),
            4 => try_get(key),
            5 => increment(key, self.one(&[1, -1, i64::MAX, i64::MIN])),
            6 => Method::GetKeyValueDir { directory: key.into() },
            _ => delete(key),
        }
    }

    fn of_tasks(&mut self) -> Method {
        let task = TaskName::of(self.task());
        match self.byte() % 14 {
            0..3 => Method::RegisterTask {
                task,
                incarnation: Incarnation::new(self.one(&[1, 1, 1, 2])),
                recoverable: self.byte().is_multiple_of(4),
                tasks: None,
            },
            3 => beat(task.index.get(), self.one(&[1, 1, 1, 2])),
            4 => Method::ShutdownTask { task },
            5 => Method::ResetTask { task },
            6 | 7 => Method::PollForError { task },
            8 => Method::ReportErrorToService {
                task,
                code: self.one(&[13, 14, 0, 17]),
                message: "reported".into(),
            },
            9 => Method::GetTaskState { tasks: self.some(4) },
            10 => alive(task.index.get(), self.one(&[&[0, 1, 2], &[0, 1], &[1, 0, 1], &[2, 7]])),
            11 | 12 => Method::WaitForAllTasks {
                task,
                devices: self.one(&[&b"one"[..], b"two", b""]).into(),
            },
            _ => match self.byte() % 8 {
                0 => Method::ResetNamespace,
                _ => Method::WatchTasks { version: -1 },
            },
        }
    }

    fn of_barriers(&mut self) -> Method {
        let id = self.one(&["x", "x", "y"]);
        let counter = self.one(&[0, 0, 0, 1, 1, 2, 7]);
        if self.byte().is_multiple_of(8) {
            return cancel_barrier(id, counter);
        }
        let lists: [&[i32]; 6] = [&[], &[], &[0, 1, 2], &[1, 0], &[1, 1], &[2, 9]];
        let (list, timeout_ms) = (self.one(&lists), self.one(&[5_000, 5_000, 2_000, 0, -1]));
        barrier_for(id, counter, self.task(), list, timeout_ms)
    }

    fn condition(&mut self) -> Condition {
        match self.byte() % 4 {
            0 => Condition::Absent,
            1 => Condition::Always,
            2 => Condition::Present,
            _ => Condition::Revision(Revision::new(u64::from(self.byte() % 8))),
        }
    }

    fn key(&mut self) -> &'static str {
        self.one(&["a", "a/b", "/a//b/", "a/b/c", "ab", "n", "n", ""])
    }

    fn value(&mut self) -> &'static str {
        self.one(&["1", "-7", "9223372036854775807", "text"])
    }

    fn task(&mut self) -> i32 {
        self.one(&[0, 0, 1, 1, 2, 2, 3, -1])
    }

    fn some(&mut self, max: u8) -> Vec<TaskName> {
        let count = self.byte() % (max + 1);
        let index = |dice: &mut Self| TaskIndex::new(dice.one(&[0, 1, 2, 0, 1, 2, 3]));
        (0..count).map(|_| TaskName { job: None, index: index(self) }).collect()
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()]
    }
}
