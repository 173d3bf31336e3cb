//! What the coordination service writes to the journal: every change of its durable state, with
//! all that is needed to make it again.

use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use super::request::Stamp;
use super::types::{BarrierKey, Dialect, Fault, Value};
use crate::ids::{Incarnation, NamespaceId, RelayId, Revision, ServiceIncarnation, TaskIndex};
use crate::time::{Duration, Time};

/// One change of the coordination service's durable state. Every record stands in a namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A namespace begins a life: no tasks, no keys, no barriers. Its first life makes it.
    BeginLife {
        /// The namespace.
        namespace: NamespaceId,
        /// Its name.
        name: Arc<str>,
        /// The life.
        incarnation: ServiceIncarnation,
        /// Number of tasks, if it is fixed.
        tasks: Option<u32>,
        /// When.
        at: Time,
    },
    /// The number of tasks is known from now on.
    LearnSize {
        /// The namespace.
        namespace: NamespaceId,
        /// The number.
        tasks: u32,
    },
    /// A task registers and waits for the others, or is known under another incarnation while it
    /// waits.
    RegisterTask {
        /// The namespace.
        namespace: NamespaceId,
        /// The task.
        task: TaskIndex,
        /// Its process's run.
        incarnation: Incarnation,
        /// Whether it may come back.
        recoverable: bool,
        /// What it speaks.
        dialect: Dialect,
        /// When.
        at: Time,
    },
    /// A task takes part without waiting for the others: they had registered before, or it comes
    /// back.
    ConnectTask {
        /// The namespace.
        namespace: NamespaceId,
        /// The task.
        task: TaskIndex,
        /// Its process's run.
        incarnation: Incarnation,
        /// Whether it may come back.
        recoverable: bool,
        /// What it speaks.
        dialect: Dialect,
        /// When.
        at: Time,
    },
    /// A task left, or was reset.
    DisconnectTask {
        /// The namespace.
        namespace: NamespaceId,
        /// The task.
        task: TaskIndex,
        /// When.
        at: Time,
    },
    /// A task is in error.
    FailTask {
        /// The namespace.
        namespace: NamespaceId,
        /// The task.
        task: TaskIndex,
        /// The error.
        fault: Fault,
        /// When.
        at: Time,
    },
    /// All tasks that are there, or wait to be, are in error.
    FailAllTasks {
        /// The namespace.
        namespace: NamespaceId,
        /// The error.
        fault: Fault,
        /// When.
        at: Time,
    },
    /// Some task has polled for errors.
    NotePolling {
        /// The namespace.
        namespace: NamespaceId,
    },
    /// From now on every poll ends with this error.
    StickError {
        /// The namespace.
        namespace: NamespaceId,
        /// The error.
        fault: Fault,
    },
    /// A task told its devices.
    OfferDevices {
        /// The namespace.
        namespace: NamespaceId,
        /// The task.
        task: TaskIndex,
        /// Its encoded `DeviceInfo`.
        devices: Bytes,
    },
    /// A task comes to a barrier, perhaps as the first one to a new instance of it.
    ArriveAtBarrier {
        /// The namespace.
        namespace: NamespaceId,
        /// The barrier.
        barrier: BarrierKey,
        /// The instance.
        counter: i64,
        /// The task.
        task: TaskIndex,
        /// The relay's mark on its call.
        stamp: Option<Stamp>,
        /// What makes the instance, if this does.
        opening: Option<Opening>,
        /// When.
        at: Time,
    },
    /// A task that came to a barrier counts as not having come.
    LeaveBarrier {
        /// The namespace.
        namespace: NamespaceId,
        /// The barrier.
        barrier: BarrierKey,
        /// The task.
        task: TaskIndex,
    },
    /// An instance of a barrier ends. It need not have been there: nobody may have come.
    EndBarrier {
        /// The namespace.
        namespace: NamespaceId,
        /// The barrier.
        barrier: BarrierKey,
        /// The instance.
        counter: i64,
        /// Why it failed; `None` if all came.
        fault: Option<Fault>,
        /// When.
        at: Time,
    },
    /// A key is put.
    PutKey {
        /// The namespace.
        namespace: NamespaceId,
        /// The key, in normal form.
        key: Arc<str>,
        /// Its value.
        value: Value,
        /// The task with which it dies.
        lease: Option<TaskIndex>,
    },
    /// A key goes, with all that is under it.
    DeleteKey {
        /// The namespace.
        namespace: NamespaceId,
        /// The key, in normal form.
        key: Arc<str>,
    },
    /// The keys that die with a task go.
    EndLeases {
        /// The namespace.
        namespace: NamespaceId,
        /// The task.
        task: TaskIndex,
    },
    /// What a relay's request led to, kept until the relay has it.
    KeepResult {
        /// The namespace.
        namespace: NamespaceId,
        /// The relay.
        relay: RelayId,
        /// The request's number.
        sequence: u64,
        /// The relay has results up to this number.
        acknowledged: u64,
        /// The result.
        kept: Kept,
    },
    /// A group was told who of it is alive, and some of those told asked through relays.
    AnswerAlive {
        /// The namespace.
        namespace: NamespaceId,
        /// What they were told.
        answer: AliveAnswer,
    },
    /// Relays have been silent for so long that their results are kept no more.
    ForgetRelays {
        /// The namespace.
        namespace: NamespaceId,
        /// The relays.
        relays: Vec<RelayId>,
    },
}

