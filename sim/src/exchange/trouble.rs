//! What goes wrong with processes and the ways between them, at times of their own.

use rondo_core::exchange::Role;
use rondo_core::time::Duration;

use super::event::Event;
use super::site::{Being, SCHEDULER};
use super::{MS, World};
use crate::fault::Fault;
use crate::oracle::exchange::Met;

/// Something that goes wrong with a process.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Nothing,
    /// Its connections break.
    Reset,
    /// One of them does.
    ResetOne,
    /// Nobody hears it, and it hears nobody.
    CutOff,
    /// There is no way between it and one other.
    CutOne,
    /// Nobody hears it.
    Unheard,
    /// It is killed.
    Kill,
    /// It ends in good order.
    Leave,
    Pause,
    ClockJump,
}

const TROUBLES: [Trouble; 12] = [
    Trouble::Nothing,
    Trouble::Reset,
    Trouble::Kill,
    Trouble::ResetOne,
    Trouble::CutOff,
    Trouble::ResetOne,
    Trouble::CutOne,
    Trouble::Unheard,
    Trouble::Leave,
    Trouble::Pause,
    Trouble::Reset,
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
        if let Some(site) = self.site(number) {
            let pause_ms = (mean_ms / 2).saturating_add(site.stream.exponential(mean_ms) / 2);
            let at_ns = now_ns.saturating_add(pause_ms.max(1).saturating_mul(MS));
            self.queue.plan(at_ns, Event::Trouble(number));
        }
    }

    /// Time for something to go wrong with a process.
    pub(super) fn trouble(&mut self, number: u32) {
        if !self.faults_on() {
            return;
        }
        self.plan_trouble(number);
        let away_ms = self.shape.away_ms;
        let Some(site) = self.site(number) else {
            return;
        };
        let trouble = site.stream.pick(&TROUBLES).copied().unwrap_or(Trouble::Nothing);
        let span_ns = site.stream.exponential(away_ms).max(1).saturating_mul(MS);
        let jump_ms = site.stream.between(1, JUMP_MS_MAX);
        if site.being != Being::Up {
            return;
        }
        match trouble {
            Trouble::Nothing => {}
            Trouble::Reset => self.reset(number, usize::MAX),
            Trouble::ResetOne => self.reset(number, 1),
            Trouble::CutOff => self.cut_off(Fault::Isolate, number, span_ns, usize::MAX),
            Trouble::CutOne => self.cut_off(Fault::Isolate, number, span_ns, 1),
            Trouble::Unheard => self.cut_off(Fault::HalfOpen, number, span_ns, usize::MAX),
            Trouble::Kill => self.kill(number, span_ns),
            Trouble::Leave if self.role(number) != Role::Scheduler => {
                self.struck(Fault::GracefulStop, number, String::new);
                self.leave(number);
            }
            Trouble::Leave => self.kill(number, span_ns),
            Trouble::Pause => {
                self.struck(Fault::Pause, number, || format!("for {} ms", span_ns / MS));
                if let Some(site) = self.site(number) {
                    site.being = Being::Paused;
                }
                self.queue.plan(self.now_ns.saturating_add(span_ns), Event::Resume(number));
            }
            Trouble::ClockJump => {
                self.struck(Fault::ClockJump, number, || format!("by {jump_ms} ms"));
                let now_ns = self.now_ns;
                if let Some(site) = self.site(number) {
                    site.clock.jump(now_ns, Duration::from_millis(jump_ms));
                    site.wakes_at_ns = None;
                }
                self.plan_tick(number);
            }
        }
    }

    /// Connections of a process break, and both ends notice.
    fn reset(&mut self, number: u32, count: usize) {
        self.struck(Fault::ConnectionReset, number, String::new);
        let ends = self.links.of(number);
        let skip = match count {
            1 => usize::try_from(self.stream.below(ends.len().max(1) as u64)).unwrap_or(0),
            _ => 0,
        };
        for (link, end) in ends.into_iter().skip(skip).take(count) {
            self.breaks(link, end);
            self.is_broken(link, end.other());
        }
    }

    fn cut_off(&mut self, fault: Fault, number: u32, span_ns: u64, count: usize) {
        self.struck(fault, number, || format!("for {} ms", span_ns / MS));
        let at_ns = self.now_ns.saturating_add(span_ns);
        let others: Vec<u32> = (0..self.count()).filter(|other| *other != number).collect();
        let skip = match count {
            1 => usize::try_from(self.stream.below(others.len() as u64)).unwrap_or(0),
            _ => 0,
        };
        for other in others.into_iter().skip(skip).take(count) {
            let both = [(number, other), (other, number)];
            for (from, to) in both.into_iter().take(if fault == Fault::Isolate { 2 } else { 1 }) {
                self.net.cut(&[from], &[to], true, &mut self.tally);
                self.queue.plan(at_ns, Event::Mend(from, to));
            }
        }
    }

    /// A process is killed; another one begins later.
    fn kill(&mut self, number: u32, span_ns: u64) {
        self.struck(Fault::Kill, number, String::new);
        self.gone(number);
        self.queue.plan(self.now_ns.saturating_add(span_ns), Event::Reborn(number));
    }

    /// A process is gone, whyever.
    pub(super) fn gone(&mut self, number: u32) {
        let role = self.role(number);
        let Some(site) = self.site(number) else {
            return;
        };
        site.being = Being::Down;
        site.process = None;
        site.held.clear();
        site.wakes_at_ns = None;
        for (link, end) in self.links.of(number) {
            self.links_left(link, end);
        }
        match role {
            Role::Scheduler => self.see(&Met::SchedulerDied),
            _ => self.see(&Met::Died { site: number }),
        }
    }

    /// The system closes what a process has left, and mostly the other end learns that at once.
    fn links_left(&mut self, link: u64, end: crate::letters::End) {
        if self.stream.chance(700) {
            self.post(link, end, super::event::What::Fin, 0);
        }
        self.is_left(link, end);
    }

    /// A process goes on after it stood still.
    pub(super) fn resume(&mut self, number: u32) {
        let Some(site) = self.site(number).filter(|it| it.being == Being::Paused) else {
            return;
        };
        site.being = Being::Up;
        if number == SCHEDULER {
            let now = self.shows(SCHEDULER);
            self.see(&Met::SchedulerResumed { now });
        }
        let Some(site) = self.site(number) else {
            return;
        };
        // At once: what is planned for the same time comes after what waited.
        for event in std::mem::take(&mut site.held) {
            self.happen(event);
        }
    }
}
