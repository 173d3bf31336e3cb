//! Faults that strike at times of their own: partitions, kills, pauses, clocks, disks.

use std::sync::Arc;

use rondo_core::control::Input;
use rondo_core::dispatcher::Event as NodeEvent;
use rondo_core::memory::Memory;
use rondo_core::time::Duration;

use super::World;
use super::event::Event;
use super::letter::NODE;
use super::machine::Being;
use crate::disk::Misread;
use crate::fault::{Fault, Faults};
use crate::mark::Mark;
use crate::oracle::Seen;
use crate::rng::{Source, Stream};
use crate::workload::Role;

/// Kinds that strike at times of their own.
const TIMED: [Fault; 20] = [
    Fault::PartitionSymmetric,
    Fault::PartitionAsymmetric,
    Fault::Isolate,
    Fault::Bridge,
    Fault::Clog,
    Fault::SwizzleClog,
    Fault::ConnectionReset,
    Fault::HalfOpen,
    Fault::Kill,
    Fault::KillAtEffect,
    Fault::KillLoop,
    Fault::PowerCut,
    Fault::Pause,
    Fault::SlowProcess,
    Fault::RestartSame,
    Fault::RestartFresh,
    Fault::GracefulStop,
    Fault::ClockJump,
    Fault::BitFlip,
    Fault::DiskFull,
];
/// The rest of them.
const TIMED_TOO: [Fault; 12] = [
    Fault::DiskSlow,
    Fault::DiskStall,
    Fault::StaleRead,
    Fault::MisdirectedRead,
    Fault::EmptyDisk,
    Fault::OtherSettings,
    Fault::OlderJournal,
    Fault::HeldUp,
    Fault::OlderNote,
    Fault::NewerNote,
    Fault::Lack,
    Fault::ShortMemory,
];
/// No outage lasts longer, in ms.
const OUTAGE_MS_MAX: u64 = 20_000;

/// A kind that strikes at times of its own.
#[derive(Debug)]
struct Timed {
    fault: Fault,
    /// Between two times at which it may strike, in ns.
    period_ns: u64,
    stream: Stream,
}

/// What a strike has to be undone of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UnderWay {
    Cut(Vec<(Vec<u32>, Vec<u32>)>),
    Full,
    Slow,
    Lack,
    ShortMemory,
    Over,
}

/// When what strikes, and what is under way.
#[derive(Debug)]
pub(super) struct Strikes {
    timed: Vec<Timed>,
    under_way: Vec<UnderWay>,
}

impl Strikes {
    pub(super) fn new(source: &Source, faults: &Faults) -> Self {
        let on = TIMED.iter().chain(&TIMED_TOO).filter(|fault| faults.has(**fault));
        let timed = on.map(|fault| Timed {
            fault: *fault,
            // From every two seconds to once in a minute.
            period_ns: 60_000_000_000_u64
                .checked_div(u64::from(faults.strength(*fault).clamp(33, 1000)))
                .unwrap_or(1)
                .saturating_mul(33),
            stream: source.stream(fault.name(), 0),
        });
        Self { timed: timed.collect(), under_way: Vec::new() }
    }

    /// When each may strike first.
    pub(super) fn first(&self) -> Vec<(Fault, u64)> {
        self.timed.iter().map(|timed| (timed.fault, timed.period_ns / 2)).collect()
    }

    pub(super) fn streams(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.timed.iter_mut().map(|timed| &mut timed.stream)
    }
}

impl World {
    /// Time for a fault to strike, perhaps.
    pub(super) fn maybe_strike(&mut self, fault: Fault) {
        if !self.faults_on() {
            return;
        }
        let mut timed = self.strikes.timed.iter();
        let Some(at) = timed.position(|timed| timed.fault == fault) else {
            return;
        };
        let Some(timed) = self.strikes.timed.get(at) else {
            return;
        };
        let (mut stream, period_ns) = (timed.stream.clone(), timed.period_ns);
        // Half a period at least, so that two kinds do not go hand in hand.
        let next_ns = period_ns / 2 + stream.below(period_ns);
        self.queue.plan(self.now_ns.saturating_add(next_ns), Event::Strike(fault));
        if stream.chance(600) {
            self.strike(fault, &mut stream);
        }
        if let Some(timed) = self.strikes.timed.get_mut(at) {
            timed.stream = stream;
        }
    }

