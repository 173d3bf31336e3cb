//! What workers have answered while consumers vote to give their tasks up, or when nobody knows how a vote
//! has ended. The reader holds such an answer until the vote surely has ended and two lists have the task, or
//! one has not.

use std::collections::BTreeMap;

use rondo_core::ids::TaskId;
use rondo_core::reader::{Answer, HeartbeatAnswer, Request};
use rondo_core::status::Status;
use rondo_core::time::{Duration, Time};

use crate::mark::Mark;
use crate::workload::actor::{Act, With};
use crate::workload::elements::{ElementId, OfElements, ReaderLife};

/// Lists that must have a task before it is known that a lost vote has not removed it.
const LISTS: u32 = 2;
/// How long after it was cast a vote may count.
const VOTE_COUNTS: Duration = Duration::from_secs(12);

/// A task that consumers vote on.
#[derive(Clone, Debug, Default)]
struct Task {
    /// When the vote under way was cast.
    cast: Option<Time>,
    /// When the last vote with no answer surely has ended, and lists after that which must still have the
    /// task.
    unsure: Option<(Time, u32)>,
    /// Whether it has answered, with its element if the answer has one.
    held: Option<Option<ElementId>>,
}

impl Task {
    /// How the vote under way ends is not known.
    fn lose(&mut self) {
        let ends = self.cast.take().map(|cast| (cast.after(VOTE_COUNTS), LISTS));
        self.unsure = ends.or(self.unsure);
    }
}

/// Tasks that consumers vote on, or have voted on with no answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Held(BTreeMap<TaskId, Task>);

impl Held {
    /// The reader casts a vote.
    pub(super) fn votes(&mut self, now: Time, task: TaskId) {
        self.0.entry(task).or_default().cast = Some(now);
    }

    /// A task answers. The reader takes its vote back, and holds the answer while it does not know whether
    /// the task stays.
    pub(super) fn holds(
        &mut self,
        by: ReaderLife,
        task: TaskId,
        id: Option<ElementId>,
        with: &mut With<'_>,
    ) {
        let Some(task) = self.0.get_mut(&task) else {
            return;
        };
        task.lose();
        if task.unsure.is_some() {
            task.held = Some(id);
            with.acts.extend(id.map(|id| Act::Elements(OfElements::Held(by, id))));
        }
    }

    /// The dispatcher has answered the reader, or cannot be reached. Returns the tasks whose answers are
    /// taken or let go.
    pub(super) fn learn(
        &mut self,
        now: Time,
        by: ReaderLife,
        (request, result): (&Request, &Result<Answer, Status>),
        with: &mut With<'_>,
    ) -> Vec<TaskId> {
        match (request, result) {
            (Request::RemoveTask { task, .. }, Ok(Answer::Removed(_))) => {
                self.0.remove(task);
            }
            (Request::RemoveTask { task, .. }, _) => self.0.entry(*task).or_default().lose(),
            (_, Ok(Answer::Heartbeat(answer))) => return self.listed(now, by, answer, with),
            _ => {}
        }
        Vec::new()
    }

    fn listed(
        &mut self,
        now: Time,
        by: ReaderLife,
        answer: &HeartbeatAnswer,
        with: &mut With<'_>,
    ) -> Vec<TaskId> {
        let mut settled = Vec::new();
        for (id, task) in &mut self.0 {
            let is_listed = answer.tasks.iter().any(|it| it.id == *id);
            match &mut task.unsure {
                Some((ends, lists)) if is_listed && now >= *ends => {
                    *lists = lists.saturating_sub(1);
                    task.unsure = task.unsure.filter(|(_, lists)| *lists > 0);
                }
                _ => {}
            }
            if task.unsure.is_some() && is_listed {
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
