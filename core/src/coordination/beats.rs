//! Tasks show that they live.

use super::live::Doing;
use super::machine::{Answer, Coordination, Said, Turn};
use super::refusal::Refusal;
use super::reply::Reply;
use super::request::Caller;
use super::types::{Phase, TaskName};
use crate::ids::{Incarnation, NamespaceId, TaskIndex};
use crate::time::Time;

impl Coordination {
    /// `Heartbeat`.
    pub(super) fn heartbeat(
        &mut self,
        turn: &mut Turn<'_>,
        id: NamespaceId,
        caller: &Caller,
        name: &TaskName,
        incarnation: Incarnation,
    ) -> Answer {
        let task = self.index_of(id, name, "request")?;
        self.check_former(id, caller, task, incarnation)?;
        let namespace = self.namespace(id)?;
        let beat = Reply::Heartbeat(namespace.head.incarnation);
        let Some(known) = namespace.tasks.get(&task) else {
            return Err(Refusal::MustRegister { task: self.called(id, task, caller.dialect) });
        };
        match known.phase {
            Phase::Connected if known.incarnation == incarnation => {
                let after = known.changed;
                self.hear(id, task, caller, turn.now);
                Ok(Said::Now(beat, after))
            }
            Phase::Connected if known.recoverable => Ok(Said::Now(beat, known.changed)),
            Phase::Connected => {
                let known = known.clone();
                Err(self.clash(turn, id, caller, &known, incarnation)?)
            }
            Phase::Disconnected if self.in_grace(id, task, turn.now) => {
                Ok(Said::Now(beat, known.changed))
            }
            Phase::Error => {
                let task = self.called(id, task, caller.dialect);
                Ok(Said::No(Refusal::InError { task, fault: known.fault() }, known.changed))
            }
            Phase::Disconnected | Phase::Registering => {
                Err(Refusal::MustRegister { task: self.called(id, task, caller.dialect) })
            }
        }
    }

    /// A process of the life before is no task that was started twice in this one.
    fn check_former(
        &self,
        id: NamespaceId,
        caller: &Caller,
        task: TaskIndex,
        incarnation: Incarnation,
    ) -> Result<(), Refusal> {
        let namespace = self.namespace(id)?;
        let known = namespace.tasks.get(&task).map(|task| task.incarnation);
        let former = namespace.head.former.get(&task) == Some(&incarnation);
        match former && known != Some(incarnation) {
            true => {
                let task = self.called(id, task, caller.dialect);
                Err(Refusal::FormerIncarnation { task, asked: incarnation.get() })
            }
            false => Ok(()),
        }
    }

    /// Takes a sign of life.
    pub(super) fn hear(&mut self, id: NamespaceId, task: TaskIndex, caller: &Caller, now: Time) {
        let Some(beat) = self.lives.get_mut(&id).and_then(|live| live.beats.get_mut(&task)) else {
            return;
        };
        (beat.since, beat.heard) = (now, Some(now));
        if beat.peer != caller.peer && caller.peer.is_some() {
            beat.peer.clone_from(&caller.peer);
        }
    }

    /// Remembers what a task did, for people.
    pub(super) fn note(&mut self, id: NamespaceId, task: TaskIndex, doing: Doing, now: Time) {
        let beat = self.lives.get_mut(&id).and_then(|live| live.beats.get_mut(&task));
        if let Some(beat) = beat {
            beat.doing = Some((doing, now));
        }
    }

    /// Whether a task left so recently that it may still talk.
    pub(super) fn in_grace(&self, id: NamespaceId, task: TaskIndex, now: Time) -> bool {
        let namespace = self.state.namespaces.get(&id);
        let known = namespace.and_then(|namespace| namespace.tasks.get(&task));
        let left = known.filter(|task| task.phase == Phase::Disconnected).map(|task| task.since);
        left.is_some_and(|left| now < self.patience_from(id, left))
    }
}
