//! Connections between workers. As with TCP, what is on one comes in its order or not at all: when
//! something is lost, both ends notice that the connection is broken, each in its time. A request may
//! come a second time, on a connection of which its sender knows nothing.

use std::collections::BTreeMap;

use rondo_core::ids::CallId;

use super::event::{Event, Letter, What};
use super::{CALM, MS, World};
use crate::letters::End;

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    all: BTreeMap<u64, Connection>,
    last: u64,
}

/// A connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) client: Side,
    pub(super) server: Side,
    /// Whether the server is asked as TensorFlow's workers are.
    pub(super) is_plain: bool,
    /// Whether the request has come to the server.
    pub(super) is_made: bool,
    /// What is asked of the server.
    pub(super) asked: Option<(u64, u64)>,
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) worker: u32,
    /// The worker's process.
    pub(super) life: u32,
    /// The call that waits there.
    pub(super) call: Option<CallId>,
    pub(super) is_open: bool,
    /// Whether something that it has sent was lost.
    is_lost: bool,
    /// When the last thing that it has sent arrives.
    arrives_ns: u64,
}

impl Side {
    pub(super) const fn new(worker: u32, life: u32, call: Option<CallId>) -> Self {
        Self { worker, life, call, is_open: true, is_lost: false, arrives_ns: 0 }
    }
}

impl Connection {
    pub(super) const fn side(&mut self, end: End) -> &mut Side {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }
}

impl Connections {
    pub(super) fn open(&mut self, connection: Connection) -> u64 {
        self.last = self.last.wrapping_add(1);
        self.all.insert(self.last, connection);
        self.last
    }

    pub(super) fn get(&mut self, number: u64) -> Option<&mut Connection> {
        self.all.get_mut(&number)
    }

    /// Closes an end; the call that waits there.
    pub(super) fn close(&mut self, number: u64, end: End) -> Option<(u32, u32, CallId)> {
        let connection = self.all.get_mut(&number)?;
        let side = connection.side(end);
        let (was_open, call) = (std::mem::take(&mut side.is_open), side.call.take());
        let waiting = call.filter(|_| was_open).map(|call| (side.worker, side.life, call));
        if !connection.side(end.other()).is_open {
            self.all.remove(&number);
        }
        waiting
    }

    /// Ends of a worker's process.
    pub(super) fn of(&self, worker: u32) -> Vec<(u64, End)> {
        let ends = self.all.iter().flat_map(|(number, connection)| {
            let ends = [(End::Client, &connection.client), (End::Server, &connection.server)];
            ends.map(|(end, side)| (*number, end, side.is_open && side.worker == worker))
        });
        ends.filter(|(_, _, is_its)| *is_its).map(|(number, end, _)| (number, end)).collect()
    }
}

impl World {
    /// Sends something from one end of a connection to the other.
    pub(super) fn send_on(&mut self, number: u64, from: End, what: What) {
        let Some(connection) = self.connections.get(number) else {
            return;
        };
        let (ends, to) = ((connection.client.worker, connection.server.worker), from.other());
        let ends = if from == End::Client { ends } else { (ends.1, ends.0) };
        let side = connection.side(from);
        if side.is_lost {
            return;
        }
        let before_ns = side.arrives_ns;
        let copies = matches!(what, What::Ask { .. });
        let Some((at_ns, copy_ns)) = self.send(ends, copies) else {
            if let Some(connection) = self.connections.get(number) {
                connection.side(from).is_lost = true;
            }
            self.is_broken(number, from);
            self.is_broken(number, to);
            return;
        };
        let at_ns = at_ns.max(before_ns);
        if let Some(connection) = self.connections.get(number) {
            connection.side(from).arrives_ns = at_ns;
        }
        self.post(ends, what, at_ns, copy_ns);
    }

    /// Sends something that is on no connection of ours.
    pub(super) fn send_loose(&mut self, from: u32, to: u32, what: What) {
        if let Some((at_ns, copy_ns)) = self.send((from, to), true) {
            self.post((from, to), what, at_ns, copy_ns);
        }
    }

    fn post(&mut self, (from, to): (u32, u32), what: What, at_ns: u64, copy_ns: Option<u64>) {
        if let Some(copy_ns) = copy_ns {
            let copy = Letter { from, to, what: what.clone(), is_copy: true };
            let place = self.letters.put(copy);
            self.queue.plan(copy_ns, Event::Letter(place));
        }
        let place = self.letters.put(Letter { from, to, what, is_copy: false });
        self.queue.plan(at_ns, Event::Letter(place));
    }

    fn send(&mut self, ends: (u32, u32), copies: bool) -> Option<(u64, Option<u64>)> {
        let faults = if self.faults_on() { &self.swarm.faults } else { &CALM };
        let fate = self.net.send(self.now_ns, ends, copies, faults, &mut self.tally);
        fate.arrives_ns.map(|at_ns| (at_ns, fate.copy_ns))
    }

    /// An end of a connection will notice that it is broken.
    pub(super) fn is_broken(&mut self, number: u64, end: End) {
        let patience_ns = self.swarm.net.patience_ms.saturating_mul(MS);
        let late_ns = self.job.stream.between(1, patience_ns.max(1));
        self.queue.plan(self.now_ns.saturating_add(late_ns), Event::Breaks(number, end));
    }

    /// A message arrives, or a copy of one, which is on no link.
    pub(super) fn arrive(&mut self, place: u32) {
        let Some(letter) = self.letters.take(place) else {
            return;
        };
        let Letter { from, to, .. } = letter;
        if !letter.is_copy {
            self.net.arrived(from, to);
        }
        let place = self.letters.put(letter);
        if !self.is_held(to, Event::Read(place)) {
            self.read(place);
        }
    }

    /// A worker reads a message that has arrived.
    pub(super) fn read(&mut self, place: u32) {
        let Some(Letter { from, to, what, is_copy }) = self.letters.take(place) else {
            return;
        };
        match what {
            What::Ask { connection, message } if is_copy => {
                self.asked_by_nobody(from, to, connection, &message);
            }
            What::Ask { connection, message } => self.asked(connection, &message),
            What::Withdraw { connection } => self.breaks(connection, End::Server),
            What::Answer { connection, message } => self.answered(connection, &message),
            What::Refuse { connection, status } => self.is_refused(connection, status),
            What::Finished { path, message } => self.finished(to, path, &message),
            What::AskStatus { message } => self.status_asked(from, to, &message),
            What::TellStatus { message } => self.status_told(from, to, &message),
        }
    }
}
