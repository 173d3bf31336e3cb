//! The node's process begins, dies, and begins again.

use rondo_core::control::{Config, Durability, Node};
use rondo_core::coordination;
use rondo_core::ids::Lsn;
use rondo_core::memory::Memory;
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use super::event::Event;
use super::letter::{CallOf, Letter, NODE};
use super::machine::Being;
use super::{Phase, World};
use crate::disk::CutFaults;
use crate::fault::Fault;
use crate::mark::Mark;
use crate::oracle::Seen;
use crate::process::{Begun, Recovering, put_note};
use crate::trace::LineKind;

/// One step of a recovery, in ns.
const RECOVERY_STEP_NS: u64 = 1_000_000;
/// A wall clock is set back by at most so much, in ms.
const SET_BACK_MS: u64 = 30_000;

impl World {
    /// Starts the node's process after some time.
    pub(super) fn start_node(&mut self, after_ms: u64) {
        self.node.being = Being::Down;
        self.node.recovering = Some(Recovering::new(self.node.shape));
        let at_ns = self.now_ns.saturating_add(after_ms.saturating_mul(1_000_000));
        self.queue.plan(at_ns, Event::Recover(self.node.life));
    }

    /// The recovery of a life goes on.
    pub(super) fn recover(&mut self, life: u64) {
        if life != self.node.life {
            return;
        }
        let Some(mut recovering) = self.node.recovering.take() else {
            return;
        };
        if self.faults_on() && self.chance(Fault::KillInRecovery, 3) {
            return self.die_recovering();
        }
        // After a power cut nothing tells stale last records from ones that were never written.
        let told = self.oracles.shadow().last() == self.durable();
        let exact = self.faults_on() && told && !self.node.power_was_cut;
        let stale = exact && self.chance(Fault::StaleRead, 20);
        // Without the note of how far it was acknowledged, damage to the last records cannot be told
        // from an unfinished write.
        self.node.broke_word |= self.node.power_was_cut && self.node.disk.is_damaged();
        self.node.disk.set_free_bytes(None);
        match recovering.go_on(&mut self.node.disk, stale) {
            Ok(Some(begun)) => self.serve(begun),
            Ok(None) => {
                self.node.recovering = Some(recovering);
                let at_ns = self.now_ns.saturating_add(RECOVERY_STEP_NS);
                self.queue.plan(at_ns, Event::Recover(life));
            }
            Err(reason) => self.refuse_start(&reason, stale),
        }
        if stale {
            self.struck(Fault::StaleRead, NODE, String::new);
        }
    }

    fn die_recovering(&mut self) {
        self.struck(Fault::KillInRecovery, NODE, String::new);
        self.node.recoveries_killed += 1;
        if self.node.recoveries_killed == 3 {
            self.tally.mark(Mark::RecoveryKilledThrice);
        }
        let power = self.swarm.faults.has(Fault::PowerCut) && self.node.stream.chance(500);
        self.node.life += 1;
        if power {
            self.cut_power();
        }
        self.start_node(self.swarm.journal.restart_ms);
    }

    fn refuse_start(&mut self, reason: &str, stale: bool) {
        let lost = self.node.note_before.take();
        let damaged = self.node.disk.is_damaged() || stale || lost.is_some();
        let may = damaged || self.node.broke_word;
        let now_ns = self.now_ns;
        self.trace.line(now_ns, NODE, LineKind::Note, || format!("does not start: {reason}"));
        self.see(&Seen::StartRefused { reason, damaged: may });
        self.tally.mark(Mark::DamageRefused);
        if !damaged && !self.node.broke_word {
            return;
        }
        if !damaged {
            // Bytes that a lying disk has lost do not come back.
            self.phase = Phase::Over;
            return;
        }
        // Somebody restores the directory from a copy.
        self.node.disk.lift_damage();
        if let Some(noted) = lost {
            put_note(&mut self.node.disk, noted);
        }
        if std::mem::take(&mut self.node.misread) {
            self.tally.mark(Mark::MisreadRefused);
        }
        self.node.life += 1;
        self.start_node(self.swarm.journal.restart_ms);
    }

