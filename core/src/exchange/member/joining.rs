//! How a process begins to take part, and how that ends.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::calls::Place;
use super::connecting::Way;
use super::machine::{Member, refused};
use super::types::{Effect, Event, Reply, Standing};
use crate::exchange::ids::{InstanceRank, NodeId};
use crate::exchange::membership::Membership;
use crate::exchange::message::{Failure, Passed, ToScheduler};
use crate::exchange::refusal::Refusal;
use crate::ids::CallId;
use crate::status::Status;
use crate::time::{Duration, Time};

impl Member {
    /// The application wants to take part.
    pub(super) fn join(
        &mut self,
        now: Time,
        call: CallId,
        timeout: Option<Duration>,
        out: &mut Vec<Effect>,
    ) -> Result<(), Failure> {
        match &self.standing {
            Standing::Idle | Standing::Joining => {}
            Standing::Joined => {
                out.extend(self.joined().map(|reply| Effect::Done { call, result: Ok(reply) }));
                return Ok(());
            }
            Standing::Leaving | Standing::Left => return Err(refused(Refusal::Stopped)),
            Standing::Over(status) => return Err(Failure::Refused(status.clone())),
        }
        let timeout = timeout.or(self.settings.config.bootstrap_timeout);
        let due = timeout.map(|timeout| now.after(timeout));
        self.calls.wait(call, Place::Join, now, due);
        if self.standing == Standing::Idle {
            self.standing = Standing::Joining;
            self.connect(now, out);
        }
        Ok(())
    }

    fn joined(&self) -> Option<Reply> {
        self.assigned.map(|(node, rank)| Reply::Joined { node, rank })
    }

    /// Nobody waits any more for this process to take part: it is as if nobody had.
    pub(super) fn stop_joining_if_alone(&mut self, out: &mut Vec<Effect>) {
        let is_alone = self.calls.first(|place| place == Place::Join).is_none();
        if self.standing != Standing::Joining || !is_alone {
            return;
        }
        self.standing = Standing::Idle;
        if let Way::Open { connection, .. } = self.way {
            out.push(Effect::Send { connection, message: ToScheduler::Leave });
        }
        self.close(out);
    }

    /// The scheduler says that the process takes part, for the first time or again.
    pub(super) fn is_assigned(
        &mut self,
        now: Time,
        assigned: (NodeId, InstanceRank),
        passed: &[Passed],
        out: &mut Vec<Effect>,
    ) {
        if let Way::Open { is_assigned, .. } = &mut self.way {
            *is_assigned = true;
        }
        self.pause = self.settings.config.reconnect_pause_min;
        self.why_away = None;
        if let Some(since) = self.away.take() {
            out.push(Effect::Observe(Event::Back { after: now.since(since) }));
        }
        self.assigned = Some(assigned);
        self.learn_passed(passed);
        if self.standing == Standing::Joining {
            self.standing = Standing::Joined;
            if let Some(reply) = self.joined() {
                self.answer_all(|place| place == Place::Join, &Ok(reply), out);
            }
        }
        if self.standing == Standing::Leaving {
            self.say_leave(out);
        }
        self.send_waiting(out);
    }

    /// The scheduler says who takes part.
    pub(super) fn learn(&mut self, membership: Arc<Membership>, out: &mut Vec<Effect>) {
        if self.membership.as_ref().is_some_and(|known| known.version >= membership.version) {
            return;
        }
        let version = membership.version;
        self.membership = Some(membership.clone());
        let is_past = |place| matches!(place, Place::Changed(after) if after < version);
        self.answer_all(is_past, &Ok(Reply::Membership(membership.clone())), out);
        out.push(Effect::Membership(membership));
    }

    /// The application is done.
    pub(super) fn leave(&mut self, now: Time, call: CallId, out: &mut Vec<Effect>) {
        let is_alone = !matches!(self.standing, Standing::Joined | Standing::Leaving);
        let before = core::mem::replace(&mut self.standing, Standing::Leaving);
        let stopped = Err(refused(Refusal::Stopped));
        self.answer_all(|place| place != Place::Leave, &stopped, out);
        // The scheduler may be away: then it will find out by itself.
        let due = now.after(self.settings.config.reconnect_grace);
        self.calls.wait(call, Place::Leave, now, Some(due));
        if before == Standing::Joined {
            self.say_leave(out);
        } else if is_alone {
            if let (Standing::Joining, Way::Open { connection, .. }) = (before, self.way) {
                out.push(Effect::Send { connection, message: ToScheduler::Leave });
            }
            self.has_left(out);
        }
    }

    fn say_leave(&self, out: &mut Vec<Effect>) {
        if let Some(connection) = self.way.assigned() {
            out.push(Effect::Send { connection, message: ToScheduler::Leave });
        }
    }

    /// The process is done, and as far as possible the scheduler knows it.
    pub(super) fn has_left(&mut self, out: &mut Vec<Effect>) {
        self.standing = Standing::Left;
        self.away = None;
        self.answer_all(|_| true, &Ok(Reply::Done), out);
        self.lines.clear();
        self.close(out);
    }

    /// The scheduler does not let the process take part, or has given it up.
    pub(super) fn end(&mut self, status: Status, out: &mut Vec<Effect>) {
        self.away = None;
        if self.standing == Standing::Leaving {
            return self.has_left(out);
        }
        self.standing = Standing::Over(status.clone());
        self.answer_all(|_| true, &Err(Failure::Refused(status.clone())), out);
        self.lines.clear();
        out.push(Effect::Over(status));
    }
}
