//! The coordination service's answers claim something of its state. A crash must not take that back.

use rondo_core::coordination::{
    BarrierKey, Call, KeyEntry, Method, Namespace, Reply, Stamp, State, TaskInfo, TaskState,
};
use rondo_core::ids::{Incarnation, Lsn, Revision, ServiceIncarnation, TaskIndex};

/// The claim of an OK.
#[derive(Debug)]
pub(super) enum Claim {
    /// The process of this task has registered.
    Registered(TaskIndex, Incarnation),
    /// This process of the task has left, or another one has followed it.
    Left(TaskIndex, Incarnation, Option<Stamp>),
    /// The task is in error, or has left since, or another process of it has followed this one.
    InError(TaskIndex, Incarnation, Option<Stamp>),
    /// All have passed the barrier, in the life of the namespace in which the call came.
    Passed(BarrierKey, Option<ServiceIncarnation>),
    /// The tasks were in these states when the newest record was this one.
    States(Lsn),
    /// Nothing beside what stands in the answer.
    Answer,
}

impl Claim {
    /// The claim that an OK to `asked` will make. The call comes when the newest record is `last` and the
    /// service is in this state.
    pub(super) fn of(asked: &Call, last: Lsn, state: &State) -> Self {
        let stamp = asked.caller.stamp;
        match (&asked.method, asked.caller.incarnation) {
            (Method::RegisterTask { task, incarnation, .. }, _) => {
                Self::Registered(task.index, *incarnation)
            }
            (Method::ShutdownTask { task }, Some(run)) => Self::Left(task.index, run, stamp),
            (Method::ReportErrorToService { task, .. }, Some(run)) => {
                Self::InError(task.index, run, stamp)
            }
            (Method::Barrier { id, .. }, _) => {
                let life = state.named(&asked.namespace).map(|of| of.head().incarnation);
                Self::Passed(BarrierKey::Named(id.clone()), life)
            }
            (Method::GetTaskState { .. } | Method::GetJobState { .. }, _) => Self::States(last),
            _ => Self::Answer,
        }
    }

    /// Whether the live state of the namespace agrees with an answer, and what a crash leaves of it does
    /// not.
    pub(super) fn is_taken_back(
        &self,
        namespace: &str,
        reply: &Reply,
        (live, kept): (&State, &State),
    ) -> bool {
        let Some(live) = live.named(namespace) else {
            return false;
        };
        let kept = kept.named(namespace);
        let only_live =
            |holds: &dyn Fn(&Namespace) -> bool| holds(live) && !kept.is_some_and(holds);
        match (self, reply) {
            (Self::Registered(task, run), Reply::Registered(life)) => {
                only_live(&|of| of.head().incarnation == *life)
                    || only_live(&|of| of.info(*task).incarnation == *run)
            }
            (_, Reply::Registered(life) | Reply::Heartbeat(life) | Reply::LifeBegun(life)) => {
                only_live(&|of| of.head().incarnation == *life)
            }
            // Where a life has begun since, the tasks' states are not what the answer was about.
            (Self::Left(..) | Self::InError(..), _) | (_, Reply::TaskStates(_))
                if kept.is_some_and(|kept| kept.head().life != live.head().life) =>
            {
                false
            }
            // What the call did is durable with its result, and more may have happened since: the process may
            // have registered again.
            (Self::Left(.., Some(stamp)) | Self::InError(.., Some(stamp)), _)
                if kept.is_some_and(|kept| has_result(kept, *stamp)) =>
            {
                false
            }
            (Self::Left(task, run, _), Reply::ShutDown)
            | (Self::InError(task, run, _), Reply::ErrorReported) => only_live(&|of| {
                let info = of.info(*task);
                info.state != TaskState::Connected || info.incarnation != *run
            }),
            // A later life has barriers of the same names, which say nothing of this one.
            (Self::Passed(key, life), Reply::BarrierPassed { counter }) => {
                let is_of_life = *life == Some(live.head().incarnation);
                is_of_life && only_live(&|of| has_ended(of, key, *counter))
            }
            (_, Reply::Tasks { version, .. }) => only_live(&|of| of.head().version >= *version),
            // A task that has changed since the call came may have changed twice. Then the live state
            // agrees with the answer by chance.
            (Self::States(last), Reply::TaskStates(tasks)) => {
                let is_unchanged = |told: &&TaskInfo| {
                    live.tasks().get(&told.index).is_none_or(|task| task.changed <= *last)
                };
                let is_so = |told: &TaskInfo| only_live(&|of| of.info(told.index) == *told);
                tasks.iter().filter(is_unchanged).any(is_so)
            }
            (_, reply) => revision(reply)
                .is_some_and(|revision| only_live(&|of| of.head().revision >= revision)),
        }
    }
}

/// Whether the result of a call through a relay is kept, or was until the relay had it.
fn has_result(of: &Namespace, stamp: Stamp) -> bool {
    let relay = of.relays().get(&stamp.relay);
    relay.is_some_and(|relay| {
        stamp.sequence <= relay.acknowledged || relay.results.contains_key(&stamp.sequence)
    })
}

fn has_ended(of: &Namespace, key: &BarrierKey, counter: i64) -> bool {
    let barrier = of.barriers().get(key);
    barrier.is_some_and(|it| it.counter == counter && it.outcome.is_some() || it.counter > counter)
}

/// The newest change of keys that an answer names.
fn revision(reply: &Reply) -> Option<Revision> {
    let newest = |entries: &[KeyEntry]| entries.iter().map(|entry| entry.revision).max();
    match reply {
        Reply::Put { revision } | Reply::Value { revision, .. } | Reply::Deleted { revision } => {
            Some(*revision)
        }
        Reply::Directory(entries) => newest(entries),
        Reply::Changes { upto, .. } | Reply::Keys { upto, .. } => Some(*upto),
        _ => None,
    }
}
