//! What goes wrong with relays, at times of their own.

use rondo_core::relay::Input;

use super::Up;
use super::machine::Process;
use crate::fault::Fault;
use crate::mark::Mark;
use crate::oracle::{Relayed, Seen};
use crate::swarm::RelaySettings;
use crate::world::World;
use crate::world::event::Event;
use crate::world::letter::NODE;
use crate::world::machine::Being;

/// A relay that is to stop waits so long for what must not happen twice, in ns. As in `runtime::relay`.
const DRAIN_NS: u64 = 2_000_000_000;
/// An absence beyond the patience lasts no longer, in ms.
const ABSENCE_MS_MAX: u64 = 15_000;

/// Something that goes wrong with a relay.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Nothing,
    Reset,
    Cut,
    Absence,
    Kill,
    Stop,
    Pause,
    KillNode,
}

const TROUBLES: [Trouble; 10] = [
    Trouble::Nothing,
    Trouble::Reset,
    Trouble::KillNode,
    Trouble::Cut,
    Trouble::Absence,
    Trouble::Kill,
    Trouble::Stop,
    Trouble::Pause,
    Trouble::Reset,
    Trouble::KillNode,
];

const MS: u64 = 1_000_000;

impl World {
    /// Starts all relays.
    pub(in crate::world) fn begin_relays(&mut self) {
        for relay in 0..self.relays.count() {
            self.begin_relay(relay);
            self.plan_trouble(relay);
        }
    }

    fn plan_trouble(&mut self, relay: u32) {
        let Some(machine) = self.relays.at(relay).filter(|it| it.shape.trouble_ms > 0) else {
            return;
        };
        let mean = machine.shape.trouble_ms;
        let pause_ms = (mean / 2).saturating_add(machine.stream.exponential(mean) / 2);
        let at_ns = self.now_ns.saturating_add(pause_ms.max(1).saturating_mul(MS));
        self.queue.plan(at_ns, Event::RelayTrouble(relay));
    }

    /// Time for something to go wrong with a relay.
    pub(in crate::world) fn relay_trouble(&mut self, relay: u32) {
        if !self.faults_on() {
            return;
        }
        self.plan_trouble(relay);
        let Some(machine) = self.relays.at(relay) else {
            return;
        };
        let trouble = machine.stream.pick(&TROUBLES).copied().unwrap_or(Trouble::Nothing);
        let away_ms = machine.stream.exponential(machine.shape.away_ms).max(1);
        let (is_up, patience_ms) = (machine.being == Being::Up, machine.settings.patience_ms);
        let lane = self.machine_of(relay);
        match trouble {
            Trouble::Nothing => {}
            Trouble::KillNode => {
                self.struck(Fault::Kill, NODE, String::new);
                self.die(false);
            }
            Trouble::Cut => self.cut_off(relay, away_ms),
            Trouble::Absence => {
                self.cut_off(relay, patience_ms.saturating_add(away_ms).min(ABSENCE_MS_MAX));
            }
            Trouble::Reset if is_up => {
                self.struck(Fault::ConnectionReset, lane, String::new);
                self.reset_relay(relay);
            }
            Trouble::Kill if is_up => {
                self.struck(Fault::Kill, lane, String::new);
                self.kill_relay(relay, away_ms);
            }
            Trouble::Stop if is_up => self.stop_relay(relay),
            Trouble::Pause if is_up => {
                self.struck(Fault::Pause, lane, String::new);
                if let Some(machine) = self.relays.at(relay) {
                    machine.being = Being::Paused;
                }
                self.see_relay(relay, Relayed::Paused);
                let at_ns = self.now_ns.saturating_add(away_ms.saturating_mul(MS));
                self.queue.plan(at_ns, Event::ResumeRelay(relay));
            }
            Trouble::Reset | Trouble::Kill | Trouble::Stop | Trouble::Pause => {}
        }
    }

    fn cut_off(&mut self, relay: u32, span_ms: u64) {
        let machine = self.machine_of(relay);
        let both = [(vec![machine], vec![NODE]), (vec![NODE], vec![machine])];
        self.struck(Fault::Isolate, machine, || format!("for {span_ms} ms"));
        self.cut_for(span_ms.saturating_mul(MS), both.into());
    }

    /// The connection with the node breaks, and both ends know.
    fn reset_relay(&mut self, relay: u32) {
        let process = self.relays.at(relay).and_then(|machine| machine.process.as_ref());
        if let Some((wire, _)) = process.and_then(|process| process.wire) {
            self.wire_to_node(wire, Up::Close);
            self.wire_breaks(wire);
        }
    }

