//! A task of a coordinated read is given up only when all its consumers ask for that in one round, or
//! in any round, and still wait for the answer. A task of another read goes only when it is finished
//! and its worker has an unfinished one of the same iteration, or when nobody is there who would read
//! from it: all clients of the iteration have asked for splits to hold. A worker that gets such tasks one
//! after the other has no more than one that is over, however many there were.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Request, State, Task};
use rondo_core::ids::{ClientId, IterationId, TaskId, WorkerId};
use rondo_core::limits::ANY_ROUND;
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

/// The calls that ask for a removal.
#[derive(Default)]
pub(super) struct Votes {
    open: CallMap<Vote>,
    /// Clients that have asked for splits to hold.
    by_split: BTreeSet<ClientId>,
}

/// What one of them says.
#[derive(Clone, Copy, Debug)]
struct Vote {
    task: TaskId,
    consumer: i64,
    round: i64,
}

impl Votes {
    /// A task that no consumer reads in rounds was removed.
    fn replaced(&self, id: TaskId, state: &State) -> Verdict {
        let Some(removed) = state.tasks().get(&id) else {
            return Err(format!("task {id} was removed, and there is none"));
        };
        let follows = |task: &Task| {
            let of_same = task.worker == removed.worker && task.iteration == removed.iteration;
            task.id > id && of_same && !task.finished
        };
        let is_fair = if removed.finished {
            reached(Check::TaskReplaced);
            state.tasks().values().any(follows)
        } else {
            let of = state.iterations().get(&removed.iteration);
            of.is_some_and(|of| of.clients.is_subset(&self.by_split))
        };
        match is_fair {
            true => Ok(()),
            false => {
                Err(format!("{removed:?} was removed, and it was neither replaced nor unread"))
            }
        }
    }

    /// A worker gets a task of a read without rounds.
    fn made(worker: WorkerId, iteration: IterationId, state: &State) -> Verdict {
        let of = state.iterations().get(&iteration);
        if of.and_then(|of| state.jobs().get(&of.job)).is_none_or(|job| job.consumers.is_some()) {
            return Ok(());
        }
        let tasks = of.into_iter().flat_map(|of| &of.tasks).filter_map(|id| state.tasks().get(id));
        let had = tasks.filter(|task| task.worker == worker && task.finished).count();
        reached(Check::TaskMade);
        match had > 1 {
            false => Ok(()),
            true => Err(format!(
                "worker {worker} gets a task of {iteration}, and has {had} that are over"
            )),
        }
    }

    fn removed(&self, task: TaskId, shadow: &Shadow) -> Verdict {
        let state = shadow.state();
        let of = state.tasks().get(&task).and_then(|task| state.iterations().get(&task.iteration));
        let job = of.and_then(|iteration| state.jobs().get(&iteration.job));
        let Some(consumers) = job.and_then(|job| job.consumers) else {
            return self.replaced(task, state);
        };
        let mut rounds: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        for vote in self.open.values().filter(|vote| vote.task == task) {
            rounds.entry(vote.round).or_default().insert(vote.consumer);
        }
        let anywhere = rounds.get(&ANY_ROUND).cloned().unwrap_or_default();
        let all = |voters: &BTreeSet<i64>| {
            (0..consumers).all(|number| voters.contains(&number) || anywhere.contains(&number))
        };
        reached(Check::Votes);
        match rounds.values().any(all) {
            true => Ok(()),
            false => Err(format!(
                "task {task} was given up; of {consumers} consumers those that wait for it are, by \
                 round, {rounds:?}"
            )),
        }
    }
}

impl Oracle for Votes {
    fn name(&self) -> &'static str {
        "votes"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Answered,
            SeenKind::GivenUp,
            SeenKind::Died,
            SeenKind::DispatcherRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Taken {
                call,
                request: Request::MaybeRemoveTask { task, consumer_index, round },
                ..
            } => {
                let vote = Vote { task: *task, consumer: *consumer_index, round: *round };
                self.open.insert(*call, vote);
            }
            Seen::Taken { request: Request::HoldSplits(hold), .. } => {
                self.by_split.insert(hold.client);
            }
            Seen::Recorded {
                record: Record::Dispatcher(dispatcher::Record::RemoveTask { id, .. }),
                ..
            } => return self.removed(*id, shadow),
            Seen::Recorded {
                record: Record::Dispatcher(dispatcher::Record::CreateTask { iteration, worker, .. }),
                ..
            } => return Self::made(*worker, *iteration, shadow.state()),
            Seen::Answered { call, .. } | Seen::GivenUp { call } => drop(self.open.remove(call)),
            Seen::Died => self.open.clear(),
            _ => {}
        }
        Ok(())
    }
}
