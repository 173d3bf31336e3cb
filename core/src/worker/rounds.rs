//! Coordinated reads: in every round each consumer gets one element of one group.
//!
//! A round begins when all consumers have asked for it. After a restart of the worker in mid-round
//! some ask for the round that was going on and the others for the next: then the former get a
//! partial round, and all meet in the next one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use bytes::Bytes;

use super::buffer::{Buffer, End};
use super::refusal;
use super::runner::{Back, Given, Handed};
use super::types::ElementAsk;
use crate::ids::{CallId, TaskId};
use crate::status::Status;
use crate::time::{Duration, Time};

/// How long consumers that allow it wait for a group before the round is skipped for all.
const SKIP_AFTER: Duration = Duration::from_millis(100);

/// One task's rounds.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    task: TaskId,
    consumers: i64,
    /// -1 before the first.
    current: i64,
    /// The group of the current round, by consumer; none when it was skipped.
    group: Vec<Bytes>,
    asked: BTreeMap<CallId, Asked>,
    /// The round that begins when its group is ready.
    beginning: Option<Beginning>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    consumer: i64,
    round: i64,
    skipped_previous: bool,
    allow_skip: bool,
}

#[derive(Clone, Copy, Debug)]
struct Beginning {
    round: i64,
    /// Set when it may be skipped, once somebody has looked at the clock.
    skip_at: Option<Time>,
    may_skip: bool,
    /// Some know already that it was skipped.
    was_skipped: bool,
}

impl Rounds {
    pub(super) const fn new(task: TaskId, consumers: i64) -> Self {
        Self {
            task,
            consumers,
            current: -1,
            group: Vec::new(),
            asked: BTreeMap::new(),
            beginning: None,
        }
    }

    pub(super) fn needed(&self) -> usize {
        usize::try_from(self.consumers).unwrap_or(usize::MAX)
    }

    pub(super) fn ask(&mut self, call: CallId, ask: &ElementAsk) -> Result<(), Status> {
        let (consumer, round) = ask.round.ok_or_else(|| refusal::no_round(self.task))?;
        if !(0..self.consumers).contains(&consumer) {
            return Err(refusal::no_such_consumer(consumer, self.consumers));
        }
        if round < self.current || round < 0 {
            return Err(refusal::round_is_over(consumer, round, self.current));
        }
        let (skipped_previous, allow_skip) = (ask.skipped_previous_round, ask.allow_skip);
        self.asked.insert(call, Asked { consumer, round, skipped_previous, allow_skip });
        Ok(())
    }

    pub(super) fn hand_out(&mut self, now: Time, ready: &mut Buffer, out: &mut Vec<Handed>) {
        while self.begin(now, ready) {}
        self.answer_current(out);
        let is_short = ready.len() < self.needed();
        let told = match &ready.end {
            Some(End::Failed(status)) if is_short => status.clone(),
            Some(End::Over) if is_short => refusal::rounds_have_ended(),
            Some(End::Cut) => refusal::shutting_down(),
            _ => return,
        };
        self.beginning = None;
        out.extend(self.take_waiting().into_iter().map(|call| (call, Err(told.clone()))));
    }

    /// Begins a round that all have agreed on, if it can; says whether it did.
    fn begin(&mut self, now: Time, ready: &mut Buffer) -> bool {
        let Some(mut next) = self.beginning.or_else(|| self.agreed()) else {
            return false;
        };
        if next.may_skip && next.skip_at.is_none() {
            next.skip_at = Some(now.after(SKIP_AFTER));
        }
        if next.was_skipped {
            self.group = Vec::new();
        } else if ready.len() >= self.needed() {
            let taken = (0..self.needed()).map_while(|_| ready.take());
            self.group = taken.map(|(_, element)| element).collect();
        } else if next.skip_at.is_some_and(|at| at <= now) {
            self.group = Vec::new();
        } else {
            self.beginning = Some(next);
            return false;
        }
        (self.current, self.beginning) = (next.round, None);
        true
    }

    /// The round on which those who wait agree.
    fn agreed(&self) -> Option<Beginning> {
        let mut by_round: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        for asked in self.asked.values().filter(|asked| asked.round > self.current) {
            by_round.entry(asked.round).or_default().insert(asked.consumer);
        }
        let needed = self.needed();
        if let Some((round, _)) = by_round.iter().find(|(_, who)| who.len() == needed) {
            let last = self.asked.values().rfind(|asked| asked.round == *round);
            let may_skip = last.is_some_and(|asked| asked.allow_skip);
            return Some(Beginning { round: *round, skip_at: None, may_skip, was_skipped: false });
        }
        // Only a worker that has begun no round can have lost one that was going on.
        let (&round, who) = by_round.first_key_value().filter(|_| self.current < 0)?;
        let next = round.saturating_add(1);
        let all = who.union(by_round.get(&next)?).count();
        let knows = |asked: &Asked| asked.round == next && asked.skipped_previous;
        let was_skipped = self.asked.values().any(knows);
        let partial = Beginning { round, skip_at: None, may_skip: false, was_skipped };
        (all == needed).then_some(partial)
    }

    fn answer_current(&mut self, out: &mut Vec<Handed>) {
        let (current, group) = (self.current, &self.group);
        self.asked.retain(|call, asked| {
            if asked.round > current {
                return true;
            }
            let given = if asked.round < current {
                Err(refusal::round_is_over(asked.consumer, asked.round, current))
            } else {
                let place = usize::try_from(asked.consumer).unwrap_or(usize::MAX);
                let element = group.get(place).cloned();
                Ok(element.map_or(Given::Skip, |element| Given::Element(element, Back::Kept)))
            };
            out.push((*call, given));
            false
        });
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.beginning.and_then(|next| next.skip_at)
    }

    pub(super) fn is_waited_for(&self) -> bool {
        !self.asked.is_empty()
    }

    /// A consumer that has gone has to agree again.
    pub(super) fn cancel(&mut self, call: CallId) {
        if self.asked.remove(&call).is_some() {
            self.beginning = None;
        }
    }

    pub(super) fn take_waiting(&mut self) -> Vec<CallId> {
        self.beginning = None;
        core::mem::take(&mut self.asked).into_keys().collect()
    }
}
