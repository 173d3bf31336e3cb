//! A worker or server process: its place among the others, and what it exchanges with them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::exchange::member::{self, Ask, Effect, Input, Member, Reply};
use rondo_core::exchange::membership::Membership;
use rondo_core::exchange::message::{Failure, ToMember, ToScheduler};
use rondo_core::exchange::server::{self, Server};
use rondo_core::exchange::worker::{self, Worker};
use rondo_core::exchange::{InstanceRank, Page, Role};
use rondo_core::ids::{CallId, ConnectionId};
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;
use rondo_proto::convert::exchange::{FrameHead, FrameLimits, decode_to_member};

use super::engine::Station;
use super::link::Place;
use super::links::{LinkId, Links};
use super::server_side::{ServerSide, of_strangers};
use super::speech::to_scheduler;
use super::worker_side::WorkerSide;
use crate::clock::Clock;
use crate::tensor::TensorBuffer;
use crate::tensor::cuda::Uuid;

/// Links of who has connected before this process knew its rank.
const EARLY_MAX: usize = 1 << 16;

/// A process and its links.
pub(super) struct Process {
    member: Member,
    scheduler: Vec<Arc<str>>,
    limits: FrameLimits,
    clock: Clock,
    way: Option<Way>,
    pub(super) side: Side,
    /// Peers that connected before there was a side, the first one in front.
    early: Vec<Early>,
    effects: Vec<Effect>,
    inputs: VecDeque<Input>,
    pub(super) replies: BTreeMap<CallId, Result<Reply, Failure>>,
    last_call: CallId,
}

/// The link to the scheduler.
struct Way {
    link: LinkId,
    connection: ConnectionId,
    coming: Option<ToMember>,
}

/// A peer that connected before there was a side.
struct Early {
    link: LinkId,
    /// What it said.
    said: Option<(FrameHead, Bytes)>,
    /// When its link is closed if it has said nothing by then.
    until: Time,
}

/// What a process does with others.
pub(super) enum Side {
    /// Nothing yet: its rank is not known.
    None,
    Worker(WorkerSide),
    Server(ServerSide),
}

impl Process {
    /// A process that has not been asked to take part, and where its scheduler is.
    pub(super) fn new(
        settings: member::Settings,
        scheduler: &str,
        limits: FrameLimits,
        clock: Clock,
    ) -> Result<Self, Status> {
        Ok(Self {
            limits,
            clock,
            member: Member::start(settings)?,
            scheduler: vec![Arc::from(format!("tcp://{scheduler}"))],
            way: None,
            side: Side::None,
            early: Vec::new(),
            effects: Vec::new(),
            inputs: VecDeque::new(),
            replies: BTreeMap::new(),
            last_call: CallId::new(0),
        })
    }

    /// A name for a call.
    pub(super) fn call(&mut self) -> CallId {
        self.last_call = CallId::new(self.last_call.get().wrapping_add(1));
        self.last_call
    }

    /// What the process knows of others.
    pub(super) const fn member(&self) -> &Member {
        &self.member
    }

    /// Asks for something that the scheduler sees to.
    pub(super) fn ask(&mut self, now: Time, ask: Ask, links: &mut Links) -> CallId {
        let call = self.call();
        self.step(now, Input::Asked { call, ask }, links);
        call
    }

    /// Nobody waits for this call any more.
    pub(super) fn cancel(&mut self, now: Time, call: CallId, links: &mut Links) {
        self.step(now, Input::Cancel { call }, links);
        self.replies.remove(&call);
        match &mut self.side {
            Side::None => {}
            Side::Worker(side) => side.step(now, worker::Input::Cancel { call }, links),
            Side::Server(side) => side.step(now, server::Input::Cancel { call }, links),
        }
    }

