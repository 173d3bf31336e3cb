//! Connections: in order, each message once, until they break.

use std::collections::VecDeque;

use rondo_core::exchange::message::{Answer, Request, ToServer, ToWorker};
use rondo_core::exchange::{server, worker};
use rondo_core::ids::{ConnectionId, Incarnation};

use super::Net;

/// Something on its way.
pub(crate) enum Item<M> {
    Message(M),
    /// The connection is over.
    End,
}

/// A connection.
pub(crate) struct Link {
    pub(crate) worker: usize,
    pub(crate) server: usize,
    pub(crate) of_worker: Incarnation,
    pub(crate) of_server: Incarnation,
    up: VecDeque<Item<ToServer<u32>>>,
    down: VecDeque<Item<ToWorker<u32>>>,
    /// Where the first message is being written whose beginning was seen.
    up_lands: Option<server::Landing<u32>>,
    down_lands: Option<worker::Landing<u32>>,
    is_over: bool,
    /// The last messages about requests that arrived.
    arrived: VecDeque<Arrived>,
}

/// Something that has arrived, and may do so again.
#[derive(Clone)]
enum Arrived {
    Up(ToServer<u32>),
    Down(ToWorker<u32>),
}

/// So many of them may.
const ARRIVED_MAX: usize = 6;

impl Net {
    /// One of the connections that workers want is made, or not.
    pub(crate) fn connect(&mut self) {
        let Some((worker, server, of_worker, of_server)) = self.connects.pop_front() else {
            return;
        };
        if self.workers[worker].incarnation != of_worker {
            return;
        }
        let to = rondo_core::exchange::ServerRank::new(u32::try_from(server).unwrap());
        let it = &self.servers[server];
        let is_there = it.machine.is_some() && it.incarnation == of_server;
        if !is_there || self.cut.contains(&(worker, server)) {
            let (why, incarnation) = ("there is no way".into(), of_server);
            let input = worker::Input::NotConnected { server: to, incarnation, why };
            return self.tell_worker(worker, input);
        }
        let number = self.draw();
        let link = Link {
            worker,
            server,
            of_worker,
            of_server,
            up: VecDeque::new(),
            down: VecDeque::new(),
            up_lands: None,
            down_lands: None,
            is_over: false,
            arrived: VecDeque::new(),
        };
        self.links.insert(number, link);
        let (connection, incarnation) = (ConnectionId::new(number), of_server);
        self.tell_worker(worker, worker::Input::Connected { server: to, incarnation, connection });
    }

    pub(super) fn send_up(&mut self, connection: u64, message: ToServer<u32>) {
        if let Some(link) = self.links.get_mut(&connection).filter(|link| !link.is_over) {
            link.up.push_back(Item::Message(message));
        }
    }

    pub(super) fn send_down(&mut self, connection: u64, message: ToWorker<u32>) {
        if let Some(link) = self.links.get_mut(&connection).filter(|link| !link.is_over) {
            link.down.push_back(Item::Message(message));
        }
    }

    /// A connection ends; what was sent before may still arrive.
    pub(super) fn close(&mut self, connection: u64) {
        if let Some(link) = self.links.get_mut(&connection).filter(|link| !link.is_over) {
            link.is_over = true;
            link.up.push_back(Item::End);
            link.down.push_back(Item::End);
        }
    }

    /// A connection breaks. Of what was sent only so many messages still arrive.
    pub(super) fn cut_off(&mut self, connection: u64, up: usize, down: usize) {
        if let Some(link) = self.links.get_mut(&connection).filter(|link| !link.is_over) {
            // What has begun to arrive breaks off too, or does not.
            link.up.truncate(up);
            link.down.truncate(down);
        }
        self.close(connection);
    }

