//! The scheduler's machine: takes what happens, and says what to do.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::barriers::Meetings;
use super::links::Links;
use super::observing::Observers;
use super::report::Phase;
use super::seat::{Gone, Peer, Seat};
use super::telling::Telling;
use super::types::{Ask, Effect, Input, Settings};
use crate::exchange::ids::MembershipVersion;
use crate::exchange::membership::{Membership, Sizes, State};
use crate::exchange::message::{Failure, Register};
use crate::exchange::refusal::Refusal;
use crate::ids::{CallId, ConnectionId};
use crate::status::Status;
use crate::time::Time;

/// A process that waits for the place of another one.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub(super) connection: ConnectionId,
    pub(super) register: Register,
}

/// What to look at when its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// Whether anything was heard through a connection.
    Link(ConnectionId),
    /// Whether a process has connected again.
    Seat(Peer),
    /// Whether all have registered.
    Bootstrap,
    /// Whether a call of this process has waited long enough.
    Call(CallId),
}

/// The scheduler of an exchange.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(super) settings: Settings,
    /// How many take part, as soon as somebody has said it.
    pub(super) sizes: Option<Sizes>,
    pub(super) phase: Phase,
    pub(super) version: MembershipVersion,
    /// The last membership of an exchange that is over: it does not come back.
    pub(super) over: MembershipVersion,
    pub(super) seats: BTreeMap<Peer, Seat>,
    /// Seats of processes that take part to which there is no way now.
    pub(super) broken: usize,
    /// Until when all should have registered.
    pub(super) bootstrap: Option<Time>,
    /// Whether seats differ from what everybody was told, or is about to be.
    pub(super) is_changed: bool,
    pub(super) links: Links,
    pub(super) parked: BTreeMap<Peer, Parked>,
    /// What processes were told of who is gone, each list once, until all that can be back are.
    pub(super) told_gone: BTreeSet<Gone>,
    pub(super) alarms: BTreeSet<(Time, Alarm)>,
    pub(super) meetings: Meetings,
    pub(super) telling: Telling,
    pub(super) observers: Observers,
    /// Calls of this process that wait until all have registered, and until all is over.
    pub(super) ready: BTreeSet<CallId>,
    pub(super) ended: BTreeSet<CallId>,
    /// Since when there is more to do at once.
    pub(super) busy: Option<Time>,
}

impl Scheduler {
    /// A scheduler that nobody has registered with.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when settings do not fit together.
    pub fn start(settings: Settings) -> Result<Self, Status> {
        settings.config.check()?;
        if let Some(sizes) = settings.sizes {
            super::refusal::check_sizes(sizes, &settings.config)?;
        }
        Ok(Self {
            sizes: settings.sizes,
            phase: Phase::Gathering,
            version: MembershipVersion::new(0),
            over: MembershipVersion::new(0),
            seats: BTreeMap::new(),
            broken: 0,
            bootstrap: None,
            is_changed: false,
            links: Links::default(),
            parked: BTreeMap::new(),
            told_gone: BTreeSet::new(),
            alarms: BTreeSet::new(),
            meetings: Meetings::default(),
            telling: Telling::default(),
            observers: Observers::default(),
            ready: BTreeSet::new(),
            ended: BTreeSet::new(),
            busy: None,
            settings,
        })
    }

    /// Takes one input and pushes what must be done into `out`, in order.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Connected { connection } => self.connected(now, connection, out),
            Input::Received { connection, message } => {
                self.received(now, connection, message, out);
            }
            Input::Disconnected { connection } => self.disconnected(now, connection),
            Input::Asked { call, ask } => {
                if let Err(status) = self.asked(now, call, ask, out) {
                    out.push(Effect::Done { call, result: Err(Failure::Refused(status)) });
                }
            }
            Input::Cancel { call } => self.cancel(call),
            Input::Tick => self.look_at_times(now, out),
        }
        self.settle(now, out);
    }

    /// When to call [`Scheduler::step`] with [`Input::Tick`] next.
    pub fn deadline(&self) -> Option<Time> {
        let alarm = self.alarms.first().map(|(at, _)| *at);
        [self.busy, alarm].into_iter().flatten().min()
    }

    /// The settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Who takes part, as it was told last; `None` before all have registered.
    pub const fn membership(&self) -> Option<&Arc<Membership>> {
        self.telling.membership.as_ref()
    }

    /// Does what follows from what has happened, as much of it as one step may.
    fn settle(&mut self, now: Time, out: &mut Vec<Effect>) {
        match self.phase {
            Phase::Gathering => self.begin_if_complete(out),
            Phase::Rebuilding => self.finish_if_complete(now, out),
            Phase::Running => {}
        }
        if self.phase == Phase::Running {
            self.publish();
            self.meet(out);
            self.end_if_empty(now, out);
        }
        self.tell(out);
        self.end_questions(out);
        self.busy = self.telling.is_pending().then_some(now);
    }

    fn asked(
        &mut self,
        now: Time,
        call: CallId,
        ask: Ask,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        let waiting = self.ready.len().saturating_add(self.ended.len());
        let max = self.settings.config.calls_max;
        if waiting.saturating_add(self.meetings.own_calls()) >= max {
            return Err(Refusal::TooManyCalls { max }.into());
        }
        match ask {
            Ask::Ready if self.phase == Phase::Running => {
                out.push(Effect::Done { call, result: Ok(()) });
            }
            Ask::Ready => {
                self.ready.insert(call);
                self.expect_bootstrap(now);
            }
            Ask::Barrier { mask, scope, timeout } => {
                self.come_itself(now, call, (mask, scope), timeout)?;
            }
            // The last one may be over already, and no other have begun.
            Ask::Ended if self.over == self.version && self.version.get() > 0 => {
                out.push(Effect::Done { call, result: Ok(()) });
            }
            Ask::Ended => {
                self.ended.insert(call);
            }
        }
        Ok(())
    }

    fn cancel(&mut self, call: CallId) {
        self.ready.remove(&call);
        self.ended.remove(&call);
        self.go_away_itself(call);
    }

    /// The processes that take part.
    pub(super) fn up(&self) -> impl Iterator<Item = (&Peer, &Seat)> {
        self.seats.iter().filter(|(_, seat)| seat.state == State::Up)
    }

    /// Whether there is a way to everybody who takes part.
    pub(super) const fn is_all_connected(&self) -> bool {
        self.broken == 0
    }
}
