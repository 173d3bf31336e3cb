//! Nothing goes wrong any more: everybody is told, and nothing is left.

use rondo_core::exchange::Role;
use rondo_core::exchange::server::{self, Partial};
use rondo_core::exchange::worker::{self, Since};

use super::Net;

/// So many rounds of all that can happen bring everything to an end.
const ROUNDS_MAX: usize = 200;

impl Net {
    /// All that run, run on; all others return.
    pub(crate) fn calm_down(&mut self) {
        self.cut.clear();
        for nth in 0..self.workers.len() {
            self.come_back(Role::Worker, nth);
        }
        for nth in 0..self.servers.len() {
            self.come_back(Role::Server, nth);
        }
        self.hear_all_news();
        (0..self.workers.len()).for_each(|nth| self.wait_for_all(nth));
        (0..self.servers.len()).for_each(|nth| self.make_room(nth));
        for _ in 0..ROUNDS_MAX {
            self.round();
            if self.is_quiet() {
                break;
            }
        }
        self.wait_for_rest();
        self.nothing_is_left();
    }

    /// One call for a batch may wait, or one more can.
    fn make_room(&mut self, nth: usize) {
        while self.servers[nth].waiting.len() > 1 {
            let (call, _) = self.servers[nth].waiting.pop_first().unwrap();
            self.tell_server(nth, server::Input::Cancel { call });
        }
    }

    /// Somebody waits for each request without end.
    fn wait_for_all(&mut self, nth: usize) {
        // Calls that wait are given up, so that there is room for one for each.
        while !self.workers[nth].waiting.is_empty() {
            self.cancel(nth);
        }
        self.wait_for_some(nth);
    }

    fn wait_for_some(&mut self, nth: usize) {
        let run = self.workers[nth].incarnation;
        let open: Vec<usize> = self
            .requests
            .iter()
            .enumerate()
            .filter(|(_, it)| it.worker == nth && it.incarnation == run && !it.is_over)
            .map(|(request, _)| request)
            .collect();
        for request in open {
            let is_waited_for = self.workers[nth].waiting.values().any(|it| *it == request);
            if is_waited_for || self.workers[nth].waiting.len() >= self.config.calls_max {
                continue;
            }
            let Some(handler) = self.requests[request].handler else {
                continue;
            };
            let call = self.call();
            self.workers[nth].waiting.insert(call, request);
            let (timeout, since) = (None, Since::Call);
            self.tell_worker(nth, worker::Input::Wait { call, handler, timeout, since });
        }
    }

    /// Everything arrives, every unit is answered, and time passes.
    fn round(&mut self) {
        while !self.connects.is_empty() {
            self.connect();
        }
        while self.deliver(0) {}
        for nth in 0..self.servers.len() {
            self.get_batch(nth, Partial::AtDeadline, Some(0));
            while !self.servers[nth].held.is_empty() {
                self.respond(nth, 0);
            }
        }
        while self.deliver(0) {}
        (0..self.workers.len()).for_each(|nth| self.wait_for_some(nth));
        self.pass(300);
    }

    fn is_quiet(&self) -> bool {
        let worker = |it: &super::WorkerSide| {
            let report = it.machine.as_ref().unwrap().report();
            report.queued + report.open + report.unacknowledged + report.calls == 0
                && report.ready == self.servers.len()
        };
        let server = |it: &super::ServerSide| {
            let report = it.machine.as_ref().unwrap().report();
            report.queued + report.given_out + report.kept == 0
        };
        self.workers.iter().all(worker) && self.servers.iter().all(server) && self.links_are_empty()
    }

    fn links_are_empty(&self) -> bool {
        self.connects.is_empty() && self.links.values().all(|link| !link.is_over())
    }

    /// Who was not waited for can be now, and is answered at once.
    fn wait_for_rest(&mut self) {
        for nth in 0..self.workers.len() {
            let run = self.workers[nth].incarnation;
            assert!(self.workers[nth].waiting.is_empty(), "somebody waits for ever");
            self.wait_for_some(nth);
            assert!(self.workers[nth].waiting.is_empty(), "what is over is told at once");
            let of_it = |it: &&super::Request| it.worker == nth && it.incarnation == run;
            assert!(self.requests.iter().filter(of_it).all(|it| it.is_over), "all are over");
        }
    }

    fn nothing_is_left(&mut self) {
        for worker in &self.workers {
            let machine = worker.machine.as_ref().unwrap();
            let (report, ready) = (machine.report(), self.servers.len());
            let expected = worker::Report { ready, ..worker::Report::default() };
            assert_eq!(report, expected, "worker");
            assert_eq!(machine.deadline(), None);
        }
        for nth in 0..self.servers.len() {
            let calls = self.servers[nth].waiting.len();
            let machine = self.servers[nth].machine.as_ref().unwrap();
            let report = machine.report();
            let expected = server::Report {
                calls,
                slots: report.slots,
                connected: self.workers.len(),
                ..server::Report::default()
            };
            assert_eq!(report, expected, "server {nth}");
            self.tell_server(nth, server::Input::Stop);
            assert!(self.servers[nth].waiting.is_empty(), "who waits for a batch is told");
            assert_eq!(self.servers[nth].machine.as_ref().unwrap().deadline(), None);
        }
    }
}
