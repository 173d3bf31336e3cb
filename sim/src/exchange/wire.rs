//! What is said, as frames; and what comes of frames that arrive.

use ::bytes::Bytes;
use rondo_core::exchange::message::{Tensor, ToMember, ToScheduler, ToServer, ToWorker};
use rondo_core::exchange::server::Place;
use rondo_core::exchange::{member, scheduler, server, worker};
use rondo_core::ids::ConnectionId;
use rondo_core::status::Status;
use rondo_proto::convert::exchange::{
    Body, FrameHead, FrameLimits, attach_to_server, attach_to_worker, encode_to_member,
    encode_to_scheduler, encode_to_server, encode_to_worker, tensors_to_server, tensors_to_worker,
};

use super::World;
use super::links::{Frame, Purpose, Standing};
use super::reader::{Coming, Landing, Said};
use crate::letters::End;
use crate::oracle::Broken;
use crate::oracle::exchange::{Met, Slice};

impl World {
    pub(super) fn say_to_scheduler(&mut self, number: u64, message: &ToScheduler) {
        let mut bytes = Vec::new();
        let head = encode_to_scheduler(message, &FrameLimits::of_scheduler(), &mut bytes);
        self.say(number, End::Client, (bytes, head), false, (0, &[]));
    }

    pub(super) fn say_to_member(&mut self, number: u64, message: &ToMember) {
        let mut bytes = Vec::new();
        let head = encode_to_member(message, &FrameLimits::of_scheduler(), &mut bytes);
        self.say(number, End::Server, (bytes, head), false, (0, &[]));
    }

    pub(super) fn say_to_server(&mut self, site: u32, number: u64, message: &ToServer<Slice>) {
        let mut bytes = Vec::new();
        let limits = FrameLimits::default();
        let head = encode_to_server(message, Body::Follows, &limits, &mut bytes);
        let may_repeat = !matches!(message, ToServer::Hello(_));
        let tensors = tensors_to_server(message);
        self.say(number, End::Client, (bytes, head), may_repeat, (site, tensors));
    }

    pub(super) fn say_to_worker(&mut self, site: u32, number: u64, message: &ToWorker<Slice>) {
        let mut bytes = Vec::new();
        let limits = FrameLimits::default();
        let head = encode_to_worker(message, Body::Follows, &limits, &mut bytes);
        let may_repeat = !matches!(message, ToWorker::Welcome(_) | ToWorker::Rejected(_));
        let tensors = tensors_to_worker(message);
        self.say(number, End::Server, (bytes, head), may_repeat, (site, tensors));
    }

    fn say(
        &mut self,
        number: u64,
        from: End,
        (mut bytes, head): (Vec<u8>, Result<FrameHead, Status>),
        may_repeat: bool,
        (site, tensors): (u32, &[Tensor<Slice>]),
    ) {
        if let Err(status) = head {
            return self.breaks_protocol(format!("what is said is no frame: {status}"));
        }
        let header_bytes = bytes.len();
        for tensor in tensors {
            let slice = tensor.payload;
            let Some(running) = self.sites.get_mut(site as usize).and_then(|it| it.running())
            else {
                return;
            };
            let met = Met::Read { site, slice: &slice, memory: &running.memory };
            super::see(&met, self.now_ns, &mut self.oracles, &mut self.broken);
            bytes.extend_from_slice(running.memory.read(&slice).unwrap_or_default());
        }
        self.send_frame(number, from, Frame { bytes: bytes.into(), header_bytes, may_repeat });
    }

    fn breaks_protocol(&mut self, text: String) {
        if self.broken.is_none() {
            let promise = "protocol".to_owned();
            self.broken = Some((Broken { promise, text }, self.now_ns));
        }
    }

    /// Bytes arrive at an end of a connection.
    pub(super) fn data(&mut self, number: u64, to: End, bytes: &Bytes) {
        let Some(link) = self.links.get(number) else {
            return;
        };
        link.side(to).reader.add(bytes);
        while self.reads_on(number, to) {}
    }

