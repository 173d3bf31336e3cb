//! What workers have answered while consumers vote to give their tasks up: the reader holds it until
//! it knows how the vote has ended. Where the dispatcher's word was lost, two lists of tasks say it.

use std::collections::BTreeMap;

use rondo_core::ids::TaskId;
use rondo_core::reader::{Answer, HeartbeatAnswer, Request};
use rondo_core::status::Status;

use crate::mark::Mark;
use crate::workload::actor::{Act, With};
use crate::workload::elements::{ElementId, OfElements, ReaderLife};

/// Lists that must have a task before it is known that a lost vote has not removed it.
const LISTS: u32 = 2;

/// A task that consumers vote on.
#[derive(Clone, Debug, Default)]
struct Task {
    is_voting: bool,
    /// Lists that must still have it.
    unsure: u32,
    /// Whether it has answered, with its element if the answer has one.
    held: Option<Option<ElementId>>,
}

/// Tasks that consumers vote on, or have voted on with no answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(BTreeMap<TaskId, Task>);

impl Held {
    /// The reader casts a vote.
    pub(super) fn votes(&mut self, task: TaskId) {
        self.0.entry(task).or_default().is_voting = true;
    }

    /// A task answers. The reader holds the answer while it does not know whether the task stays.
    pub(super) fn holds(
        &mut self,
        by: ReaderLife,
        task: TaskId,
        id: Option<ElementId>,
        with: &mut With<'_>,
    ) {
        let Some(task) = self.0.get_mut(&task).filter(|task| task.is_voting || task.unsure > 0)
        else {
            return;
        };
        task.held = Some(id);
        with.acts.extend(id.map(|id| Act::Elements(OfElements::Held(by, id))));
    }

    /// The dispatcher has answered the reader, or cannot be reached. Returns the tasks whose answers are
    /// taken or let go.
    pub(super) fn learn(
        &mut self,
        by: ReaderLife,
        request: &Request,
        result: &Result<Answer, Status>,
        with: &mut With<'_>,
    ) -> Vec<TaskId> {
        match (request, result) {
            (Request::RemoveTask { task, .. }, Ok(Answer::Removed(is_removed))) => {
                let of = self.0.remove(task).and_then(|of| of.held);
                of.map(|id| settle(by, id, !is_removed, with)).map(|()| *task).into_iter().collect()
            }
            (Request::RemoveTask { task, .. }, _) => {
                let of = self.0.entry(*task).or_default();
                (of.is_voting, of.unsure) = (false, LISTS);
                of.held.map(|_| *task).into_iter().collect()
            }
            (_, Ok(Answer::Heartbeat(answer))) => self.listed(by, answer, with),
            _ => Vec::new(),
        }
    }

    fn listed(
        &mut self,
        by: ReaderLife,
        answer: &HeartbeatAnswer,
        with: &mut With<'_>,
    ) -> Vec<TaskId> {
        let mut settled = Vec::new();
        for (id, task) in self.0.iter_mut().filter(|(_, task)| !task.is_voting) {
            let is_listed = answer.tasks.iter().any(|it| it.id == *id);
            if is_listed {
                task.unsure = task.unsure.saturating_sub(1);
            }
            if task.unsure > 0 && is_listed {
                continue;
            }
            if let Some(element) = task.held.take() {
                settle(by, element, is_listed, with);
                settled.push(*id);
            }
        }
        settled
    }
}

fn settle(by: ReaderLife, id: Option<ElementId>, stays: bool, with: &mut With<'_>) {
    with.tally.mark(if stays { Mark::HeldAnswerTaken } else { Mark::HeldAnswerLetGo });
    with.acts.extend(id.map(|id| {
        Act::Elements(match stays {
            true => OfElements::Taken(by, id),
            false => OfElements::LetGo(by, id),
        })
    }));
}
