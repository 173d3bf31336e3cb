//! The machine of a process: takes what happens, and says what to do.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::barriers::{Kind, Line};
use super::calls::{Calls, Place};
use super::connecting::Way;
use super::refusal;
use super::types::{Ask, Effect, Input, Reply, Settings, Standing};
use crate::exchange::ids::{BarrierNumber, InstanceRank, MembershipVersion, NodeId};
use crate::exchange::membership::Membership;
use crate::exchange::message::Failure;
use crate::exchange::refusal::Refusal;
use crate::ids::CallId;
use crate::status::Status;
use crate::time::{Duration, Time};

/// A process of an exchange, as the scheduler sees it.
#[derive(Clone, Debug)]
pub struct Member {
    pub(super) settings: Settings,
    pub(super) standing: Standing,
    pub(super) way: Way,
    pub(super) last_connection: u64,
    /// The pause before the next attempt to connect.
    pub(super) pause: Duration,
    /// Since when the scheduler, by which the process was known, is away.
    pub(super) away: Option<Time>,
    /// Why it is.
    pub(super) why_away: Option<Status>,
    /// Its number and rank, once it has them.
    pub(super) assigned: Option<(NodeId, InstanceRank)>,
    pub(super) membership: Option<Arc<Membership>>,
    pub(super) lines: BTreeMap<Kind, Line>,
    pub(super) last_number: BarrierNumber,
    pub(super) calls: Calls,
}

impl Member {
    /// A process that has not been asked to take part.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when settings do not fit together.
    pub fn start(settings: Settings) -> Result<Self, Status> {
        settings.config.check()?;
        Ok(Self {
            standing: Standing::Idle,
            way: Way::Closed { retry: None },
            last_connection: 0,
            pause: settings.config.reconnect_pause_min,
            away: None,
            why_away: None,
            assigned: None,
            membership: None,
            lines: BTreeMap::new(),
            last_number: BarrierNumber::new(0),
            calls: Calls::default(),
            settings,
        })
    }

