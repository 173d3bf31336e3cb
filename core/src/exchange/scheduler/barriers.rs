//! Barriers: who has come, and when those who wait may go on.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::machine::{Alarm, Scheduler};
use super::refusal;
use super::report::{Phase, WaitingAt};
use super::seat::{Asked, Kind, Peer};
use super::types::{Effect, Event};
use crate::exchange::ids::BarrierNumber;
use crate::exchange::membership::{Sizes, State};
use crate::exchange::message::{Barrier, Failure, Passed, Register, Scope};
use crate::exchange::refusal::PeerLost;
use crate::exchange::role::{Mask, Role};
use crate::ids::CallId;
use crate::status::Status;
use crate::time::{Duration, Time};

/// The barriers of one kind: one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Meeting {
    /// How often all have come.
    pub(super) passed: u64,
    /// Who has come to the present one.
    pub(super) waiting: BTreeSet<Peer>,
    /// Calls of the process that runs the scheduler which have, and until when they wait.
    pub(super) own: BTreeMap<CallId, Option<Time>>,
}

/// How many take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    processes: usize,
    groups: usize,
    lost: usize,
}

/// All barriers.
#[derive(Clone, Debug, Default)]
pub(super) struct Meetings {
    pub(super) kinds: BTreeMap<Kind, Meeting>,
    /// Kinds of which the present barrier may be over.
    pub(super) moved: BTreeSet<Kind>,
    servers: Counts,
    workers: Counts,
}

impl Meetings {
    /// How often barriers have been passed, of each kind that was.
    pub(super) fn passed(&self) -> Vec<Passed> {
        let passed = self.kinds.iter().map(|((mask, scope), meeting)| Passed {
            mask: *mask,
            scope: *scope,
            count: meeting.passed,
        });
        passed.filter(|passed| passed.count > 0).collect()
    }

    /// A process waits at no barrier any more.
    pub(super) fn leave(&mut self, peer: Peer) {
        for meeting in self.kinds.values_mut() {
            meeting.waiting.remove(&peer);
        }
    }

    /// Calls of the process that runs the scheduler which wait.
    pub(super) fn own_calls(&self) -> usize {
        self.kinds.values().map(|meeting| meeting.own.len()).sum()
    }

    /// The next barriers are those of another exchange.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    pub(super) fn report(&self) -> Vec<WaitingAt> {
        let waiting = self.kinds.iter().filter(|(_, meeting)| !meeting.waiting.is_empty());
        let waiting = waiting.map(|((mask, scope), meeting)| WaitingAt {
            mask: *mask,
            scope: *scope,
            passed: meeting.passed,
            waiting: meeting.waiting.iter().copied().collect(),
        });
        waiting.collect()
    }

    /// How many of a mask take part.
    fn counts(&self, mask: Mask) -> Counts {
        let mut sum = Counts::default();
        for (role, counts) in [(Role::Server, self.servers), (Role::Worker, self.workers)] {
            if mask.contains(role) {
                sum.processes = sum.processes.saturating_add(counts.processes);
                sum.groups = sum.groups.saturating_add(counts.groups);
                sum.lost = sum.lost.saturating_add(counts.lost);
            }
        }
        sum
    }
}

impl Scheduler {
    /// A process has come to a barrier.
    pub(super) fn come(&mut self, peer: Peer, barrier: Barrier) {
        let Some(seat) = self.seats.get_mut(&peer) else {
            return;
        };
        let Barrier { number, mask, scope } = barrier;
        let kind = (mask, scope);
        let before = seat.asked.get(&kind);
        if let Some(before) = before.filter(|before| before.number >= number) {
            // It was sent again, because the answer was lost on the way.
            if before.number == number && before.result.is_some() {
                self.telling.ended.push_back((peer, kind));
            }
            return;
        }
        let refused = if self.phase == Phase::Gathering {
            Some(refusal::too_early())
        } else {
            refusal::check_mask(mask, peer.0).err()
        };
        let result = refused.map(|status| Err(Failure::Refused(status)));
        if result.is_some() {
            self.telling.ended.push_back((peer, kind));
        } else {
            self.meetings.kinds.entry(kind).or_default().waiting.insert(peer);
            self.meetings.moved.insert(kind);
        }
        seat.asked.insert(kind, Asked { number, result });
    }

