//! What goes wrong with workers and the ways between them, at times of their own.

use rondo_core::rendezvous::Input;
use rondo_core::time::Duration;

use super::event::Event;
use super::worker::Being;
use super::{MS, World};
use crate::fault::Fault;

/// Something that goes wrong with a worker.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Nothing,
    /// Its connections break.
    Reset,
    /// Nobody hears it, and it hears nobody.
    CutOff,
    /// Nobody hears it.
    Unheard,
    /// Its process is killed.
    Kill,
    /// Its process ends in good order.
    Stop,
    /// All its steps are over, and it goes on.
    CleanupAll,
    Pause,
    ClockJump,
}

const TROUBLES: [Trouble; 10] = [
    Trouble::Nothing,
    Trouble::Reset,
    Trouble::Kill,
    Trouble::CutOff,
    Trouble::Reset,
    Trouble::Unheard,
    Trouble::Stop,
    Trouble::Pause,
    Trouble::CleanupAll,
    Trouble::ClockJump,
];
/// No clock jumps further, in ms.
const JUMP_MS_MAX: u64 = 3000;

impl World {
    pub(super) fn plan_trouble(&mut self, number: u32) {
        let mean_ms = self.shape.trouble_ms;
        let now_ns = self.now_ns;
        if mean_ms == 0 {
            return;
        }
        if let Some(worker) = self.worker(number) {
            let pause_ms = (mean_ms / 2).saturating_add(worker.stream.exponential(mean_ms) / 2);
            let at_ns = now_ns.saturating_add(pause_ms.max(1).saturating_mul(MS));
            self.queue.plan(at_ns, Event::Trouble(number));
        }
    }

    /// Time for something to go wrong with a worker.
    pub(super) fn trouble(&mut self, number: u32) {
        if !self.faults_on() {
            return;
        }
        self.plan_trouble(number);
        let away_ms = self.shape.away_ms;
        let Some(worker) = self.worker(number) else {
            return;
        };
        let trouble = worker.stream.pick(&TROUBLES).copied().unwrap_or(Trouble::Nothing);
        let span_ns = worker.stream.exponential(away_ms).max(1).saturating_mul(MS);
        let jump_ms = worker.stream.between(1, JUMP_MS_MAX);
        if worker.being != Being::Up {
            return;
        }
        match trouble {
            Trouble::Nothing => {}
            Trouble::Reset => self.reset(number),
            Trouble::CutOff => self.cut_off(Fault::Isolate, number, span_ns),
            Trouble::Unheard => self.cut_off(Fault::HalfOpen, number, span_ns),
            Trouble::Kill => self.kill(Fault::Kill, number, span_ns),
            Trouble::Stop => {
                self.step(number, Input::CleanupAll);
                self.kill(Fault::GracefulStop, number, span_ns);
            }
            Trouble::CleanupAll => self.step(number, Input::CleanupAll),
            Trouble::Pause => {
                self.struck(Fault::Pause, number, String::new);
                if let Some(worker) = self.worker(number) {
                    worker.being = Being::Paused;
                }
                self.queue.plan(self.now_ns.saturating_add(span_ns), Event::Resume(number));
            }
            Trouble::ClockJump => {
                self.struck(Fault::ClockJump, number, || format!("by {jump_ms} ms"));
                let now_ns = self.now_ns;
                if let Some(worker) = self.worker(number) {
                    worker.clock.jump(now_ns, Duration::from_millis(jump_ms));
                }
                self.step(number, Input::Tick);
            }
        }
    }

    /// All connections of a worker break, and both ends notice.
    fn reset(&mut self, number: u32) {
        self.struck(Fault::ConnectionReset, number, String::new);
        for (connection, end) in self.connections.of(number) {
            self.breaks(connection, end);
            self.is_broken(connection, end.other());
        }
    }

    fn cut_off(&mut self, fault: Fault, number: u32, span_ns: u64) {
        self.struck(fault, number, || format!("for {} ms", span_ns / MS));
        let at_ns = self.now_ns.saturating_add(span_ns);
        for other in (0..self.shape.workers).filter(|other| *other != number) {
            let both = [(number, other), (other, number)];
            for (from, to) in both.into_iter().take(if fault == Fault::Isolate { 2 } else { 1 }) {
                self.net.cut(&[from], &[to], true, &mut self.tally);
                self.queue.plan(at_ns, Event::Mend(from, to));
            }
        }
    }

    /// A worker's process is gone; another one begins later.
    fn kill(&mut self, fault: Fault, number: u32, span_ns: u64) {
        self.struck(fault, number, String::new);
        let Some(worker) = self.worker(number) else {
            return;
        };
        worker.being = Being::Down;
        worker.process = None;
        worker.held.clear();
        worker.known.clear();
        for (connection, end) in self.connections.of(number) {
            self.connections.close(connection, end);
            self.is_broken(connection, end.other());
        }
        self.see(&crate::oracle::rendezvous::Met::Died { worker: number });
        self.queue.plan(self.now_ns.saturating_add(span_ns), Event::Reborn(number));
    }

    /// A worker's process begins again, as another one: what it had is gone.
    pub(super) fn reborn(&mut self, number: u32) {
        let is_down = self.worker(number).is_some_and(|worker| worker.being == Being::Down);
        if !is_down {
            return;
        }
        self.begin_process(number);
        for other in (0..self.shape.workers).filter(|other| *other != number) {
            self.read_incarnation(number, other);
        }
        self.take_up(number);
    }

    /// A worker goes on after it stood still.
    pub(super) fn resume(&mut self, number: u32) {
        let now_ns = self.now_ns;
        let Some(worker) = self.worker(number).filter(|it| it.being == Being::Paused) else {
            return;
        };
        worker.being = Being::Up;
        for event in std::mem::take(&mut worker.held) {
            self.queue.plan(now_ns, event);
        }
    }
}
