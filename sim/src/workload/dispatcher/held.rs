//! What workers have answered while consumers vote to give their tasks up: the reader holds it until
//! it knows how the vote has ended.

use std::collections::BTreeMap;

use rondo_core::ids::TaskId;
use rondo_core::reader::{Answer, Request};
use rondo_core::status::Status;

use crate::mark::Mark;
use crate::workload::actor::{Act, With};
use crate::workload::elements::{ElementId, OfElements, ReaderLife};

/// Answers of tasks, each with its element if it has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(BTreeMap<TaskId, Option<ElementId>>);

impl Held {
    /// A task answers while a vote on it is under way.
    pub(super) fn hold(
        &mut self,
        by: ReaderLife,
        task: TaskId,
        id: Option<ElementId>,
        with: &mut With<'_>,
    ) {
        self.0.insert(task, id);
        with.acts.extend(id.map(|id| Act::Elements(OfElements::Held(by, id))));
    }

    /// Consumers have voted. The answer of the task, if there is one, is taken or let go; returns the
    /// task then.
    pub(super) fn voted(
        &mut self,
        by: ReaderLife,
        request: &Request,
        result: &Result<Answer, Status>,
        with: &mut With<'_>,
    ) -> Option<TaskId> {
        let (Request::RemoveTask { task, .. }, Ok(Answer::Removed(is_removed))) = (request, result)
        else {
            return None;
        };
        let id = self.0.remove(task)?;
        with.tally.mark(match is_removed {
            true => Mark::HeldAnswerLetGo,
            false => Mark::HeldAnswerTaken,
        });
        with.acts.extend(id.map(|id| {
            Act::Elements(match is_removed {
                true => OfElements::LetGo(by, id),
                false => OfElements::Taken(by, id),
            })
        }));
        Some(*task)
    }
}