    /// A process waits at a barrier no longer.
    pub(super) fn withdraw(&mut self, peer: Peer, number: BarrierNumber) {
        let Some(seat) = self.seats.get_mut(&peer) else {
            return;
        };
        let waiting = |asked: &Asked| asked.number == number && asked.result.is_none();
        let mut asked = seat.asked.iter_mut();
        if let Some((kind, asked)) = asked.find(|(_, asked)| waiting(asked)) {
            let kind = *kind;
            asked.result = Some(Err(Failure::Refused(refusal::withdrawn())));
            self.telling.ended.push_back((peer, kind));
            if let Some(meeting) = self.meetings.kinds.get_mut(&kind) {
                meeting.waiting.remove(&peer);
            }
        }
    }

    /// A process that is back says where it waits: nowhere else.
    pub(super) fn come_again(&mut self, peer: Peer, register: &Register) {
        if let Some(seat) = self.seats.get_mut(&peer) {
            seat.asked.retain(|_, asked| asked.result.is_some());
        }
        self.meetings.leave(peer);
        for barrier in &register.waiting {
            self.come(peer, *barrier);
        }
    }

    /// The process that runs the scheduler comes to a barrier.
    pub(super) fn come_itself(
        &mut self,
        now: Time,
        call: CallId,
        kind: Kind,
        timeout: Option<Duration>,
    ) -> Result<(), Status> {
        if !self.settings.takes_part {
            return Err(refusal::takes_no_part());
        }
        refusal::check_mask(kind.0, Role::Scheduler)?;
        let due = timeout.map(|timeout| now.after(timeout));
        self.alarms.extend(due.map(|due| (due, Alarm::Call(call))));
        self.meetings.kinds.entry(kind).or_default().own.insert(call, due);
        self.meetings.moved.insert(kind);
        Ok(())
    }

    /// The process that runs the scheduler waits at a barrier no longer.
    pub(super) fn go_away_itself(&mut self, call: CallId) -> Option<Kind> {
        let mut kinds = self.meetings.kinds.iter_mut();
        let (kind, due) = kinds.find_map(|(kind, it)| Some((*kind, it.own.remove(&call)?)))?;
        if let Some(due) = due {
            self.alarms.remove(&(due, Alarm::Call(call)));
        }
        Some(kind)
    }

    /// The same because the others did not come in time.
    pub(super) fn give_up_coming(&mut self, call: CallId, out: &mut Vec<Effect>) {
        if let Some((mask, _)) = self.go_away_itself(call) {
            let result = Err(Failure::Refused(refusal::not_met(mask)));
            out.push(Effect::Done { call, result });
        }
    }

    /// Counts who takes part, for all barriers.
    pub(super) fn count_up(&mut self) {
        let Some(sizes) = self.sizes else {
            return;
        };
        self.meetings.servers = self.count(Role::Server, sizes);
        self.meetings.workers = self.count(Role::Worker, sizes);
        self.meetings.moved.extend(self.meetings.kinds.keys().copied());
    }

    fn count(&self, role: Role, sizes: Sizes) -> Counts {
        let mut counts = Counts::default();
        let mut last = None;
        for ((_, rank), seat) in self.seats.iter().filter(|((of, _), _)| *of == role) {
            match seat.state {
                State::Up => {
                    counts.processes = counts.processes.saturating_add(1);
                    // Ranks of a group follow each other.
                    let group = Some(sizes.group_of(*rank));
                    if last != group {
                        counts.groups = counts.groups.saturating_add(1);
                        last = group;
                    }
                }
                State::Lost => counts.lost = counts.lost.saturating_add(1),
                State::Left => {}
            }
        }
        counts
    }

    /// Releases those whose barriers all have come to, or tell them why that will not be.
    pub(super) fn meet(&mut self, out: &mut Vec<Effect>) {
        for kind in core::mem::take(&mut self.meetings.moved) {
            let (mask, scope) = kind;
            let Some(meeting) = self.meetings.kinds.get_mut(&kind) else {
                continue;
            };
            if meeting.waiting.is_empty() && meeting.own.is_empty() {
                continue;
            }
            if let Some(lost) = self.lost_of(mask) {
                out.push(Effect::Observe(Event::BarrierFailed { mask, scope, lost: lost.clone() }));
                self.end_meeting(kind, &Err(Failure::PeerLost(lost)), out);
            } else if self.is_complete(kind) {
                self.pass(kind, out);
            }
        }
    }