    /// Takes one input and pushes what must be done into `out`, in order.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Asked { call, ask } => {
                if let Err(failure) = self.asked(now, call, ask, out) {
                    out.push(Effect::Done { call, result: Err(failure) });
                }
            }
            Input::Cancel { call } => self.give_up(call, out),
            Input::Connected { connection } => self.connected(now, connection, out),
            Input::NotConnected { connection, status }
            | Input::Disconnected { connection, status } => {
                self.disconnected(now, connection, status, out);
            }
            Input::Received { connection, message } => {
                self.received(now, connection, message, out);
            }
            Input::Tick => self.look_at_times(now, out),
        }
    }

    /// When to call [`Member::step`] with [`Input::Tick`] next.
    pub fn deadline(&self) -> Option<Time> {
        let due = self.calls.dues.first().map(|(at, _)| *at);
        let patience = self.patience_ends().filter(|_| self.is_anybody_patient());
        [due, patience, self.way.deadline(&self.settings.config)].into_iter().flatten().min()
    }

    /// How it stands.
    pub const fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Its number and rank, once it takes part.
    pub const fn assigned(&self) -> Option<(NodeId, InstanceRank)> {
        self.assigned
    }

    /// Who takes part, as far as it knows.
    pub const fn membership(&self) -> Option<&Arc<Membership>> {
        self.membership.as_ref()
    }

    /// The settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Since when the scheduler is away, if it is.
    pub const fn away(&self) -> Option<Time> {
        self.away
    }

    fn asked(
        &mut self,
        now: Time,
        call: CallId,
        ask: Ask,
        out: &mut Vec<Effect>,
    ) -> Result<(), Failure> {
        let max = self.settings.config.calls_max;
        if self.calls.waiting.len() >= max {
            return Err(refused(Refusal::TooManyCalls { max }));
        }
        match ask {
            Ask::Join { timeout } => self.join(now, call, timeout, out),
            Ask::Barrier { mask, scope, timeout } => {
                self.come(now, call, (mask, scope), timeout, out)
            }
            Ask::Changed { after, timeout } => self.await_change(now, call, after, timeout, out),
            Ask::Leave => {
                self.leave(now, call, out);
                Ok(())
            }
        }
    }

    fn await_change(
        &mut self,
        now: Time,
        call: CallId,
        after: MembershipVersion,
        timeout: Option<Duration>,
        out: &mut Vec<Effect>,
    ) -> Result<(), Failure> {
        if let Some(membership) = self.membership.clone().filter(|it| it.version > after) {
            out.push(Effect::Done { call, result: Ok(Reply::Membership(membership)) });
            return Ok(());
        }
        self.check_takes_part(now)?;
        let due = timeout.map(|timeout| now.after(timeout));
        self.calls.wait(call, Place::Changed(after), now, due);
        Ok(())
    }

    /// Whether the scheduler is, or will soon be, there to be asked.
    pub(super) fn check_takes_part(&self, now: Time) -> Result<(), Failure> {
        match &self.standing {
            Standing::Idle | Standing::Joining => Err(refused(Refusal::NoMembership)),
            Standing::Leaving | Standing::Left => Err(refused(Refusal::Stopped)),
            Standing::Over(status) => Err(Failure::Refused(status.clone())),
            Standing::Joined => match self.patience_ends().filter(|at| *at <= now) {
                Some(_) => Err(Failure::Refused(self.refuse_away(now))),
                None => Ok(()),
            },
        }
    }

    /// Answers a call that waits.
    pub(super) fn answer(
        &mut self,
        call: CallId,
        result: Result<Reply, Failure>,
        out: &mut Vec<Effect>,
    ) {
        if self.calls.end(call).is_some() {
            out.push(Effect::Done { call, result });
        }
    }

    /// Answers all calls of a kind that wait.
    pub(super) fn answer_all(
        &mut self,
        which: impl Fn(Place) -> bool,
        result: &Result<Reply, Failure>,
        out: &mut Vec<Effect>,
    ) {
        while let Some(call) = self.calls.first(&which) {
            self.forget_at_barrier(call);
            self.answer(call, result.clone(), out);
        }
    }

    /// Nobody waits for a call any more.
    fn give_up(&mut self, call: CallId, out: &mut Vec<Effect>) {
        if let Some(waiting) = self.calls.end(call) {
            match waiting.place {
                Place::Barrier(kind) => self.go_away(call, kind, out),
                Place::Join => self.stop_joining_if_alone(out),
                Place::Changed(_) | Place::Leave => {}
            }
        }
    }

    fn look_at_times(&mut self, now: Time, out: &mut Vec<Effect>) {
        while let Some((_, call)) = self.calls.dues.first().copied().filter(|(at, _)| *at <= now) {
            self.expire(now, call, out);
        }
        if self.patience_ends().is_some_and(|at| at <= now) {
            let result = Err(Failure::Refused(self.refuse_away(now)));
            let needs_scheduler = |place| matches!(place, Place::Barrier(_) | Place::Changed(_));
            self.answer_all(needs_scheduler, &result, out);
        }
        self.look_at_way(now, out);
    }

    /// A call has waited long enough.
    fn expire(&mut self, now: Time, call: CallId, out: &mut Vec<Effect>) {
        let Some(waiting) = self.calls.waiting.get(&call).copied() else {
            return;
        };
        let after = now.since(waiting.since);
        if waiting.place == Place::Leave {
            return self.has_left(out);
        }
        let status = match waiting.place {
            Place::Barrier((mask, _)) => refusal::not_met(mask, after),
            Place::Join => refusal::not_joined(&self.settings, after, self.why_away.as_ref()),
            Place::Changed(version) => refusal::no_change(version, after),
            Place::Leave => Refusal::Stopped.into(),
        };
        self.give_up(call, out);
        out.push(Effect::Done { call, result: Err(Failure::Refused(status)) });
    }

    /// When calls that need the scheduler fail, if it is not back before.
    pub(super) fn patience_ends(&self) -> Option<Time> {
        Some(self.away?.after(self.settings.scheduler_patience?))
    }

    fn is_anybody_patient(&self) -> bool {
        self.calls.first(|it| matches!(it, Place::Barrier(_) | Place::Changed(_))).is_some()
    }

    fn refuse_away(&self, now: Time) -> Status {
        let since = self.away.unwrap_or(now);
        refusal::away(now.since(since), self.settings.scheduler_patience, self.why_away.as_ref())
    }
}

/// A failure of this kind.
pub(super) fn refused(refusal: Refusal) -> Failure {
    Failure::Refused(refusal.into())
}
