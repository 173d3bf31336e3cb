//! What must hold of what is told and written.

use std::collections::BTreeSet;

use rondo_core::exchange::server::Partial;
use rondo_core::exchange::worker::Complete;
use rondo_core::exchange::{Handler, Policy, Refusal};
use rondo_core::ids::{CallId, Incarnation};

use super::Net;

/// What a piece of memory has in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// What a request pushes.
    Push { request: usize },
    /// Where a request pulls to.
    Pull { request: usize, index: usize },
    /// What a server's application makes of a unit.
    Answer { server: usize, pushes: Vec<u32>, index: usize },
    /// Slots of a server.
    Buffer,
}

/// A request, as its caller knows it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) worker: usize,
    pub(crate) incarnation: Incarnation,
    pub(crate) handler: Option<Handler>,
    pub(crate) handlers: u64,
    pub(crate) pushes: Vec<u32>,
    pub(crate) pulls: Vec<u32>,
    pub(crate) per_server: usize,
    pub(crate) filled: BTreeSet<u32>,
    /// Whether its caller was told how it ended, or has given it up.
    pub(crate) is_over: bool,
}

impl Net {
    /// What is pulled has come.
    pub(super) fn filled(&mut self, destination: u32, source: u32) {
        let Content::Pull { request: nth, index } = self.contents[destination as usize].clone()
        else {
            panic!("{destination} is nothing that is pulled to");
        };
        let request = &mut self.requests[nth];
        assert!(!request.is_over, "request {nth} is over, and is written to");
        assert!(request.filled.insert(destination), "tensor {index} of {nth} comes twice");
        let per_server = request.per_server;
        let expected = Content::Answer {
            server: index / per_server,
            pushes: request.pushes.clone(),
            index: index % per_server,
        };
        assert_eq!(self.contents[source as usize], expected, "answer {index} of request {nth}");
    }

    pub(super) fn started(&mut self, nth: usize, _: CallId, result: Result<Handler, Refusal>) {
        let request = self.requests.last_mut().expect("it was asked for");
        assert_eq!(request.worker, nth);
        match result {
            Ok(handler) => {
                request.handler = Some(handler);
                let all = self.workers[nth].machine.as_ref().unwrap().all_handlers(handler);
                let last = self.requests.last().unwrap();
                let expected: Vec<Handler> =
                    (handler.get()..handler.get() + last.handlers).map(Handler::new).collect();
                assert_eq!(all, expected, "handlers follow each other");
                let before = self.requests.iter().rev().skip(1);
                let mut before = before
                    .filter(|it| it.worker == nth && it.incarnation == last.incarnation)
                    .filter_map(|it| it.handler.map(|first| first.get() + it.handlers));
                assert_eq!(handler.get(), before.next().unwrap_or(0), "no number is left out");
            }
            Err(refusal) => {
                let is_expected = match refusal {
                    Refusal::PeerLost(_) | Refusal::NoMembership => self.is_faulty,
                    Refusal::TooManyHandlers { .. }
                    | Refusal::RequestTooLarge { .. }
                    | Refusal::Empty => true,
                    _ => false,
                };
                assert!(is_expected, "refused: {refusal}");
                self.requests.last_mut().unwrap().is_over = true;
            }
        }
    }

    /// Somebody who waits is told.
    pub(super) fn waited(&mut self, nth: usize, call: CallId, result: Result<Complete, Refusal>) {
        let waiting = self.workers[nth].waiting.remove(&call);
        let request = waiting.unwrap_or_else(|| panic!("{call} was told before"));
        match result {
            Ok(complete) => self.completed(request, &complete),
            Err(Refusal::Late { missing, .. }) => assert!(!missing.is_empty(), "late for nothing"),
            Err(Refusal::TooManyCalls { .. }) => {}
            Err(Refusal::Abandoned { .. }) => assert!(self.requests[request].is_over),
            Err(Refusal::UnknownHandler { .. }) => {
                assert!(self.requests[request].is_over, "request {request} is not over");
            }
            Err(refusal @ (Refusal::PeerLost(_) | Refusal::Refused { .. })) => {
                assert!(self.is_faulty, "nothing happened, and yet: {refusal}");
                self.requests[request].is_over = true;
            }
            Err(other) => panic!("{other}"),
        }
        self.nothing_ended_is_written();
    }

    fn completed(&mut self, nth: usize, complete: &Complete) {
        let missing: BTreeSet<usize> =
            complete.missing.iter().map(|lost| lost.rank.get() as usize).collect();
        assert!(missing.is_empty() || self.setup.policy == Policy::Partial, "{missing:?}");
        let request = &mut self.requests[nth];
        for (index, pull) in request.pulls.iter().enumerate() {
            let server = index / request.per_server;
            let is_filled = request.filled.contains(pull);
            assert!(is_filled || missing.contains(&server), "request {nth} lacks tensor {index}");
        }
        request.is_over = true;
    }

    /// A batch of all cannot come when one is lost; who wants one is told, if that is how it is to be.
    pub(super) fn nobody_waits_for_the_lost(&self, nth: usize) {
        let server = &self.servers[nth];
        let is_lost = !server.runs.is_empty() && server.up.len() < self.setup.workers;
        if self.setup.batch_fails_on_loss && is_lost {
            let mut waiting = server.waiting.values();
            assert!(waiting.all(|partial| *partial != Partial::Never), "for a worker that is lost");
        }
    }

    /// Who was told that a request is over may use its memory.
    pub(super) fn nothing_ended_is_written(&self) {
        for worker in self.workers.iter().filter(|worker| worker.machine.is_some()) {
            for destination in worker.written.values().flatten() {
                let Content::Pull { request, .. } = self.contents[*destination as usize] else {
                    panic!("{destination} is nothing that is pulled to");
                };
                assert!(!self.requests[request].is_over, "request {request} is being written to");
            }
        }
    }

    /// A server begins to write what is pushed to these slots: nobody reads there.
    pub(super) fn begins_to_write(&mut self, nth: usize, connection: u64, slots: &[(u32, u64)]) {
        let server = &mut self.servers[nth];
        for slot in slots {
            let is_read = |held: &super::Held| held.is_read && held.slots.contains(slot);
            assert!(!server.held.values().any(is_read), "{slot:?} is read and written");
            let others = server.written.values().flatten();
            assert!(!others.into_iter().any(|other| other == slot), "{slot:?} is written twice");
        }
        server.written.insert(connection, slots.to_vec());
        // Whatever lay there is gone.
        server.slots.retain(|slot, _| !slots.contains(slot));
    }
}
