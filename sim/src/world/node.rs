//! The node takes steps: inputs in, effects carried out in order, the journal written and synced.

use rondo_core::control::{Effect, Event as Observed, Health, Input, Reply, Request};
use rondo_core::coordination;
use rondo_core::dispatcher::{self, TaskDef};
use rondo_core::ids::{CallId, Lsn};
use rondo_core::status::Status;

use super::event::Event;
use super::letter::{CallOf, Letter, NODE};
use super::untouched::{changed, leaves_no_trace_refused, refused_for_nothing};
use super::{Phase, World, see};
use crate::cost;
use crate::fault::Fault;
use crate::mark::Mark;
use crate::oracle::{Caller, Seen};
use crate::process::{CompactionStep, Offered, reread};
use crate::trace::{LineKind, of_call, of_request};
use crate::watch;
use crate::workload::Role;

/// Calls to the coordination service have numbers from here on, so that a call's number tells whose
/// it is when nobody waits for it any more.
pub(super) const COORDINATION_CALLS: u64 = 1 << 62;
/// Steps between two comparisons with the stored bytes.
const REREAD_EVERY: u64 = 1000;
/// Steps between two that compare the dispatcher before and after a call that may be refused.
const LOOK_EVERY: u64 = 509;

impl World {
    /// The node takes a call, or a copy of one, sent by somebody who spoke for this disk of its.
    pub(super) fn take(&mut self, of: CallOf, (copy, disk): (bool, u32), request: Request) {
        let call = self.number_call(&request);
        self.node.waiting.insert(call, of);
        let by = self.caller(of, (copy, disk));
        self.take_numbered(call, by, copy, request);
    }

    /// The node's own number for a call.
    pub(super) fn number_call(&mut self, request: &Request) -> CallId {
        let first = match request {
            Request::Dispatcher(_) => 0,
            Request::Coordination(_) => COORDINATION_CALLS,
        };
        let call = CallId::new(first.saturating_add(self.node.next_call));
        self.node.next_call = self.node.next_call.saturating_add(1);
        call
    }

    /// The node takes a call that has its number.
    pub(super) fn take_numbered(&mut self, call: CallId, by: Caller, copy: bool, request: Request) {
        let number = match &request {
            Request::Dispatcher(request) => of_request(request),
            Request::Coordination(request) => of_call(request),
        };
        self.trace.hash(self.now_ns, call.get(), number);
        let now_ns = self.now_ns;
        self.trace.line(now_ns, NODE, LineKind::Input, || {
            format!(
                "call {call} of actor {}{}: {request:?}",
                by.actor,
                if copy { " again" } else { "" }
            )
        });
        match &request {
            Request::Dispatcher(request) => self.see(&Seen::Taken { call, by, request }),
            Request::Coordination(coordination::Request::Call(asked)) => {
                self.see(&Seen::Asked { call, by, asked });
            }
            // A picture promises nothing.
            Request::Coordination(coordination::Request::Report) => {}
        }
        if let Request::Dispatcher(dispatcher::Request::WorkerHeartbeat(heartbeat)) = &request {
            self.patience.hear(self.node.clock.shows(self.now_ns), heartbeat);
        }
        // No two are the same, also where a tape has only zeros.
        let entropy = self.node.stream.below(u64::MAX) ^ call.get().rotate_left(32);
        self.step(Input::Request { call, request, entropy }, Some(call));
        self.settle();
    }

    fn caller(&self, of: CallOf, (copy, disk): (bool, u32)) -> Caller {
        let machine = self.actors.get(of.actor as usize);
        let waits = machine.is_some_and(|machine| {
            machine.life == of.life && machine.open.iter().any(|(token, _)| *token == of.token)
        });
        // What was sent by somebody who had joined before the disk was replaced speaks for others
        // without knowing it, whatever its sender has joined since.
        let is_rogue = machine.is_none_or(|machine| machine.role == Role::Rogue);
        let honest = !is_rogue && disk == self.node.disks;
        Caller { actor: of.actor, life: of.life, honest, stale: copy || !waits, relay: None }
    }

