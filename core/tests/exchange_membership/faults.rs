//! What goes wrong in a world: connections break, processes and the scheduler die.

use rondo_core::exchange::member;
use rondo_core::exchange::scheduler::Scheduler;
use rondo_core::status::{Code, Status};

use crate::world::World;

impl World {
    /// A connection breaks: what is under way is lost.
    pub(crate) fn break_line(&mut self, at: usize) {
        if let Some(line) = self.lines.get_mut(at).filter(|line| !line.is_silent) {
            line.to_scheduler.clear();
            line.to_member.clear();
            // Each end hears of it from the other one's being gone.
            let is_open = line.is_open_here && line.is_open_there;
            if is_open {
                let (process, connection) = (line.process, line.there);
                line.is_open_there = false;
                let status = Status::new(Code::Unavailable, "the connection broke");
                self.step_member(process, member::Input::Disconnected { connection, status });
            }
        }
    }

    /// A process dies; its host may, too, and then nothing says so.
    pub(crate) fn kill(&mut self, process: usize, is_silent: bool) {
        let incarnation = self.processes[process].incarnation;
        if self.processes[process].member.take().is_none() {
            return;
        }
        self.processes[process].waiting.clear();
        self.attempts.retain(|(of, _)| *of != process);
        for line in &mut self.lines {
            if line.process == process && line.incarnation == incarnation {
                line.is_open_there = false;
                line.is_silent |= is_silent;
                line.to_member.clear();
            }
        }
    }

    pub(crate) fn kill_scheduler(&mut self) {
        self.scheduler = None;
        self.oracle.scheduler_dies();
        for line in &mut self.lines {
            line.is_open_here = false;
            line.to_scheduler.clear();
        }
    }

    pub(crate) fn start_scheduler(&mut self) {
        if self.scheduler.is_none() {
            self.scheduler = Some(Scheduler::start(self.settings.clone()).unwrap());
        }
    }
}