    /// The process has its state and begins to serve.
    fn serve(&mut self, begun: Begun) {
        let Begun { recovered, journal, cut, segments } = begun;
        let damaged = self.node.disk.is_damaged();
        let disk_lied = self.node.broke_word;
        let applied = recovered.applied;
        self.check_note();
        self.trace.hash(self.now_ns, 0x5e, applied.get());
        let now_ns = self.now_ns;
        self.trace.line(now_ns, NODE, LineKind::Note, || format!("serves from record {applied}"));
        self.mark_recovery(applied, cut, segments, &journal);
        if damaged {
            self.tally.mark(Mark::DamageHarmless);
        }
        let lost = applied < self.durable();
        if disk_lied && lost {
            self.tally.mark(Mark::LieLostAcknowledged);
        }
        self.see(&Seen::Recovered { state: &recovered, disk_lied });
        let now = self.node_time();
        let settings = self.node.settings.clone();
        self.patience.begin(settings.worker_timeout);
        let coordination = self.coordination_settings();
        self.see(&Seen::Coordinates(&coordination));
        let config = Config { dispatcher: settings, coordination };
        self.node.node = Some(Node::start(Durability::Journal, config, recovered, now));
        self.node.journal = Some(journal);
        self.node.being = Being::Up;
        self.node.disk_failed = false;
        self.node.broke_word = false;
        self.node.power_was_cut = false;
        self.node.recoveries_killed = 0;
        if self.node.loop_left > 0 {
            self.node.loop_left -= 1;
            self.tally.fault(Fault::KillLoop);
            self.node.dies_in = Some((self.node.stream.below(40), false));
        }
        if self.node.memory != Memory::Enough {
            self.tell_memory();
        }
        self.look_now();
        self.settle();
        if disk_lied && lost {
            // What anybody was told may have been taken back: nothing can be held against it.
            self.phase = Phase::Over;
        }
    }

    /// The coordination service's settings for a process: where jobs have other sizes one after the
    /// other and the service is told them, the operator names another one at each start.
    fn coordination_settings(&mut self) -> coordination::Config {
        let Some(shape) = &self.swarm.coordination else {
            return coordination::Config::default();
        };
        for (job, namespace) in (0..).zip(&shape.namespaces) {
            if namespace.told && !namespace.sizes.is_empty() {
                self.known.sizes.insert(job, namespace.size_at(self.node.life));
            }
        }
        shape.settings_with(|job| self.known.sizes.get(&job).copied())
    }

    fn mark_recovery(
        &mut self,
        applied: Lsn,
        cut: bool,
        segments: usize,
        journal: &crate::process::Journal,
    ) {
        let reached = [
            (cut, Mark::TailCut),
            (segments > 1, Mark::RecoveredFromSegments),
            (journal.snapshot() > Lsn::NONE, Mark::RecoveredFromSnapshot),
            (applied > self.durable(), Mark::UntoldKept),
            (
                std::mem::take(&mut self.node.settings_changed) && journal.snapshot() > Lsn::NONE,
                Mark::OtherSettingsOverSnapshot,
            ),
        ];
        for (_, mark) in reached.iter().filter(|(reached, _)| *reached) {
            self.tally.mark(*mark);
        }
        if self.now_ns.saturating_sub(self.node.down_since_ns) > 3_000_000_000 && self.node.life > 0
        {
            self.tally.mark(Mark::LeaseEndedWhileAway);
        }
    }