    fn pass(&mut self, kind: Kind, out: &mut Vec<Effect>) {
        if let Some(meeting) = self.meetings.kinds.get_mut(&kind) {
            meeting.passed = meeting.passed.saturating_add(1);
            let passed = meeting.passed;
            self.end_meeting(kind, &Ok(passed), out);
        }
    }

    /// Who is lost of a mask, if barriers do not go on without.
    fn lost_of(&self, mask: Mask) -> Option<PeerLost> {
        if self.settings.goes_on_without_lost || self.meetings.counts(mask).lost == 0 {
            return None;
        }
        let is_lost = |(role, _): &Peer, state| mask.contains(*role) && state == State::Lost;
        let lost = self.seats.iter().find(|(peer, seat)| is_lost(peer, seat.state));
        lost.map(|(peer, seat)| seat.lost(*peer))
    }

    fn is_complete(&self, kind: Kind) -> bool {
        let (mask, scope) = kind;
        let (Some(meeting), Some(sizes)) = (self.meetings.kinds.get(&kind), self.sizes) else {
            return false;
        };
        let waits_for_itself = self.settings.takes_part && mask.contains(Role::Scheduler);
        if waits_for_itself && meeting.own.is_empty() {
            return false;
        }
        let counts = self.meetings.counts(mask);
        let waiting = &meeting.waiting;
        match scope {
            Scope::Instance => waiting.len() == counts.processes,
            Scope::Group if waiting.len() < counts.groups => false,
            Scope::Group => {
                let groups = waiting.iter().map(|(role, rank)| (*role, sizes.group_of(*rank)));
                groups.collect::<BTreeSet<_>>().len() == counts.groups
            }
        }
    }

    /// Tells all who wait how it ended.
    fn end_meeting(&mut self, kind: Kind, result: &Result<u64, Failure>, out: &mut Vec<Effect>) {
        let Some(meeting) = self.meetings.kinds.get_mut(&kind) else {
            return;
        };
        let waiting = core::mem::take(&mut meeting.waiting);
        let own = core::mem::take(&mut meeting.own);
        for peer in waiting {
            self.answer(peer, kind, result.clone());
        }
        for (call, due) in own {
            if let Some(due) = due {
                self.alarms.remove(&(due, Alarm::Call(call)));
            }
            out.push(Effect::Done { call, result: result.clone().map(|_| ()) });
        }
    }

    fn answer(&mut self, peer: Peer, kind: Kind, result: Result<u64, Failure>) {
        let seat = self.seats.get_mut(&peer);
        if let Some(asked) = seat.and_then(|seat| seat.asked.get_mut(&kind)) {
            asked.result = Some(result);
            self.telling.ended.push_back((peer, kind));
        }
    }

    /// A scheduler that was restarted knows now which barriers were passed before. Who still waits at one of
    /// them has only not been told.
    pub(super) fn catch_up(&mut self) {
        let Some(sizes) = self.sizes else {
            return;
        };
        let mut units: BTreeMap<(Kind, Role, u32), u64> = BTreeMap::new();
        let mut most: BTreeMap<Kind, u64> = BTreeMap::new();
        for ((role, rank), seat) in &self.seats {
            for (kind, passed) in &seat.passed {
                let unit = unit(*kind, (*role, *rank), sizes);
                let last = units.entry((*kind, *role, unit)).or_default();
                *last = (*last).max(*passed);
                let most = most.entry(*kind).or_default();
                *most = (*most).max(*passed);
            }
        }
        for (kind, passed) in most {
            let meeting = self.meetings.kinds.entry(kind).or_default();
            meeting.passed = passed;
            let is_past = |peer: &Peer| {
                let unit = (kind, peer.0, unit(kind, *peer, sizes));
                units.get(&unit).copied().unwrap_or_default() < passed
            };
            let past: Vec<Peer> = meeting.waiting.iter().copied().filter(is_past).collect();
            for peer in past {
                if let Some(meeting) = self.meetings.kinds.get_mut(&kind) {
                    meeting.waiting.remove(&peer);
                }
                self.answer(peer, kind, Ok(passed));
            }
        }
    }
}

/// What counts as one at a barrier: a process, or its group.
const fn unit((_, scope): Kind, (_, rank): Peer, sizes: Sizes) -> u32 {
    match scope {
        Scope::Instance => rank.get(),
        Scope::Group => sizes.group_of(rank),
    }
}