impl Record {
    /// The namespace in which something changes.
    pub const fn namespace(&self) -> NamespaceId {
        match self {
            Self::BeginLife { namespace, .. }
            | Self::LearnSize { namespace, .. }
            | Self::RegisterTask { namespace, .. }
            | Self::ConnectTask { namespace, .. }
            | Self::DisconnectTask { namespace, .. }
            | Self::FailTask { namespace, .. }
            | Self::FailAllTasks { namespace, .. }
            | Self::NotePolling { namespace }
            | Self::StickError { namespace, .. }
            | Self::OfferDevices { namespace, .. }
            | Self::ArriveAtBarrier { namespace, .. }
            | Self::LeaveBarrier { namespace, .. }
            | Self::EndBarrier { namespace, .. }
            | Self::PutKey { namespace, .. }
            | Self::DeleteKey { namespace, .. }
            | Self::EndLeases { namespace, .. }
            | Self::KeepResult { namespace, .. }
            | Self::AnswerAlive { namespace, .. }
            | Self::ForgetRelays { namespace, .. } => *namespace,
        }
    }
}

/// What the first one to come to a barrier's instance settles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Who must come.
    pub participants: Participants,
    /// How long they may take.
    pub timeout: Duration,
}

/// Who must come to a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Participants {
    /// All tasks of the job.
    All,
    /// These, ascending and without repetition; fewer than all.
    Some(Arc<[TaskIndex]>),
}

impl Participants {
    /// Whether they are the same tasks, of a job of this many tasks, if that is known. It may have
    /// become known between the one and the other.
    pub(super) fn same_as(&self, other: &Self, size: Option<u32>) -> bool {
        let is_all = |tasks: &[TaskIndex]| {
            let last = tasks.last().and_then(|last| u32::try_from(last.get()).ok());
            size.is_some_and(|size| {
                tasks.len() as u64 == u64::from(size) && last.is_some_and(|last| last < size)
            })
        };
        match (self, other) {
            (Self::All, Self::Some(tasks)) | (Self::Some(tasks), Self::All) => is_all(tasks),
            (one, other) => one == other,
        }
    }

    /// Whether a list in any order names exactly these tasks of a job of this size. It reads each entry of
    /// the list once, and takes room only for a list that is not ascending.
    pub(super) fn are(
        &self,
        listed: impl ExactSizeIterator<Item = TaskIndex>,
        size: Option<u32>,
    ) -> bool {
        let count = match self {
            Self::All => size.and_then(|size| usize::try_from(size).ok()),
            Self::Some(tasks) => Some(tasks.len()),
        };
        if count != Some(listed.len()) {
            return false;
        }
        // The places from which on the list does not keep to the ascending order, once it does not.
        let mut seen: Option<Vec<bool>> = None;
        for (place, task) in listed.enumerate() {
            let Some(own) = self.place_of(task, place, count.unwrap_or_default()) else {
                return false;
            };
            if seen.is_none() && own == place {
                continue;
            }
            let marks = seen.get_or_insert_with(|| {
                let count = count.unwrap_or_default();
                (0..count).map(|before| before < place).collect()
            });
            match marks.get_mut(own) {
                Some(mark) if !*mark => *mark = true,
                _ => return false,
            }
        }
        true
    }