    fn strike(&mut self, fault: Fault, s: &mut Stream) {
        match fault {
            Fault::PartitionSymmetric
            | Fault::PartitionAsymmetric
            | Fault::Isolate
            | Fault::Bridge
            | Fault::HalfOpen => self.partition(fault, s),
            Fault::Clog | Fault::SwizzleClog => self.clog(fault, s),
            Fault::ConnectionReset => {
                let actor = self.some_actor(s);
                self.struck(fault, actor + 1, String::new);
                self.reset_connection(actor);
            }
            Fault::Kill | Fault::PowerCut | Fault::GracefulStop => self.kill(fault, s),
            Fault::KillAtEffect => {
                let power = self.swarm.faults.has(Fault::PowerCut) && s.chance(300);
                self.node.dies_in = Some((s.below(30), power));
            }
            Fault::KillLoop => {
                self.node.loop_left = s.between(2, 5);
                self.struck(fault, NODE, String::new);
                self.die(false);
            }
            Fault::Pause => self.pause(s),
            Fault::HeldUp => self.hold_up(s),
            Fault::SlowProcess => self.slow(s),
            Fault::RestartSame | Fault::RestartFresh => self.restart_worker(fault, s),
            Fault::ClockJump => {
                let by = Duration::from_millis(s.between(1, 30_000));
                self.struck(fault, NODE, || format!("by {} ms", by.as_millis()));
                self.node.clock.jump(self.now_ns, by);
                self.plan_tick();
            }
            Fault::EmptyDisk | Fault::OtherSettings | Fault::OlderJournal => {
                self.change_node(fault, s);
            }
            Fault::OlderNote | Fault::NewerNote => self.change_note(fault, s),
            Fault::ShortMemory => self.run_short_of_memory(s),
            Fault::StaleRead => self.misread(fault, Misread::Earlier, s),
            Fault::MisdirectedRead => self.misread(fault, Misread::Elsewhere, s),
            _ => self.strike_disk(fault, s),
        }
    }

    /// The process has no memory for more state for a while, or none at all.
    fn run_short_of_memory(&mut self, s: &mut Stream) {
        let reason: Arc<str> = "a fault of the simulation".into();
        let memory = if s.chance(500) { Memory::Short(reason) } else { Memory::None(reason) };
        self.struck(Fault::ShortMemory, NODE, || format!("{memory:?}"));
        self.set_memory(memory);
        let span_ns = self.outage_ns(s);
        self.until_over(span_ns, UnderWay::ShortMemory);
    }

    /// The process has so much memory left from now on.
    pub(super) fn set_memory(&mut self, memory: Memory) {
        if self.node.memory != memory {
            self.node.memory = memory;
            self.tell_memory();
        }
    }

    /// Tells the node how much memory its process has left.
    pub(super) fn tell_memory(&mut self) {
        if self.node.node.is_some() {
            let memory = self.node.memory.clone();
            self.see(&Seen::MemoryLeft(&memory));
            self.step(Input::Memory(memory), None);
        }
    }

    /// A sector of the journal or of a snapshot reads wrong.
    fn misread(&mut self, fault: Fault, how: Misread, s: &mut Stream) {
        let under = s.pick(&["journal/", "snapshot/", "manifest"]).copied().unwrap_or("journal/");
        if let Some((path, at)) = self.node.disk.misread(under, how, s) {
            self.node.misread = true;
            self.struck(fault, NODE, || format!("in {path} from byte {at} on"));
        }
    }

    fn outage_ns(&self, s: &mut Stream) -> u64 {
        let ms = s.exponential(self.swarm.pace.down_ms).clamp(1, OUTAGE_MS_MAX);
        ms.saturating_mul(1_000_000)
    }

    fn machines(&self) -> u32 {
        let actors = u32::try_from(self.actors.len()).unwrap_or(0);
        actors.saturating_add(1).saturating_add(self.relays.count())
    }

    fn some_actor(&self, s: &mut Stream) -> u32 {
        u32::try_from(s.below(self.actors.len() as u64)).unwrap_or(0)
    }

    fn until_over(&mut self, span_ns: u64, under_way: UnderWay) {
        let place = self.strikes.under_way.len();
        self.strikes.under_way.push(under_way);
        self.queue.plan(self.now_ns.saturating_add(span_ns), Event::Over(place));
    }

