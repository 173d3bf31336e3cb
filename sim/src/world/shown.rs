//! What actors do that nobody in the world sees: it is for oracles, and for timelines.

use rondo_core::ids::{ClientId, IterationId, TaskId};
use rondo_core::status::Status;
use rondo_core::time::Time;

use super::World;
use super::machine::Being;
use crate::mark::Mark;
use crate::oracle::Seen;
use crate::trace::LineKind;
use crate::workload::agents::OfAgent;
use crate::workload::{Delivered, OfReader};

impl World {
    pub(super) fn agent(&mut self, actor: u32, what: &OfAgent) {
        let machine = self.actors.get(actor as usize);
        let at = machine.map_or(Time::ZERO, |machine| machine.clock.shows(self.now_ns));
        if !matches!(what, OfAgent::Looked { .. }) {
            let (now_ns, lane) = (self.now_ns, actor + 1);
            self.trace.line(now_ns, lane, LineKind::Note, || format!("agent: {what:?}"));
        }
        self.see(&Seen::Agent { actor, at, what });
    }

    pub(super) fn delivered(&mut self, actor: u32, what: &Delivered) {
        let (now_ns, lane) = (self.now_ns, actor + 1);
        self.trace.hash(now_ns, 0x0e, what.place.rotate_left(32) ^ what.first);
        self.trace.line(now_ns, lane, LineKind::Note, || format!("{what:?}"));
        if self.is_of_this_disk(actor) {
            self.see(&Seen::Delivered(what));
        }
    }

    pub(super) fn reads(&mut self, actor: u32, client: ClientId, what: &OfReader) {
        let (now_ns, lane) = (self.now_ns, actor + 1);
        self.trace.line(now_ns, lane, LineKind::Note, || format!("reader {client}: {what:?}"));
        if self.is_of_this_disk(actor) {
            self.see(&Seen::Reads { client, what });
        }
    }

    pub(super) fn read_ended(
        &mut self,
        actor: u32,
        client: Option<ClientId>,
        result: &Result<(), Status>,
    ) {
        let (now_ns, lane) = (self.now_ns, actor + 1);
        self.trace.hash(now_ns, 0x0f, u64::from(result.is_ok()));
        self.trace.line(now_ns, lane, LineKind::Note, || {
            format!("reader {client:?} has read all: {result:?}")
        });
        if self.is_of_this_disk(actor) {
            self.see(&Seen::ReadEnded { client, result });
        }
    }

    pub(super) fn round_read(
        &mut self,
        actor: u32,
        (iteration, consumer, round): (IterationId, i64, i64),
        tasks: &[TaskId],
    ) {
        let paused = self.actors.iter().any(|machine| machine.being == Being::Paused);
        if paused {
            self.tally.mark(Mark::RoundBesidePause);
        }
        let (now_ns, lane) = (self.now_ns, actor + 1);
        self.trace.hash(now_ns, 0x0d, round.cast_unsigned());
        self.trace.line(now_ns, lane, LineKind::Note, || {
            format!("consumer {consumer} has read round {round} of {iteration}: {tasks:?}")
        });
        if self.is_of_this_disk(actor) {
            self.see(&Seen::RoundRead { actor, iteration, consumer, round, tasks });
        }
    }

    /// Whether an actor has begun on the node's present disk: on another one ids stand for something else.
    pub(super) fn is_of_this_disk(&self, actor: u32) -> bool {
        self.actors.get(actor as usize).is_some_and(|of| of.disk == self.node.disks)
    }
}