    /// The place of a task in ascending order, which is tried first at `guess`.
    fn place_of(&self, task: TaskIndex, guess: usize, count: usize) -> Option<usize> {
        match self {
            Self::All => usize::try_from(task.get()).ok().filter(|place| *place < count),
            Self::Some(tasks) if tasks.get(guess) == Some(&task) => Some(guess),
            Self::Some(tasks) => tasks.binary_search(&task).ok(),
        }
    }

    /// Whether a task of the job is one of them.
    pub fn contains(&self, task: TaskIndex) -> bool {
        match self {
            Self::All => true,
            Self::Some(tasks) => tasks.binary_search(&task).is_ok(),
        }
    }
}

/// The result of a relay's request, as far as it must be the same when asked for again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A key was put.
    Put(Revision),
    /// A key was deleted.
    Deleted(Revision),
    /// A key was incremented.
    Incremented {
        /// To this value.
        value: Bytes,
        /// With this revision.
        revision: Revision,
    },
    /// A barrier's instance ended.
    Barrier {
        /// The instance.
        counter: i64,
        /// Why it failed, if so.
        fault: Option<Fault>,
    },
    /// Something was done that has no result.
    Done,
}

/// Who of a group is alive, as relays' requests were told, kept until each relay has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliveAnswer {
    /// Those alive, with their incarnations.
    pub tasks: Arc<[(TaskIndex, Incarnation)]>,
    /// The marks on the requests.
    pub stamps: Vec<Stamp>,
}

/// A change of keys, as watches see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key, in normal form.
    pub key: Arc<str>,
    /// What became of it.
    pub kind: ChangeKind,
    /// The revision it made.
    pub revision: Revision,
}

/// What became of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It has this value.
    Put(Value),
    /// It is gone.
    Deleted,
    /// It is gone with all that was under it.
    DeletedWithAllUnder,
}

/// Changes that one record made.
pub(super) type Changes = Vec<Change>;

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    fn listed(tasks: &[i32]) -> impl ExactSizeIterator<Item = TaskIndex> {
        tasks.iter().copied().map(TaskIndex::new)
    }

    fn some(tasks: &[i32]) -> Participants {
        Participants::Some(listed(tasks).collect())
    }

    #[test]
    fn a_list_in_any_order_names_the_same_tasks() {
        for list in [&[1, 3, 5][..], &[5, 3, 1], &[1, 5, 3], &[3, 1, 5]] {
            assert!(some(&[1, 3, 5]).are(listed(list), Some(9)), "{list:?}");
        }
        for list in [&[0, 1, 2][..], &[2, 1, 0], &[0, 2, 1]] {
            assert!(Participants::All.are(listed(list), Some(3)), "{list:?}");
        }
    }

    #[test]
    fn another_list_does_not() {
        let wrong = [&[1, 3][..], &[1, 3, 4], &[1, 3, 3], &[1, 1, 5], &[3, 3, 1], &[1, 3, 5, 5]];
        for list in wrong {
            assert!(!some(&[1, 3, 5]).are(listed(list), Some(9)), "{list:?}");
        }
        for list in [&[0, 1][..], &[0, 1, 3], &[0, 1, 1], &[1, 1, 0], &[-1, 0, 1], &[2, 0, 0]] {
            assert!(!Participants::All.are(listed(list), Some(3)), "{list:?}");
        }
        assert!(!Participants::All.are(listed(&[0, 1]), None), "the size is not known");
    }

    /// An arrival reads each entry of its list once, however many tasks there are.
    #[test]
    fn a_list_is_read_once() {
        for count in [16, 256, 4096] {
            let reads = Cell::new(0);
            let tasks: Vec<i32> = (0..count).collect();
            let counted = listed(&tasks).inspect(|_| reads.set(reads.get() + 1));
            assert!(some(&tasks).are(counted, Some(9_999)));
            assert_eq!(reads.get(), count);
        }
    }
}