    fn step(&mut self, now: Time, input: Input, links: &mut Links) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            let mut effects = std::mem::take(&mut self.effects);
            self.member.step(now, input, &mut effects);
            for effect in effects.drain(..) {
                self.perform(now, effect, links);
            }
            self.effects = effects;
        }
    }

    fn perform(&mut self, now: Time, effect: Effect, links: &mut Links) {
        match effect {
            Effect::Connect { connection } => match links.open(&self.scheduler, "", "") {
                Ok(link) => self.way = Some(Way { link, connection, coming: None }),
                Err(error) => {
                    let status = self.away(&error);
                    self.inputs.push_back(Input::NotConnected { connection, status });
                }
            },
            Effect::Send { connection, message } => {
                let way = self.way.as_ref().filter(|way| way.connection == connection);
                let frame = to_scheduler(&message, &FrameLimits::of_scheduler());
                if let (Some(way), Some(frame)) = (way, frame) {
                    links.send(way.link, frame);
                }
            }
            Effect::Close { connection } => {
                if let Some(way) = self.way.take_if(|way| way.connection == connection) {
                    links.close(way.link);
                }
            }
            Effect::Done { call, result } => {
                if let Ok(Reply::Joined { rank, .. }) = &result {
                    self.begin(now, *rank, links);
                }
                self.replies.insert(call, result);
            }
            Effect::AskTraces { connection, number, after } => {
                let page = self.page(now, after);
                let message = ToScheduler::Traces { number, page };
                self.perform(now, Effect::Send { connection, message }, links);
            }
            Effect::Membership(membership) => self.tell(now, &membership, links),
            Effect::Over(status) => self.end(now, &status, links),
            Effect::Observe(member::Event::Away { status }) => {
                tracing::warn!(%status, "there is no way to the scheduler");
            }
            Effect::Observe(member::Event::Back { after }) => {
                tracing::info!(ms = after.as_millis(), "the scheduler is back");
            }
        }
    }

    /// Some of what it knows of its requests. What servers know travels with their answers.
    pub(super) fn page(&self, now: Time, after: u64) -> Page {
        match &self.side {
            Side::Worker(side) => side.machine.page(now, after),
            Side::None | Side::Server(_) => {
                Page { received: now, answered: now, ..Page::default() }
            }
        }
    }

    /// The process knows its rank: what it exchanges tensors with begins.
    fn begin(&mut self, now: Time, rank: InstanceRank, links: &mut Links) {
        if !matches!(self.side, Side::None) {
            return;
        }
        let member::Settings { identity, config, .. } = self.member.settings();
        let (incarnation, host) = (identity.incarnation, Arc::clone(&identity.host));
        // The member's settings are checked, and these are the same.
        self.side = match identity.role {
            Role::Worker => match Worker::start(config.clone(), rank, incarnation) {
                Ok(machine) => {
                    Side::Worker(WorkerSide::new(machine, host, self.limits, self.clock))
                }
                Err(status) => return tracing::error!(%status, "there is no worker"),
            },
            Role::Server => match Server::start(config.clone(), rank, incarnation) {
                Ok(machine) => Side::Server(ServerSide::new(machine, self.limits, self.clock)),
                Err(status) => return tracing::error!(%status, "there is no server"),
            },
            Role::Scheduler => return,
        };
        if let Some(membership) = self.member.membership().cloned() {
            self.tell(now, &membership, links);
        }
        for Early { link, said, .. } in std::mem::take(&mut self.early) {
            if let Side::Server(side) = &mut self.side {
                side.accepted(now, link, links);
                if let Some((head, header)) = said {
                    match side.place(link, head, &header) {
                        Ok(_) => side.arrived(now, link, Vec::new(), links),
                        Err(error) => links.remove(link, error),
                    }
                }
            }
        }
    }

    fn tell(&mut self, now: Time, membership: &Arc<Membership>, links: &mut Links) {
        let membership = Membership::clone(membership);
        match &mut self.side {
            Side::None => {}
            Side::Worker(side) => side.step(now, worker::Input::Membership(membership), links),
            Side::Server(side) => side.step(now, server::Input::Membership(membership), links),
        }
    }

    /// The process takes part no more.
    fn end(&mut self, now: Time, status: &Status, links: &mut Links) {
        tracing::warn!(%status, "this process takes part no more");
        self.stop(now, links);
    }

    /// Who waits is told that nothing comes any more; links to peers are closed.
    pub(super) fn stop(&mut self, now: Time, links: &mut Links) {
        match &mut self.side {
            Side::None => {}
            Side::Worker(side) => side.step(now, worker::Input::Stop, links),
            Side::Server(side) => side.step(now, server::Input::Stop, links),
        }
    }

    /// Whether everybody whom it exchanges tensors with takes them from the memory of this GPU by himself.
    pub(super) fn is_seen(&self, device: Uuid, links: &Links) -> bool {
        match &self.side {
            Side::None => false,
            Side::Worker(side) => side.is_seen(device, links),
            Side::Server(side) => side.is_seen(device, links),
        }
    }

    /// What it is as a worker.
    pub(super) fn worker(&mut self) -> Option<&mut WorkerSide> {
        match &mut self.side {
            Side::Worker(side) => Some(side),
            _ => None,
        }
    }

    /// What it is as a server.
    pub(super) fn server(&mut self) -> Option<&mut ServerSide> {
        match &mut self.side {
            Side::Server(side) => Some(side),
            _ => None,
        }
    }

    /// Why there is no way to the scheduler.
    fn away(&self, why: &io::Error) -> Status {
        let at = self.scheduler.first().map_or("", |address| address.as_ref());
        Status::new(Code::Unavailable, format!("{at}: {why}"))
    }

    /// A peer has connected before there is a side. The same deadline applies as later.
    fn accepted_early(&mut self, now: Time, link: LinkId, links: &mut Links) {
        let config = &self.member.settings().config;
        links.set_bounds(link, of_strangers(self.limits, config).into());
        let until = now.after(config.heartbeat_timeout);
        self.early.push(Early { link, said: None, until });
    }

    /// Closes the links of peers that connected early and have said nothing in time.
    fn give_up_silent(&self, now: Time, links: &mut Links) {
        let silent = self.early.iter().filter(|early| early.said.is_none() && early.until <= now);
        for early in silent {
            let text = "its other end did not say who it is in time (heartbeat_timeout)";
            links.remove(early.link, io::Error::new(io::ErrorKind::TimedOut, text));
        }
    }

    fn is_way(&self, link: LinkId) -> bool {
        self.way.as_ref().is_some_and(|way| way.link == link)
    }
}

