//! Connections show signs of life: a call that nobody carries any more is noticed at both ends after a while.

use rondo_core::status::{Code, Status};

use super::World;
use super::event::Event;
use super::letter::{CallOf, Letter};
use crate::workload::Role;

/// Between two looks, in ns.
const KEEPALIVE_NS: u64 = 20_000_000_000;

impl World {
    /// The first look, in runs in which somebody may wait without a bound.
    pub(super) fn begin_keepalive(&mut self) {
        if self.swarm.coordination.is_some() {
            self.queue.plan(self.now_ns.saturating_add(KEEPALIVE_NS), Event::Keepalive);
        }
    }

    /// Looks for calls that were lost, and for answers that nobody waits for.
    pub(super) fn keepalive(&mut self) {
        for of in self.calls_of_nobody() {
            let answer =
                Err(Status::new(Code::Unavailable, "the connection shows no sign of life"));
            self.plan_letter(self.now_ns, of.actor + 1, of.actor + 1, Letter::Reply { of, answer });
        }
        for of in self.answers_for_nobody() {
            self.cancel(of);
        }
        self.relays_keepalive();
        self.begin_keepalive();
    }

    /// Calls of tasks that neither the node has nor the network carries.
    fn calls_of_nobody(&self) -> Vec<CallOf> {
        let machines = self.actors.iter().zip(0_u32..);
        let tasks = machines
            .filter(|(machine, _)| machine.role == Role::Task && machine.actor.relay().is_none());
        let open = tasks.flat_map(|(machine, actor)| {
            let of = move |token| CallOf { actor, life: machine.life, token };
            machine.open.iter().map(move |(token, _)| of(*token))
        });
        let had = |of: &CallOf| self.node.waiting.values().any(|waits| waits == of);
        open.filter(|of| !had(of) && !self.letters.carry(*of)).collect()
    }

    /// Calls that the node keeps for tasks which do not wait any more.
    fn answers_for_nobody(&self) -> Vec<CallOf> {
        let given_up = |of: &&CallOf| {
            self.actors.get(of.actor as usize).is_some_and(|machine| {
                let waits = machine.open.iter().any(|(token, _)| *token == of.token);
                machine.role == Role::Task && !(machine.life == of.life && waits)
            })
        };
        match self.node.node.is_some() {
            true => self.node.waiting.values().filter(given_up).copied().collect(),
            false => Vec::new(),
        }
    }
}