    /// The nth of what is on its way gets a step further. Whether anything was.
    pub(crate) fn deliver(&mut self, nth: usize) -> bool {
        let moving: Vec<(u64, bool)> = self
            .links
            .iter()
            .flat_map(|(id, link)| {
                let up = (!link.up.is_empty()).then_some((*id, true));
                let down = (!link.down.is_empty()).then_some((*id, false));
                [up, down].into_iter().flatten()
            })
            .collect();
        let Some((connection, is_up)) = moving.get(nth % moving.len().max(1)).copied() else {
            return false;
        };
        if is_up {
            self.deliver_up(connection)
        } else {
            self.deliver_down(connection)
        }
        if self.links[&connection].is_done() {
            self.links.remove(&connection);
        }
        true
    }

    /// One of the last messages of a connection that stands arrives once more.
    pub(crate) fn repeat(&mut self, nth: usize, which: usize) {
        let whole: Vec<u64> =
            self.links.iter().filter(|(_, link)| !link.is_over).map(|(id, _)| *id).collect();
        let Some(id) = whole.get(nth % whole.len().max(1)) else {
            return;
        };
        let (link, connection, received) = (&self.links[id], ConnectionId::new(*id), self.now);
        let is_read = link.up_lands.is_some() || link.down_lands.is_some();
        let Some(arrived) = link.arrived.get(which % ARRIVED_MAX).filter(|_| !is_read).cloned()
        else {
            return;
        };
        let (worker, server) = (link.worker, link.server);
        match arrived {
            Arrived::Up(message) => {
                self.tell_server(server, server::Input::Message { connection, received, message });
            }
            Arrived::Down(message) => {
                self.tell_worker(worker, worker::Input::Message { connection, received, message });
            }
        }
    }

    fn deliver_up(&mut self, connection: u64) {
        let link = self.links.get_mut(&connection).unwrap();
        let (nth, run) = (link.server, link.of_server);
        let lives = self.servers[nth].incarnation == run && self.servers[nth].machine.is_some();
        let id = ConnectionId::new(connection);
        if lives
            && link.up_lands.is_none()
            && let Some(Item::Message(ToServer::Request(request))) = link.up.front()
        {
            let machine = self.servers[nth].machine.as_mut().unwrap();
            let landing = machine.land(id, request);
            self.server_lands(connection, landing);
            return;
        }
        let link = self.links.get_mut(&connection).unwrap();
        let (item, lands) = (link.up.pop_front().unwrap(), link.up_lands.take());
        if !lives {
            return;
        }
        if let Item::Message(message @ (ToServer::Request(_) | ToServer::Acknowledge { .. })) =
            &item
        {
            link.has_arrived(Arrived::Up(message.clone()));
        }
        let received = self.now;
        match item {
            Item::End => {
                self.servers[nth].written.remove(&connection);
                let why = "it broke".into();
                self.tell_server(nth, server::Input::Disconnected { connection: id, why });
            }
            Item::Message(ToServer::Request(request)) => {
                self.request_arrives(nth, id, request, lands.unwrap());
            }
            Item::Message(message) => {
                self.tell_server(nth, server::Input::Message { connection: id, received, message });
            }
        }
    }

    fn server_lands(&mut self, connection: u64, landing: server::Landing<u32>) {
        let link = self.links.get_mut(&connection).unwrap();
        let (nth, worker) = (link.server, u32::try_from(link.worker).unwrap());
        let Some(Item::Message(ToServer::Request(request))) = link.up.front() else {
            return;
        };
        let keys: Vec<u64> = request.pushes.iter().map(|push| push.key.get()).collect();
        link.up_lands = Some(landing.clone());
        if let server::Landing::At(places) = landing {
            assert_eq!(places.len(), keys.len(), "each tensor has a place");
            let in_slots = keys.into_iter().zip(places).filter_map(|(key, place)| match place {
                server::Place::Slot { .. } => Some((worker, key)),
                server::Place::Allocate => None,
            });
            let in_slots: Vec<(u32, u64)> = in_slots.collect();
            self.begins_to_write(nth, connection, &in_slots);
        }
    }