impl Station for Process {
    fn accepted(&mut self, now: Time, link: LinkId, links: &mut Links) {
        match &mut self.side {
            Side::Server(side) => side.accepted(now, link, links),
            Side::None if self.early.len() < EARLY_MAX => self.accepted_early(now, link, links),
            Side::None | Side::Worker(_) => {
                links.remove(link, io::Error::other("nobody connects to a worker"));
            }
        }
    }

    fn opened(&mut self, now: Time, link: LinkId, links: &mut Links) {
        if let Some(way) = self.way.as_ref().filter(|way| way.link == link) {
            let connection = way.connection;
            return self.step(now, Input::Connected { connection }, links);
        }
        if let Side::Worker(side) = &mut self.side {
            side.opened(now, link, links);
        }
    }

    fn place(&mut self, link: LinkId, head: FrameHead, header: &Bytes) -> io::Result<Vec<Place>> {
        if let Some(way) = self.way.as_mut().filter(|way| way.link == link) {
            way.coming = Some(decode_to_member(head, header).map_err(io::Error::other)?);
            return Ok(Vec::new());
        }
        match &mut self.side {
            Side::Worker(side) => side.place(link, head, header),
            Side::Server(side) => side.place(link, head, header),
            Side::None => {
                let early = self.early.iter_mut().find(|early| early.link == link);
                match early {
                    // One message: who it is. It says no more before it is answered.
                    Some(Early { said: said @ None, .. }) => *said = Some((head, header.clone())),
                    _ => return Err(io::Error::other("it says more than who it is")),
                }
                Ok(Vec::new())
            }
        }
    }

    fn arrived(&mut self, now: Time, link: LinkId, tensors: Vec<TensorBuffer>, links: &mut Links) {
        if let Some(way) = self.way.as_mut().filter(|way| way.link == link) {
            let connection = way.connection;
            if let Some(message) = way.coming.take() {
                self.step(now, Input::Received { connection, message }, links);
            }
            return;
        }
        match &mut self.side {
            Side::Worker(side) => side.arrived(now, link, tensors, links),
            Side::Server(side) => side.arrived(now, link, tensors, links),
            Side::None => {}
        }
    }

    fn closed(&mut self, now: Time, link: LinkId, why: &io::Error, links: &mut Links) {
        if self.is_way(link) {
            if let Some(Way { connection, .. }) = self.way.take() {
                let status = self.away(why);
                self.step(now, Input::Disconnected { connection, status }, links);
            }
            return;
        }
        match &mut self.side {
            Side::Worker(side) => side.closed(now, link, why, links),
            Side::Server(side) => side.closed(now, link, why, links),
            Side::None => self.early.retain(|early| early.link != link),
        }
    }

    fn tick(&mut self, now: Time, links: &mut Links) {
        self.step(now, Input::Tick, links);
        self.give_up_silent(now, links);
        match &mut self.side {
            Side::None => {}
            Side::Worker(side) => side.step(now, worker::Input::Tick, links),
            Side::Server(side) => side.step(now, server::Input::Tick, links),
        }
    }

    fn deadline(&self) -> Option<Time> {
        let side = match &self.side {
            Side::None => {
                let silent = self.early.iter().find(|early| early.said.is_none());
                silent.map(|early| early.until)
            }
            Side::Worker(side) => side.machine.deadline(),
            Side::Server(side) => side.machine.deadline(),
        };
        [self.member.deadline(), side].into_iter().flatten().min()
    }
}