    /// Somebody does not wait any more.
    pub(super) fn cancel(&mut self, of: CallOf) {
        let found = self.node.waiting.iter().find(|(_, waits)| **waits == of);
        let Some(call) = found.map(|(call, _)| *call) else {
            self.tally.mark(Mark::CancelledTooLate);
            return;
        };
        self.node.waiting.remove(&call);
        if self.node.disk.free_bytes().is_some() {
            self.tally.mark(Mark::CancelledWhileFull);
        }
        self.step(Input::Cancel { call }, None);
        self.see(&Seen::GivenUp { call });
        self.settle();
    }

    /// One step, and its effects.
    pub(super) fn step(&mut self, input: Input, during: Option<CallId>) {
        let now = self.node_time();
        let Some(node) = &mut self.node.node else {
            return;
        };
        let mut effects = std::mem::take(&mut self.effects);
        let is_time = self.options.strict || self.steps.is_multiple_of(LOOK_EVERY);
        let is_looked_at = is_time && leaves_no_trace_refused(&input);
        let before = is_looked_at.then(|| node.clone());
        let measured = cost::begin(&input);
        node.step(now, input, &mut effects);
        let worked = measured.map(|step| step.end(&effects));
        let refused = before.zip(refused_for_nothing(&effects, during));
        let changed = refused.and_then(|(before, call)| Some((call, changed(before, node, now)?)));
        if let Some((blocks, characters)) = worked {
            let world = (&mut self.oracles, &mut self.watch, &mut self.tally, &mut self.broken);
            see(now, self.now_ns, &Seen::Worked { blocks, characters, node }, world);
        }
        self.steps += 1;
        self.stepping = true;
        for effect in effects.drain() {
            // The process may die on the way.
            if self.node.node.is_some() {
                self.perform(effect, during);
            }
        }
        self.stepping = false;
        self.effects = effects;
        if let Some((call, changed)) = changed {
            self.see(&Seen::Refused { call, changed });
        }
        self.look();
    }

    fn perform(&mut self, effect: Effect, during: Option<CallId>) {
        if self.boundary(Mark::DiedWithUnsynced) {
            return;
        }
        match effect {
            Effect::Append { lsn, record } => self.append(lsn, &record, during),
            Effect::Sync { upto } => {
                if let Some(journal) = &mut self.node.journal {
                    journal.want(upto);
                }
            }
            Effect::RetryAppend => self.node.retry = true,
            Effect::Reply { call, result } => self.answer(call, result),
            Effect::Push { task } => self.push(task),
            Effect::ForgetBlob { .. } => self.tally.mark(Mark::BlobForgotten),
            Effect::Observe(Observed::Dispatcher(event)) => {
                watch::of_event(&event, &mut self.tally);
                self.mark_full(&event);
            }
            Effect::Observe(Observed::Coordination(event)) => {
                watch::of_coordination_event(&event, &mut self.tally);
            }
            Effect::Halt { reason } => self.halt(&reason),
        }
    }

    fn append(&mut self, lsn: Lsn, record: &rondo_core::control::Record, during: Option<CallId>) {
        let Some(journal) = &mut self.node.journal else {
            return;
        };
        self.trace.hash(self.now_ns, 0xad, lsn.get());
        self.trace.hasher().add_bytes(journal.collect(lsn, record));
        let now_ns = self.now_ns;
        self.trace.line(now_ns, NODE, LineKind::Record, || format!("record {lsn}: {record:?}"));
        self.see(&Seen::Recorded { lsn, record, during });
    }

    fn answer(&mut self, call: CallId, answer: Result<Reply, Status>) {
        let now_ns = self.now_ns;
        self.trace.line(now_ns, NODE, LineKind::Effect, || format!("call {call} gets {answer:?}"));
        let answer = self.show_answer(call, answer);
        if self.node.relays.has(call) {
            return self.answer_relayed(call, answer);
        }
        let Some(of) = self.node.waiting.remove(&call) else {
            return;
        };
        if self.faults_on() && self.chance(Fault::ReplyLost, 10) {
            return self.struck(Fault::ReplyLost, NODE, || format!("of call {call}"));
        }
        let is_of_dispatcher = call.get() < COORDINATION_CALLS;
        let status = if is_of_dispatcher { self.proxy_answers(NODE) } else { None };
        let answer = status.map_or(answer, Err);
        self.post(NODE, of.actor + 1, Letter::Reply { of, answer });
    }

