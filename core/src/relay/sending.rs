//! What goes on by itself: calls are sent, answered from what is known, or given up.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::machine::Relay;
use super::refusal;
use super::types::{Answer, Effect, Event, Forwarding, Kind, Link, Refused};
use super::upstream::Outage;
use crate::ids::{CallId, ServiceIncarnation};
use crate::limits::RELAY_CALLS_PER_STEP_MAX;
use crate::time::Time;

impl Relay {
    /// Does what can be done now, a bounded part of it.
    pub(super) fn proceed(&mut self, now: Time, out: &mut Vec<Effect>) {
        let mut budget = RELAY_CALLS_PER_STEP_MAX;
        self.let_go(&mut budget, out);
        self.stand_in(now, &mut budget, out);
        self.look_at_silence(now, out);
        match self.upstream.link() {
            Some(link) => self.send(now, link, &mut budget, out),
            None => self.endure(now, &mut budget, out),
        }
        self.busy = (budget == 0).then_some(now);
    }

    /// When a server that is there has answered nothing for too long.
    pub(super) fn silence_ends(&self) -> Option<Time> {
        self.upstream.silence_ends(self.calls.asked_since(), self.config.patience)
    }

    /// Gives up a connection on which the server has answered nothing for too long. A server that takes
    /// calls and never answers would else stay hidden: heartbeats are answered in its place.
    fn look_at_silence(&mut self, now: Time, out: &mut Vec<Effect>) {
        if self.silence_ends().is_none_or(|at| at > now) {
            return;
        }
        let reason: Arc<str> = "it takes calls and answers none".into();
        let asked = self.calls.asked_since();
        if let Some(link) = self.upstream.fell_silent(now, asked, reason.clone()) {
            self.abandon(link, reason, out);
        }
    }

    /// Refuses calls because the relay is to end.
    fn let_go(&mut self, budget: &mut usize, out: &mut Vec<Effect>) {
        while let Some(call) = take(budget, || self.leaving.pop_first()) {
            let sent = self.calls.in_flight.contains(&call);
            if sent {
                out.push(Effect::Withdraw { call });
            }
            self.refuse(call, refusal::stopping(), out);
        }
    }

    /// Answers heartbeats over which the server takes too long. The oldest of each run of a task stays
    /// sent: what the server says in the end still matters. The others are taken back.
    fn stand_in(&mut self, now: Time, budget: &mut usize, out: &mut Vec<Effect>) {
        while let Some((_, call)) = take(budget, || {
            let due = self.calls.alarms.first().copied().filter(|(at, _)| *at <= now)?;
            self.calls.alarms.remove(&due);
            Some(due)
        }) {
            if let Some(life) = self.known_of(call) {
                self.answer_heartbeat(call, life, out);
                if !self.leave_with_server(call) {
                    self.end(call);
                    out.push(Effect::Withdraw { call });
                }
            }
        }
    }

    fn send(&mut self, now: Time, link: Link, budget: &mut usize, out: &mut Vec<Effect>) {
        let alarm = now.after(self.config.heartbeat_patience);
        while let Some(call) = take(budget, || self.calls.queue.first().copied()) {
            let Some(pending) = self.calls.send(now, call, alarm) else {
                continue;
            };
            let forwarding = Forwarding {
                path: pending.asked.path.clone(),
                message: pending.asked.message.clone(),
                peer: pending.asked.peer.clone(),
                stamp: pending.number.map(|number| self.lanes.stamp(number)),
                task: pending.identity.task,
                incarnation: pending.identity.incarnation,
                life: pending.identity.life,
                waits: pending.waits,
            };
            out.push(Effect::Forward { link, call, forwarding });
        }
    }

    /// The server is away.
    fn endure(&mut self, now: Time, budget: &mut usize, out: &mut Vec<Effect>) {
        if self.upstream.next_try().is_some_and(|at| at <= now) {
            let link = self.upstream.begin_try();
            out.push(Effect::Reach { link });
        }
        let Some(outage) = self.upstream.outage() else {
            return;
        };
        if now >= self.patience_ends(outage) {
            return self.give_up(now, budget, out);
        }
        while let Some(call) = take(budget, || self.calls.heartbeats.pop_first()) {
            if let Some(life) = self.known_of(call) {
                self.answer_heartbeat(call, life, out);
                self.end(call);
            }
        }
    }

    fn give_up(&mut self, now: Time, budget: &mut usize, out: &mut Vec<Effect>) {
        let Some(outage) = self.upstream.outage().filter(|_| !self.calls.queue.is_empty()) else {
            return;
        };
        let refused = refusal::away(&self.config, outage, now);
        if !outage.given_up {
            let reason = refused.message.as_str().into();
            out.push(Effect::Observe(Event::GaveUp { reason }));
            self.upstream.give_up();
        }
        while let Some(call) = take(budget, || self.calls.queue.first().copied()) {
            self.refuse(call, refused.clone(), out);
        }
    }

    pub(super) fn patience_ends(&self, outage: &Outage) -> Time {
        outage.since.after(self.config.patience)
    }

    fn refuse(&mut self, call: CallId, refused: Refused, out: &mut Vec<Effect>) {
        if self.end(call).is_some_and(|pending| pending.waits) {
            out.push(Effect::Reply { call, result: Err(refused) });
        }
    }

    /// The life that the task of a heartbeat may be told of.
    fn known_of(&self, call: CallId) -> Option<ServiceIncarnation> {
        let pending = self.calls.calls.get(&call)?;
        match &pending.asked.kind {
            Kind::Heartbeat(who) => self.clients.known(who),
            _ => None,
        }
    }

    fn answer_heartbeat(&self, call: CallId, life: ServiceIncarnation, out: &mut Vec<Effect>) {
        out.push(Effect::Reply { call, result: Ok(Answer::Heartbeat(life)) });
        if let Some(Kind::Heartbeat(who)) =
            self.calls.calls.get(&call).map(|pending| &pending.asked.kind)
        {
            let task = who.task.clone();
            out.push(Effect::Observe(Event::HeartbeatAnswered { task }));
        }
    }
}

/// The next one, as long as the budget lasts.
fn take<T>(budget: &mut usize, next: impl FnOnce() -> Option<T>) -> Option<T> {
    let left = budget.checked_sub(1)?;
    let next = next()?;
    *budget = left;
    Some(next)
}