    /// The process is gone, with the power if so.
    pub(super) fn die(&mut self, power: bool) {
        if self.node.node.is_none() && self.node.recovering.is_none() {
            return;
        }
        if !self.stepping {
            self.look_now();
        }
        self.mark_death();
        self.see(&Seen::Died);
        self.node.node = None;
        self.node.journal = None;
        self.node.recovering = None;
        self.node.dies_in = None;
        self.node.life += 1;
        self.node.tick_at_ns = u64::MAX;
        self.node.down_since_ns = self.now_ns;
        if power {
            self.cut_power();
        }
        let waiting = std::mem::take(&mut self.node.waiting);
        for of in waiting.into_values() {
            self.refuse_call(of, "the connection was reset");
        }
        self.hang_up_on_relays(power);
        self.set_clock_back();
        self.start_node(self.swarm.journal.restart_ms);
    }

    fn mark_death(&mut self) {
        let unsynced = self.oracles.shadow().last() > self.durable();
        let compacting = self.node.journal.as_ref().is_some_and(|j| j.compaction.is_some());
        let paused = self.actors.iter().any(|machine| machine.being == Being::Paused);
        let reached = [
            (unsynced, Mark::DiedWithUnsynced),
            (compacting, Mark::DiedWhileCompacting),
            (paused, Mark::DiedBesidePause),
        ];
        for (_, mark) in reached.iter().filter(|(reached, _)| *reached) {
            self.tally.mark(*mark);
        }
    }

    fn set_clock_back(&mut self) {
        if self.faults_on() && self.chance(Fault::ClockBack, 2) {
            let by = Duration::from_millis(self.node.stream.between(1, SET_BACK_MS));
            self.struck(Fault::ClockBack, NODE, || format!("by {} ms", by.as_millis()));
            self.node.clock.set_back(self.now_ns, by);
            self.node.behind_ms = self.node.behind_ms.saturating_add(by.as_millis());
        }
    }

    fn cut_power(&mut self) {
        let faults = &self.swarm.faults;
        let cut = CutFaults {
            lost: faults.has(Fault::LostWrite),
            reordered: faults.has(Fault::ReorderedWrite),
            torn: faults.has(Fault::TornWrite),
        };
        let outcome = self.node.disk.power_cut(cut, &mut self.node.disk_stream);
        self.struck(Fault::PowerCut, NODE, || format!("{outcome:?}"));
        let struck = [
            (outcome.lost > 0, Fault::LostWrite),
            (outcome.reordered, Fault::ReorderedWrite),
            (outcome.torn > 0, Fault::TornWrite),
        ];
        for (_, fault) in struck.iter().filter(|(struck, _)| *struck) {
            self.tally.fault(*fault);
        }
        self.node.power_was_cut = true;
        self.note_survives();
        self.node.broke_word |= outcome.broke_word;
    }

    /// Tells a caller that there is no server, as its own side of the connection does.
    pub(super) fn refuse_call(&mut self, of: CallOf, reason: &str) {
        let answer = Err(Status::new(Code::Unavailable, reason));
        self.post(NODE, of.actor + 1, Letter::Reply { of, answer });
    }

    /// The process stops in good order: what it has begun it ends.
    pub(super) fn stop_gracefully(&mut self) {
        self.settle();
        if let Some(sync) = self.node.journal.as_mut().and_then(|journal| journal.take_sync()) {
            sync.end(&mut self.node.disk);
            self.see(&Seen::Durable(sync.upto));
            self.step(rondo_core::control::Input::Synced { upto: sync.upto }, None);
        }
        self.die(false);
    }

    /// The node goes on after it stood still.
    pub(super) fn resume_node(&mut self) {
        if self.node.being == Being::Paused {
            self.node.being = Being::Up;
            let stood = self.node.clock.shows(self.now_ns).since(self.node.paused_at);
            self.see(&Seen::Resumed { stood });
            if std::mem::take(&mut self.node.timers_first) {
                self.tally.mark(Mark::TimersFirst);
                self.step(rondo_core::control::Input::Tick, None);
            }
        }
        let held = std::mem::take(&mut self.node.held);
        for place in held {
            self.arrive(place);
        }
        if self.node.node.is_some() {
            self.settle();
        }
    }
}