    fn push(&mut self, task: TaskDef) {
        self.see(&Seen::Pushed(&task));
        let at = |machine: &super::ActorMachine| {
            machine.actor.address().is_some_and(|address| address == task.worker_address)
        };
        let Some(place) = self.actors.iter().position(at) else {
            return;
        };
        let actor = u32::try_from(place).unwrap_or(0);
        self.post(NODE, actor + 1, Letter::Push { actor, task });
    }

    fn halt(&mut self, reason: &str) {
        let disk_failed = self.node.disk_failed;
        if disk_failed {
            self.tally.mark(Mark::HaltedAfterSync);
        }
        self.see(&Seen::Halted { reason, disk_failed });
        self.die(false);
    }

    /// How far the disk has said that the journal is durable.
    pub(super) fn durable(&self) -> Lsn {
        self.oracles.shadow().durable()
    }

    /// Whether the process dies here, and if so lets it.
    pub(super) fn boundary(&mut self, mark: Mark) -> bool {
        let Some((left, power)) = &mut self.node.dies_in else {
            return false;
        };
        if *left > 0 {
            *left -= 1;
            return false;
        }
        let power = *power;
        self.tally.mark(mark);
        self.struck(Fault::KillAtEffect, NODE, || format!("{mark}"));
        self.die(power);
        true
    }