    /// A relay's process is gone; another one begins later.
    fn kill_relay(&mut self, relay: u32, away_ms: u64) {
        let Some(machine) = self.relays.at(relay) else {
            return;
        };
        let Some(process) = machine.process.take() else {
            return;
        };
        machine.being = Being::Down;
        machine.held.clear();
        machine.life = machine.life.saturating_add(1);
        if machine.stream.chance(300) {
            let heartbeat_ms = machine.settings.heartbeat_patience_ms.saturating_mul(4);
            let tasks = machine.shape.tasks.len();
            machine.settings = RelaySettings::draw(&mut machine.stream, heartbeat_ms, tasks);
        }
        self.forget_relay(relay, &process);
        let at_ns = self.now_ns.saturating_add(away_ms.saturating_mul(MS));
        self.queue.plan(at_ns, Event::BeginRelay(relay));
    }

    fn forget_relay(&mut self, relay: u32, process: &Process) {
        if process.relay.calls_under_way() > 0 {
            self.tally.mark(Mark::RelayDiedWithCalls);
        }
        self.see_relay(relay, Relayed::Died);
        self.break_locally(relay);
        if let Some((wire, _)) = process.wire {
            self.hang_up(wire);
        }
        self.plan_over(process.callers.keys().chain(&process.alone).copied().collect());
    }

    /// A relay stops in good order.
    fn stop_relay(&mut self, relay: u32) {
        let lane = self.machine_of(relay);
        self.struck(Fault::GracefulStop, lane, String::new);
        self.step_relay(relay, Input::Stop);
        let life = self.relays.at(relay).map_or(0, |machine| machine.life);
        let at_ns = self.now_ns.saturating_add(DRAIN_NS);
        self.queue.plan(at_ns, Event::EndRelay(relay, life));
    }

    /// A relay that was to stop ends.
    pub(in crate::world) fn end_relay(&mut self, relay: u32, life: u32) {
        if self.relays.at(relay).is_some_and(|machine| machine.life == life) {
            self.kill_relay(relay, 500);
        }
    }

    /// A relay goes on after it stood still.
    pub(in crate::world) fn resume_relay(&mut self, relay: u32) {
        let Some(machine) = self.relays.at(relay).filter(|it| it.being == Being::Paused) else {
            return;
        };
        machine.being = Being::Up;
        self.see_relay(relay, Relayed::Resumed);
        let held = self.relays.at(relay).map(|machine| std::mem::take(&mut machine.held));
        for place in held.unwrap_or_default() {
            self.arrive(place);
        }
        self.step_relay(relay, Input::Tick);
    }

    /// All relays are as they should be from here on.
    pub(in crate::world) fn heal_relays(&mut self) {
        for relay in 0..self.relays.count() {
            self.queue.plan(self.now_ns, Event::ResumeRelay(relay));
            self.queue.plan(self.now_ns, Event::BeginRelay(relay));
        }
    }

    /// Some relays stay dead or cut off for ever.
    pub(in crate::world) fn break_relays(&mut self) {
        for relay in 0..self.relays.count() {
            if !self.ending_stream.chance(150) {
                continue;
            }
            self.tally.mark(Mark::HealedInPart);
            let machine = self.machine_of(relay);
            self.net.cut(&[machine], &[NODE], true, &mut self.tally);
            self.net.cut(&[NODE], &[machine], true, &mut self.tally);
            if let Some(machine) = self.relays.at(relay) {
                machine.core = false;
            }
        }
    }

    /// All tasks have gone.
    pub(in crate::world) fn part_with_relays(&mut self) {
        for actor in 0..u32::try_from(self.actors.len()).unwrap_or(0) {
            if let Some(relay) = self.relay_of(actor) {
                self.part(relay, actor);
            }
        }
    }

    /// Nobody has asked a relay anything for a long time.
    pub(in crate::world) fn look_at_quiet_relays(&mut self) {
        for relay in 0..self.relays.count() {
            let Some(process) = self.relays.at(relay).and_then(|machine| machine.process.take())
            else {
                continue;
            };
            let at = self.relays.at(relay).map(|machine| machine.clock.shows(self.now_ns));
            let what = Relayed::Quiet(&process.relay);
            self.see(&Seen::Relay { relay, at: at.unwrap_or_default(), what });
            if let Some(machine) = self.relays.at(relay) {
                machine.process = Some(process);
            }
        }
    }
}