    /// Reads what has come, as far as it goes; whether there may be more.
    fn reads_on(&mut self, number: u64, to: End) -> bool {
        let Some(link) = self.links.get(number) else {
            return false;
        };
        let purpose = link.purpose;
        let side = link.side(to);
        let (site, life) = (side.site, side.life);
        if matches!(side.standing, Standing::Closed | Standing::Opening) {
            return false;
        }
        if side.reader.coming.is_none() {
            let (said, whole) = match side.reader.header(to, purpose) {
                None => return false,
                Some(Ok(header)) => header,
                Some(Err(status)) => {
                    self.breaks_protocol(format!("a frame is refused: {status}"));
                    return false;
                }
            };
            if self.living(site, life).is_none() {
                return false;
            }
            let landing = self.land(site, number, &said);
            if let (Said::Worker(ToWorker::Answer(_)), Landing::At(slices)) = (&said, &landing) {
                let connection = ConnectionId::new(number);
                self.see(&Met::Lands { site, connection, slices });
            }
            if let Some(link) = self.links.get(number) {
                link.side(to).reader.coming = Some(Coming::new(said, landing, whole));
            }
            return true;
        }
        let pieces = side.reader.body();
        let coming = side.reader.coming.take_if(|coming| coming.is_whole());
        for (slice, from, bytes) in pieces {
            self.write(site, &slice, from, &bytes);
        }
        match coming {
            Some(coming) => {
                self.is_said(site, number, to, coming);
                true
            }
            None => false,
        }
    }

    fn write(&mut self, site: u32, slice: &Slice, from: usize, bytes: &[u8]) {
        let part =
            Slice { at: slice.at.saturating_add(from as u64), bytes: bytes.len() as u64, ..*slice };
        self.see(&Met::Written { site, slice: &part });
        if let Some(running) = self.site(site).and_then(|it| it.running()) {
            running.memory.write(slice, from, bytes);
        }
    }

    /// Where the tensors of a message go whose header has come.
    fn land(&mut self, site: u32, number: u64, said: &Said) -> Landing {
        let connection = ConnectionId::new(number);
        let sizes: Vec<u64> = said.tensors().iter().map(|info| info.bytes()).collect();
        let Some(site) = self.site(site) else {
            return Landing::Nowhere(None);
        };
        match said {
            Said::Server(ToServer::Request(request)) => {
                let Some(side) = site.server() else {
                    return Landing::Nowhere(None);
                };
                let places = match side.machine.land(connection, request) {
                    server::Landing::At(places) => places,
                    server::Landing::Nowhere(refusal) => return Landing::Nowhere(refusal),
                };
                let Some(running) = site.running() else {
                    return Landing::Nowhere(None);
                };
                let slices = places.into_iter().zip(sizes).map(|(place, bytes)| match place {
                    Place::Slot { buffer, offset } => {
                        Slice { buffer: buffer.buffer, at: buffer.at.saturating_add(offset), bytes }
                    }
                    Place::Allocate => running.memory.room(bytes),
                });
                Landing::At(slices.collect())
            }
            Said::Worker(ToWorker::Answer(answer)) => {
                let Some(side) = site.worker() else {
                    return Landing::Nowhere(None);
                };
                match side.machine.land(connection, answer.number, &answer.tensors) {
                    worker::Landing::At(slices) => Landing::At(slices),
                    worker::Landing::Nowhere => Landing::Nowhere(None),
                }
            }
            _ => Landing::At(Vec::new()),
        }
    }

    /// A message has come, with all its tensors.
    fn is_said(&mut self, site: u32, number: u64, to: End, coming: Coming) {
        let purpose = self.links.get(number).map(|link| (link.purpose, link.side(to).standing));
        let Some((purpose, standing)) = purpose else {
            return;
        };
        let connection = ConnectionId::new(number);
        let received = self.shows(site);
        match (coming.message, coming.landing) {
            (Said::Scheduler(message), _) => {
                self.step_scheduler(scheduler::Input::Received { connection, message });
            }
            (Said::Member(message), _) => {
                if let Purpose::Scheduler(connection) = purpose
                    && standing == Standing::Open
                {
                    self.step_member(site, member::Input::Received { connection, message });
                }
            }
            (Said::Server(ToServer::Request(request)), Landing::Nowhere(refusal)) => {
                let (number, acknowledged) = (request.number, request.acknowledged);
                let input = server::Input::NotTaken { connection, number, acknowledged, refusal };
                self.step_server(site, input);
            }
            (Said::Server(message), Landing::At(slices)) => {
                if let Some(message) = attach_to_server(message, slices) {
                    let input = server::Input::Message { connection, received, message };
                    self.step_server(site, input);
                }
            }
            (Said::Worker(message), landing) => {
                let count = tensors_to_worker(&message).len();
                let slices = match landing {
                    Landing::At(slices) => slices,
                    Landing::Nowhere(_) => vec![Slice::NOWHERE; count],
                };
                if let Some(message) = attach_to_worker(message, slices) {
                    let input = worker::Input::Message { connection, received, message };
                    self.step_worker(site, input);
                }
            }
            (Said::Server(_), Landing::Nowhere(_)) => {}
        }
    }
}
