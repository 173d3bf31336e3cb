//! What goes wrong: connections break, ways are cut, processes die and return, or are taken for dead.

use rondo_core::exchange::Role;
use rondo_core::exchange::membership::State;

use super::Net;

impl Net {
    /// One of the connections breaks. So many of the messages on their way still arrive.
    pub(crate) fn break_one(&mut self, nth: usize, arrive: usize) {
        let whole: Vec<u64> =
            self.links.iter().filter(|(_, link)| !link.is_over()).map(|(id, _)| *id).collect();
        if let Some(connection) = whole.get(nth % whole.len().max(1)) {
            self.cut_off(*connection, arrive % 3, arrive / 3 % 3);
        }
    }

    /// There is no way between two, or there is again.
    pub(crate) fn cut(&mut self, worker: usize, server: usize, is_cut: bool) {
        if is_cut {
            self.is_faulty = true;
            self.cut.insert((worker, server));
            let between: Vec<u64> = self
                .links
                .iter()
                .filter(|(_, link)| (link.worker, link.server) == (worker, server))
                .map(|(id, _)| *id)
                .collect();
            between.into_iter().for_each(|connection| self.cut_off(connection, 1, 1));
        } else {
            self.cut.remove(&(worker, server));
        }
    }

    /// A process dies. What it has sent may still arrive.
    pub(crate) fn crash(&mut self, role: Role, nth: usize) {
        self.is_faulty = true;
        if role == Role::Worker {
            self.workers[nth].machine = None;
            let run = self.workers[nth].incarnation;
            self.requests
                .iter_mut()
                .filter(|it| it.worker == nth && it.incarnation == run)
                .for_each(|it| it.is_over = true);
        } else {
            self.servers[nth].machine = None;
        }
        let of_it = |link: &super::Link| match role {
            Role::Worker => link.worker == nth,
            _ => link.server == nth,
        };
        let connections: Vec<u64> =
            self.links.iter().filter(|(_, link)| of_it(link)).map(|(id, _)| *id).collect();
        connections.into_iter().for_each(|connection| self.close(connection));
    }

    /// The scheduler takes a process for lost, or it says that it leaves; which may not be so.
    pub(crate) fn declare_gone(&mut self, role: Role, nth: usize, has_left: bool) {
        self.is_faulty = true;
        self.declare(role, nth, if has_left { State::Left } else { State::Lost });
    }

    /// A process takes part again: in a new run if it had died.
    pub(crate) fn come_back(&mut self, role: Role, nth: usize) {
        match role {
            Role::Worker if self.workers[nth].machine.is_none() => self.start_worker(nth),
            Role::Server if self.servers[nth].machine.is_none() => self.start_server(nth),
            _ => {}
        }
        self.declare(role, nth, State::Up);
    }
}
