//! The way to the scheduler: made, lost, and made again.

use alloc::vec::Vec;

use super::machine::Member;
use super::refusal;
use super::types::{Effect, Event, Standing};
use crate::exchange::config::Config;
use crate::exchange::ids::MembershipVersion;
use crate::exchange::message::{Register, ToMember, ToScheduler};
use crate::ids::ConnectionId;
use crate::status::{Code, Status};
use crate::time::Time;

/// The way to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// There is none; it is made anew then, if at all.
    Closed { retry: Option<Time> },
    /// It is being made, since then.
    Opening { connection: ConnectionId, since: Time },
    /// It is there.
    Open {
        connection: ConnectionId,
        /// Whether the scheduler has answered that the process takes part.
        is_assigned: bool,
        /// When the scheduler was heard last.
        heard: Time,
        /// When to say that the process lives.
        beat: Time,
    },
}

impl Way {
    /// When to look at it.
    pub(super) fn deadline(&self, config: &Config) -> Option<Time> {
        match self {
            Self::Closed { retry } => *retry,
            Self::Opening { since, .. } => Some(since.after(config.heartbeat_timeout)),
            Self::Open { heard, beat, .. } => {
                Some((*beat).min(heard.after(config.heartbeat_timeout)))
            }
        }
    }

    /// The connection, if there is one or will be.
    pub(super) const fn connection(&self) -> Option<ConnectionId> {
        match self {
            Self::Closed { .. } => None,
            Self::Opening { connection, .. } | Self::Open { connection, .. } => Some(*connection),
        }
    }

    /// The connection through which the scheduler knows that the process takes part.
    pub(super) const fn assigned(&self) -> Option<ConnectionId> {
        match self {
            Self::Open { connection, is_assigned: true, .. } => Some(*connection),
            _ => None,
        }
    }
}

impl Member {
    pub(super) fn connect(&mut self, now: Time, out: &mut Vec<Effect>) {
        self.last_connection = self.last_connection.saturating_add(1);
        let connection = ConnectionId::new(self.last_connection);
        self.way = Way::Opening { connection, since: now };
        out.push(Effect::Connect { connection });
    }

    pub(super) fn connected(&mut self, now: Time, connection: ConnectionId, out: &mut Vec<Effect>) {
        if !matches!(self.way, Way::Opening { connection: ours, .. } if ours == connection) {
            return;
        }
        let beat = now.after(self.settings.config.heartbeat_interval);
        self.way = Way::Open { connection, is_assigned: false, heard: now, beat };
        let message = ToScheduler::Register(self.register());
        out.push(Effect::Send { connection, message });
    }

    fn register(&self) -> Register {
        let identity = &self.settings.identity;
        let assigned = self.assigned.map(|(_, rank)| rank);
        Register {
            role: identity.role,
            rank: assigned.or(identity.rank),
            incarnation: identity.incarnation,
            addresses: identity.addresses.clone(),
            host: identity.host.clone(),
            sizes: identity.sizes,
            known: self.membership.clone(),
            passed: self.passed(),
            waiting: self.waiting(),
        }
    }

    /// There is no connection, or no more.
    pub(super) fn disconnected(
        &mut self,
        now: Time,
        connection: ConnectionId,
        status: Status,
        out: &mut Vec<Effect>,
    ) {
        if self.way.connection() != Some(connection) {
            return;
        }
        let was_open = matches!(self.way, Way::Open { .. });
        if self.standing == Standing::Leaving && !was_open {
            // The scheduler is not there to be told.
            return self.has_left(out);
        }
        // The first attempt after a break is made at once, unless the scheduler has not even answered.
        let pause = match self.way.assigned() {
            Some(_) => crate::time::Duration::ZERO,
            None => self.next_pause(),
        };
        self.way = Way::Closed { retry: Some(now.after(pause)) };
        self.forget_given_up();
        if self.assigned.is_some() {
            self.away.get_or_insert(now);
        }
        self.why_away = Some(status.clone());
        if was_open {
            out.push(Effect::Observe(Event::Away { status }));
        }
    }

    /// Each pause is twice as long as the one before, up to a bound.
    fn next_pause(&mut self) -> crate::time::Duration {
        let pause = self.pause;
        let twice = crate::time::Duration::from_nanos(pause.as_nanos().saturating_mul(2));
        self.pause = twice.min(self.settings.config.reconnect_pause_max);
        pause
    }

    pub(super) fn received(
        &mut self,
        now: Time,
        connection: ConnectionId,
        message: ToMember,
        out: &mut Vec<Effect>,
    ) {
        match &mut self.way {
            Way::Open { connection: ours, heard, .. } if *ours == connection => *heard = now,
            _ => return,
        }
        match message {
            ToMember::Assigned { node, rank, membership, passed } => {
                self.is_assigned(now, (node, rank), &passed, out);
                self.learn(membership, out);
            }
            ToMember::Rejected(status) => self.rejected(now, connection, status, out),
            ToMember::Membership(membership) => self.learn(membership, out),
            // Nobody answers a process that has not asked.
            ToMember::Heard { .. } | ToMember::Traces { .. } => {}
            ToMember::AskTraces { number, after } => {
                out.push(Effect::AskTraces { connection, number, after });
            }
            ToMember::BarrierDone { number, result } => self.met(number, result, out),
            ToMember::Left => {
                if self.standing == Standing::Leaving {
                    self.has_left(out);
                }
            }
        }
    }

    fn rejected(
        &mut self,
        now: Time,
        connection: ConnectionId,
        status: Status,
        out: &mut Vec<Effect>,
    ) {
        out.push(Effect::Close { connection });
        // Only for want of room it is worth coming again.
        let may_change = [Code::ResourceExhausted, Code::Unavailable].contains(&status.code);
        if may_change && self.standing != Standing::Leaving {
            self.disconnected(now, connection, status, out);
            let pause = self.next_pause();
            self.way = Way::Closed { retry: Some(now.after(pause)) };
        } else {
            self.way = Way::Closed { retry: None };
            self.end(status, out);
        }
    }

    /// Connects again, shows that the process lives, or finds that the scheduler does not.
    pub(super) fn look_at_way(&mut self, now: Time, out: &mut Vec<Effect>) {
        let config = &self.settings.config;
        if self.way.deadline(config).is_none_or(|at| at > now) {
            return;
        }
        let timeout = config.heartbeat_timeout;
        match &mut self.way {
            Way::Closed { .. } => self.connect(now, out),
            Way::Open { connection, heard, beat, .. } if heard.after(timeout) > now => {
                *beat = now.after(config.heartbeat_interval);
                let known = self.membership.as_ref().map(|membership| membership.version);
                let version = known.unwrap_or(MembershipVersion::new(0));
                let message = ToScheduler::Heartbeat { version };
                out.push(Effect::Send { connection: *connection, message });
            }
            Way::Opening { connection, .. } | Way::Open { connection, .. } => {
                let connection = *connection;
                out.push(Effect::Close { connection });
                self.disconnected(now, connection, refusal::silent(timeout), out);
            }
        }
    }

    /// Closes the connection, if there is one, and makes no other.
    pub(super) fn close(&mut self, out: &mut Vec<Effect>) {
        out.extend(self.way.connection().map(|connection| Effect::Close { connection }));
        self.way = Way::Closed { retry: None };
    }
}