    /// Cuts links for a while.
    pub(super) fn cut_for(&mut self, span_ns: u64, cuts: Vec<(Vec<u32>, Vec<u32>)>) {
        for (from, to) in &cuts {
            self.net.cut(from, to, true, &mut self.tally);
        }
        self.until_over(span_ns, UnderWay::Cut(cuts));
    }

    fn partition(&mut self, fault: Fault, s: &mut Stream) {
        let all: Vec<u32> = (0..self.machines()).collect();
        let alone = u32::try_from(s.below(u64::from(self.machines()))).unwrap_or(0);
        let (mut left, mut right): (Vec<u32>, Vec<u32>) = match fault {
            Fault::Isolate => all.iter().partition(|machine| **machine == alone),
            Fault::HalfOpen => (vec![NODE], vec![alone.max(1)]),
            _ => all.iter().partition(|_| s.chance(500)),
        };
        if fault == Fault::Bridge {
            left.retain(|machine| *machine != alone);
            right.retain(|machine| *machine != alone);
        }
        let one_way = matches!(fault, Fault::PartitionAsymmetric | Fault::HalfOpen);
        let mut cuts = vec![(left.clone(), right.clone())];
        if !one_way {
            cuts.push((right.clone(), left.clone()));
        }
        for (from, to) in &cuts {
            self.net.cut(from, to, true, &mut self.tally);
        }
        self.struck(fault, NODE, || format!("{left:?} from {right:?}"));
        let span_ns = self.outage_ns(s);
        self.until_over(span_ns, UnderWay::Cut(cuts));
    }

    fn clog(&mut self, fault: Fault, s: &mut Stream) {
        let (first, count) = (self.some_actor(s) + 1, self.machines());
        let span_ns = self.outage_ns(s);
        self.struck(fault, first, String::new);
        if fault == Fault::Clog {
            return self.net.clog(first, NODE, self.now_ns.saturating_add(span_ns));
        }
        for machine in 1..count {
            if s.chance(600) {
                // Let go in an order of its own.
                let until_ns = self.now_ns.saturating_add(s.between(1, span_ns));
                self.net.clog(machine, NODE, until_ns);
                self.net.clog(NODE, machine, until_ns);
            }
        }
    }

    fn kill(&mut self, fault: Fault, s: &mut Stream) {
        let node = fault == Fault::PowerCut || s.chance(500);
        if node {
            self.struck(fault, NODE, String::new);
            return match fault {
                Fault::GracefulStop => self.stop_gracefully(),
                _ => self.die(fault == Fault::PowerCut),
            };
        }
        let actor = self.some_actor(s);
        self.struck(fault, actor + 1, String::new);
        self.kill_actor(actor);
        let span_ns = self.outage_ns(s);
        self.queue.plan(self.now_ns.saturating_add(span_ns), Event::Reborn(actor, false));
    }

    fn pause(&mut self, s: &mut Stream) {
        let machine = u32::try_from(s.below(u64::from(self.machines()))).unwrap_or(0);
        let until_ns = self.now_ns.saturating_add(self.outage_ns(s));
        match machine.checked_sub(1) {
            None if self.node.being == Being::Up => self.stand_still(until_ns),
            Some(actor) => {
                let Some(of) = self.actors.get_mut(actor as usize) else {
                    return;
                };
                if of.being != Being::Up {
                    return;
                }
                of.being = Being::Paused;
                self.queue.plan(until_ns, Event::Resume(actor));
            }
            None => return,
        }
        self.struck(Fault::Pause, machine, String::new);
    }

    /// The server's process stands still for longer than a client may be silent. Its timers and the
    /// messages that came meanwhile are due at once then, and either may be first.
    fn hold_up(&mut self, s: &mut Stream) {
        if self.node.being != Being::Up {
            return;
        }
        let ms = s.pick(&[8000, 3000, 20_000, 60_000]).copied().unwrap_or(3000);
        let ms = s.between(ms / 2, ms);
        self.node.timers_first = s.chance(600);
        self.struck(Fault::HeldUp, NODE, || format!("for {ms} ms"));
        self.stand_still(self.now_ns.saturating_add(ms.saturating_mul(1_000_000)));
    }

    fn stand_still(&mut self, until_ns: u64) {
        self.see(&Seen::StandsStill);
        self.node.being = Being::Paused;
        self.node.paused_at = self.node.clock.shows(self.now_ns);
        self.queue.plan(until_ns, Event::ResumeNode);
    }

