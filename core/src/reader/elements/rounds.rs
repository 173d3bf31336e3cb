//! Coordinated reads: in each round one element of every task that has started, in the order of the
//! tasks, and no round is begun that all consumers were asked to stop before.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::fetching::Progress;
use super::{Elements, Slot};
use crate::ids::TaskId;
use crate::reader::membership;
use crate::reader::shared::Shared;
use crate::reader::types::{Effect, Member, Task};
use crate::time::{Duration, Time};

/// Longest pause before a task is asked again: all consumers wait for it.
pub(super) const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The rounds of a consumer.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    pub(super) consumer: Member,
    /// The first round that is not begun.
    next: i64,
    /// The tasks that were asked in the last round.
    asked: BTreeSet<TaskId>,
    /// No round is begun from this one on.
    limit: Option<i64>,
}

impl Rounds {
    pub(super) const fn of(consumer: Member) -> Self {
        Self { consumer, next: 0, asked: BTreeSet::new(), limit: None }
    }

    /// The last round that was begun.
    const fn begun(&self) -> i64 {
        self.next.saturating_sub(1)
    }

    /// What a heartbeat says: not to begin the limit is promised as soon as it is known.
    pub(super) fn told(&self) -> membership::Rounds {
        (Some(self.begun().max(0)), self.limit)
    }

    /// The dispatcher asks to stop before a round, or to go on. True if that is new and possible.
    pub(super) fn block(&mut self, round: Option<i64>) -> bool {
        match round {
            None => self.limit = None,
            // It is there already, which the next heartbeat will say.
            Some(round) if self.begun() >= round => {}
            Some(round) => return self.limit.replace(round) != Some(round),
        }
        false
    }

    /// Whether it stands before the limit.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_before().is_some()
    }

    /// The round it stands before.
    pub(super) fn blocked_before(&self) -> Option<i64> {
        self.limit.filter(|limit| self.next >= *limit)
    }

    /// A task is asked in a round, which may begin with it.
    fn ask(&mut self, task: TaskId, round: i64) {
        if round >= self.next {
            self.next = round.saturating_add(1);
            self.asked.clear();
        }
        self.asked.insert(task);
    }
}

impl Elements {
    /// Asks tasks again that did not answer, and then one after the other for what comes next.
    pub(super) fn ask_in_rounds(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        self.vote_again(now, shared, out);
        self.ask_again(now, shared, out);
        if shared.is_finished {
            return;
        }
        while self.has_room(shared) {
            let Some((task, round)) = self.next_in_rounds(shared) else {
                return;
            };
            if self.tasks.get(&task.id).is_some_and(|progress| progress.round.is_some()) {
                // Its answer of the round before is to come first.
                return;
            }
            if let Some(rounds) = &mut self.rounds {
                rounds.ask(task.id, round);
            }
            self.slots.push_back(Slot::Waiting(task.id, round));
            self.tasks.entry(task.id).or_default().round = Some(round);
            self.fetch(&task, Some(round), true, shared, out);
        }
    }

    /// The task to ask next, and the round: that of the round under way, or of the next one.
    fn next_in_rounds(&self, shared: &Shared) -> Option<(Task, i64)> {
        let rounds = self.rounds.as_ref()?;
        let is_there = |task: &&Task| {
            self.tasks.get(&task.id).is_none_or(|it| !it.is_removed && !it.has_ended)
        };
        let tasks = || shared.tasks.iter().filter(is_there);
        let (begun, asked) = (rounds.begun(), &rounds.asked);
        let left = |task: &&Task| task.starting_round <= begun && !asked.contains(&task.id);
        if let Some(task) = tasks().find(left) {
            return Some((task.clone(), begun));
        }
        // Rounds without a task go by.
        let round = rounds.next.max(tasks().map(|task| task.starting_round).min()?);
        if rounds.limit.is_some_and(|limit| round >= limit) {
            return None;
        }
        let first = tasks().find(|task| task.starting_round <= round)?;
        Some((first.clone(), round))
    }

    /// Asks once more for what did not come.
    fn ask_again(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        for task in shared.tasks.clone() {
            let Some(progress) = self.tasks.get(&task.id) else {
                continue;
            };
            let Some(round) = progress.round else {
                continue;
            };
            if progress.may_go_on() && progress.is_due(now) {
                self.fetch(&task, Some(round), true, shared, out);
            }
        }
    }

    /// What a task's round comes to is known.
    pub(super) fn fill(&mut self, task: TaskId, round: i64, with: Slot) {
        let is_it = |slot: &&mut Slot| match slot {
            Slot::Waiting(id, of) => (*id, *of) == (task, round),
            Slot::Ready(_) | Slot::Passed => false,
        };
        if let Some(slot) = self.slots.iter_mut().find(is_it) {
            *slot = with;
        }
        if let Some(progress) = self.tasks.get_mut(&task) {
            progress.round = None;
        }
    }

    /// What waits for tasks that are gone waits for nothing, unless an answer is on its way.
    pub(super) fn pass_unlisted(&mut self, is_listed: impl Fn(&TaskId) -> bool) {
        let tasks = &self.tasks;
        for slot in &mut self.slots {
            if let Slot::Waiting(task, _) = slot
                && !is_listed(task)
                && tasks.get(task).is_none_or(Progress::is_idle)
            {
                *slot = Slot::Passed;
            }
        }
    }
}