    fn request_arrives(
        &mut self,
        nth: usize,
        connection: ConnectionId,
        request: Request<u32>,
        landing: server::Landing<u32>,
    ) {
        let received = self.now;
        match landing {
            server::Landing::At(_) => {
                let slots = self.servers[nth].written.remove(&connection.get());
                // What is sent again may lie elsewhere than the first time.
                let pushes = request.pushes.iter().map(|push| push.payload);
                for push in pushes {
                    self.servers[nth].in_slot.remove(&push);
                }
                for slot in slots.unwrap_or_default() {
                    let pushed = request.pushes.iter().find(|push| push.key.get() == slot.1);
                    self.servers[nth].slots.insert(slot, pushed.unwrap().payload);
                    self.servers[nth].in_slot.insert(pushed.unwrap().payload, slot);
                }
                let message = ToServer::Request(request);
                self.tell_server(nth, server::Input::Message { connection, received, message });
            }
            server::Landing::Nowhere(refusal) => {
                let (number, acknowledged) = (request.number, request.acknowledged);
                let input = server::Input::NotTaken { connection, number, acknowledged, refusal };
                self.tell_server(nth, input);
            }
        }
    }

    fn deliver_down(&mut self, connection: u64) {
        let link = self.links.get_mut(&connection).unwrap();
        let (nth, run) = (link.worker, link.of_worker);
        let lives = self.workers[nth].incarnation == run && self.workers[nth].machine.is_some();
        let id = ConnectionId::new(connection);
        if lives
            && link.down_lands.is_none()
            && let Some(Item::Message(ToWorker::Answer(answer))) = link.down.front()
        {
            let machine = self.workers[nth].machine.as_mut().unwrap();
            let landing = machine.land(id, answer.number, &answer.tensors);
            if let worker::Landing::At(at) = &landing {
                assert_eq!(at.len(), answer.tensors.len(), "each tensor has a place");
                let others = self.workers[nth].written.values().flatten();
                let is_written = |to: &u32| at.contains(to);
                assert!(!others.into_iter().any(is_written), "{at:?} are written twice at once");
                self.workers[nth].written.insert(connection, at.clone());
            }
            let link = self.links.get_mut(&connection).unwrap();
            link.down_lands = Some(landing);
            return self.nothing_ended_is_written();
        }
        let link = self.links.get_mut(&connection).unwrap();
        let (item, lands) = (link.down.pop_front().unwrap(), link.down_lands.take());
        if !lives {
            return;
        }
        match &item {
            Item::End | Item::Message(ToWorker::Welcome(_) | ToWorker::Rejected(_)) => {}
            Item::Message(message) => link.has_arrived(Arrived::Down(message.clone())),
        }
        self.workers[nth].written.remove(&connection);
        let received = self.now;
        let input = match item {
            Item::End => worker::Input::Disconnected { connection: id, why: "it broke".into() },
            Item::Message(ToWorker::Answer(answer)) => {
                let message = ToWorker::Answer(read(answer, lands));
                worker::Input::Message { connection: id, received, message }
            }
            Item::Message(message) => worker::Input::Message { connection: id, received, message },
        };
        self.tell_worker(nth, input);
    }
}

/// An answer that was read to nowhere has no payload.
fn read(answer: Answer<u32>, landing: Option<worker::Landing<u32>>) -> Answer<u32> {
    let mut answer = answer;
    if landing == Some(worker::Landing::Nowhere) {
        answer.tensors.iter_mut().for_each(|tensor| tensor.payload = u32::MAX);
    }
    answer
}

impl Link {
    fn has_arrived(&mut self, arrived: Arrived) {
        self.arrived.push_front(arrived);
        self.arrived.truncate(ARRIVED_MAX);
    }

    fn is_done(&self) -> bool {
        self.is_over && self.up.is_empty() && self.down.is_empty()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}