    /// The node stands still again after some time, where it does so again and again.
    pub(super) fn plan_stall(&mut self, stands_ms: u64) {
        let coordination = self.swarm.coordination.as_ref();
        if let Some(stalls) = coordination.and_then(|shape| shape.stalls) {
            let after_ms = stands_ms.saturating_add(stalls.after_ms);
            let at_ns = self.now_ns.saturating_add(after_ms.saturating_mul(1_000_000));
            self.queue.plan(at_ns, Event::Stall);
        }
    }

    /// The node stands still, while its connections live.
    pub(super) fn stall(&mut self) {
        let coordination = self.swarm.coordination.as_ref();
        let Some(stalls) = coordination.and_then(|shape| shape.stalls).filter(|_| self.faults_on())
        else {
            return;
        };
        if self.node.being == Being::Up {
            let span_ns = stalls.for_ms.saturating_mul(1_000_000);
            self.stand_still(self.now_ns.saturating_add(span_ns));
            self.tally.mark(Mark::NodeStalledAgain);
        }
        self.plan_stall(stalls.for_ms);
    }

    fn slow(&mut self, s: &mut Stream) {
        let machine = u32::try_from(s.below(u64::from(self.machines()))).unwrap_or(0);
        let until_ns = self.now_ns.saturating_add(self.outage_ns(s));
        match machine.checked_sub(1).and_then(|actor| self.actors.get_mut(actor as usize)) {
            None => self.node.slow_until_ns = until_ns,
            Some(machine) => machine.slow_until_ns = until_ns,
        }
        self.struck(Fault::SlowProcess, machine, String::new);
    }

    fn restart_worker(&mut self, fault: Fault, s: &mut Stream) {
        let actor = self.some_actor(s);
        let restarts = self.actors.get(actor as usize).is_some_and(|machine| {
            matches!(machine.role, Role::Worker | Role::Task | Role::Reader)
        });
        if !restarts {
            return;
        }
        self.struck(fault, actor + 1, String::new);
        self.kill_actor(actor);
        let span_ns = self.outage_ns(s);
        let fresh = fault == Fault::RestartFresh;
        self.queue.plan(self.now_ns.saturating_add(span_ns), Event::Reborn(actor, fresh));
    }

    fn strike_disk(&mut self, fault: Fault, s: &mut Stream) {
        let span_ns = self.outage_ns(s);
        match fault {
            Fault::BitFlip => {
                let under = s.pick(&["journal/", "snapshot/"]).copied().unwrap_or("journal/");
                if let Some((path, at)) = self.node.disk.flip_bit(under, s) {
                    self.struck(fault, NODE, || format!("in {path} at byte {at}"));
                }
            }
            Fault::DiskFull => {
                self.node.disk.set_free_bytes(Some(s.below(300)));
                self.struck(fault, NODE, String::new);
                self.until_over(span_ns, UnderWay::Full);
            }
            Fault::DiskSlow => {
                self.node.disk_slow = true;
                self.struck(fault, NODE, String::new);
                self.until_over(span_ns, UnderWay::Slow);
            }
            Fault::Lack => {
                self.node.lacks = true;
                self.struck(fault, NODE, String::new);
                self.until_over(span_ns, UnderWay::Lack);
            }
            _ => {
                self.node.disk_stalled_until_ns = self.now_ns.saturating_add(span_ns);
                self.struck(fault, NODE, String::new);
            }
        }
    }

    /// A fault that struck is over.
    pub(super) fn strike_over(&mut self, place: usize) {
        let Some(under_way) = self.strikes.under_way.get_mut(place) else {
            return;
        };
        match std::mem::replace(under_way, UnderWay::Over) {
            UnderWay::Cut(cuts) if self.faults_on() => {
                for (from, to) in &cuts {
                    self.net.cut(from, to, false, &mut self.tally);
                }
            }
            UnderWay::Full => self.node.disk.set_free_bytes(None),
            UnderWay::Slow => self.node.disk_slow = false,
            UnderWay::Lack => self.node.lacks = false,
            UnderWay::ShortMemory => self.set_memory(Memory::Enough),
            UnderWay::Cut(_) | UnderWay::Over => {}
        }
    }

    /// Notes that a worker was given up while the disk is full.
    pub(super) fn mark_full(&mut self, event: &NodeEvent) {
        let lost = matches!(event, NodeEvent::WorkerLost { .. });
        if lost && self.node.disk.free_bytes().is_some() {
            self.tally.mark(Mark::FullWhileSilent);
        }
    }
}