    /// Writes what the last inputs brought, starts what must be started.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.node.retry) {
            self.write_again();
        }
        self.write();
        let durable = self.durable();
        let Some(journal) = &mut self.node.journal else {
            return;
        };
        if journal.begin_sync(&self.node.disk, durable) {
            self.plan_sync();
        }
        self.keep_short(durable);
        self.plan_tick();
        if self.reread_due {
            self.reread();
        }
    }

    fn write(&mut self) {
        let durable = self.durable();
        let Some(journal) = self.node.journal.as_mut().filter(|journal| journal.should_write())
        else {
            return;
        };
        let fails = self.swarm.faults.strength(Fault::WriteFails) / 100;
        if self.phase == Phase::Struck && self.node.disk_stream.chance(fails) {
            self.struck(Fault::WriteFails, NODE, String::new);
            return self.disk_fails("the write failed");
        }
        let offered = journal.write(&mut self.node.disk, durable, self.node.lacks);
        self.offered(offered);
    }

    fn offered(&mut self, offered: Offered) {
        match offered {
            Offered::Nothing => {}
            Offered::Written(count) => {
                if count > 2 {
                    self.tally.mark(Mark::GroupOfMany);
                }
                self.boundary(Mark::DiedBetweenAppendAndSync);
            }
            Offered::Refused { from, reason } => {
                self.tally.mark(Mark::UpdatesRefused);
                let serving =
                    self.node.node.as_ref().is_some_and(|n| *n.health() == Health::Serving);
                if serving {
                    self.step(Input::AppendRefused { from, reason: reason.into() }, None);
                }
            }
            Offered::Failed => self.disk_fails("the journal cannot be written"),
        }
    }

    fn write_again(&mut self) {
        let Some(journal) = &mut self.node.journal else {
            return;
        };
        let offered = journal.write_again(&mut self.node.disk, self.node.lacks);
        let taken = matches!(offered, Offered::Written(_));
        self.offered(offered);
        if taken {
            self.tally.mark(Mark::UpdatesAccepted);
            self.step(Input::AppendAccepted, None);
        }
    }

    fn disk_fails(&mut self, reason: &str) {
        self.node.disk_failed = true;
        self.step(Input::SyncFailed { reason: reason.into() }, None);
    }

    fn plan_sync(&mut self) {
        let shape = self.swarm.journal;
        let mut us = self.node.disk_stream.exponential(shape.sync_us_mean);
        us = us.saturating_add(shape.sync_us_min);
        if self.node.disk_slow {
            us = us.saturating_mul(30);
        }
        let at_ns = self.now_ns.saturating_add(us.saturating_mul(1000));
        let at_ns = at_ns.max(self.node.disk_stalled_until_ns);
        self.queue.plan(at_ns, Event::Synced(self.node.life));
    }

    /// A sync ends.
    pub(super) fn synced(&mut self, life: u64) {
        if life != self.node.life {
            return;
        }
        let Some(sync) = self.node.journal.as_mut().and_then(|journal| journal.take_sync()) else {
            return;
        };
        self.trace.hash(self.now_ns, 0x5c, sync.upto.get());
        if self.faults_on() && self.chance(Fault::SyncFails, 100) {
            self.struck(Fault::SyncFails, NODE, || format!("up to record {}", sync.upto));
            sync.fail(&mut self.node.disk, &mut self.node.disk_stream);
            self.disk_fails("the sync failed");
            return self.settle();
        }
        if self.faults_on() && self.chance(Fault::SyncLies, 20) {
            self.struck(Fault::SyncLies, NODE, || format!("up to record {}", sync.upto));
            sync.lie(&mut self.node.disk);
        } else {
            sync.end(&mut self.node.disk);
        }
        if self.boundary(Mark::DiedBetweenSyncAndReply) {
            return;
        }
        self.see(&Seen::Durable(sync.upto));
        self.step(Input::Synced { upto: sync.upto }, None);
        self.settle();
    }

    /// Marks how far the journal is durable, and closes a segment that is long enough.
    fn keep_short(&mut self, durable: Lsn) {
        let Some(journal) = &mut self.node.journal else {
            return;
        };
        // No caller waits for a mark, so a lack leaves it out.
        if !self.node.lacks && journal.mark(&mut self.node.disk, durable).is_err() {
            return self.disk_fails("the journal cannot be marked");
        }
        if journal.close_if_due(durable) {
            self.tally.mark(Mark::SegmentClosed);
            self.plan_compaction();
        }
    }

    fn plan_compaction(&mut self) {
        let us = self.swarm.journal.sync_us_min.saturating_add(self.swarm.journal.sync_us_mean);
        let at_ns = self.now_ns.saturating_add(us.saturating_mul(1000));
        self.queue.plan(at_ns, Event::Compact(self.node.life));
    }

    /// The snapshot goes on by a step.
    pub(super) fn compact(&mut self, life: u64) {
        if life != self.node.life {
            return;
        }
        let Some(journal) = &mut self.node.journal else {
            return;
        };
        match journal.compact(&mut self.node.disk) {
            Ok(CompactionStep::Done) => self.tally.mark(Mark::SnapshotSwitched),
            Ok(_) => self.plan_compaction(),
            // Without room or with damage it is given up: the segments behind it stay.
            Err(_) => {}
        }
    }

    /// The node wants to be woken.
    pub(super) fn tick(&mut self) {
        if self.now_ns < self.node.tick_at_ns {
            return;
        }
        self.node.tick_at_ns = u64::MAX;
        if self.node.node.is_none() || self.node.being != super::machine::Being::Up {
            return;
        }
        self.step(Input::Tick, None);
        self.settle();
    }

    pub(super) fn plan_tick(&mut self) {
        let Some((at, _)) = self.node.node.as_ref().and_then(|node| node.deadline()) else {
            return;
        };
        let at_ns = self.node.clock.when(at).max(self.now_ns);
        if at_ns < self.node.tick_at_ns {
            self.node.tick_at_ns = at_ns;
            self.queue.plan(at_ns, Event::Tick);
        }
    }

    /// Looks at the node now and then.
    fn look(&mut self) {
        let due = self.options.strict || self.steps.is_multiple_of(self.swarm.look_every);
        if due {
            self.look_now();
        }
        self.reread_due |= self.steps.is_multiple_of(REREAD_EVERY);
    }

    pub(super) fn look_now(&mut self) {
        let now = self.node_time();
        if let Some(node) = &self.node.node {
            let world = (&mut self.oracles, &mut self.watch, &mut self.tally, &mut self.broken);
            see(now, self.now_ns, &Seen::Looked(node), world);
        }
    }

    /// Compares with what the stored bytes give, when everything is written and nothing damaged.
    fn reread(&mut self) {
        let whole = self.node.journal.as_ref().is_some_and(|journal| journal.is_written());
        if whole && !self.node.disk.is_damaged() && self.node.node.is_some() {
            self.reread_due = false;
            let reread = reread(&self.node.disk);
            self.see(&Seen::Reread(&reread));
        }
    }

    pub(super) fn faults_on(&self) -> bool {
        self.phase == Phase::Struck
    }

    /// Whether a fault that is on strikes; `divisor` makes it rarer.
    pub(super) fn chance(&mut self, fault: Fault, divisor: u32) -> bool {
        let per_mille = self.swarm.faults.strength(fault).div_ceil(divisor);
        self.call_stream.chance(per_mille)
    }
}
