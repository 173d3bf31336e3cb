//! Drives the machines of processes: an input in, its effects carried out in their order.

use std::fmt::Debug;

use rondo_core::exchange::message::ToScheduler;
use rondo_core::exchange::server::Server;
use rondo_core::exchange::worker::Worker;
use rondo_core::exchange::{Page, Refusal, Role, ServerRank, member, scheduler, server, worker};
use rondo_core::ids::{ConnectionId, Incarnation};
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

use super::event::Event;
use super::links::Purpose;
use super::site::{Being, Process, SCHEDULER, Side};
use super::{World, lane, see};
use crate::letters::End;
use crate::oracle::exchange::{Met, Slice};
use crate::trace::{LineKind, TraceHash, of_debug};

impl World {
    /// What the clock of a process shows.
    pub(super) fn shows(&self, site: u32) -> Time {
        let clock = self.sites.get(site as usize).map(|site| site.clock);
        clock.map_or(Time::ZERO, |clock| clock.shows(self.now_ns))
    }

    fn log<I: Debug, E: Debug>(&mut self, site: u32, input: &I, effects: &[E]) {
        self.steps = self.steps.wrapping_add(1);
        let now_ns = self.now_ns;
        let mut hash = TraceHash::default();
        of_debug(input, &mut hash);
        effects.iter().for_each(|effect| of_debug(effect, &mut hash));
        self.trace.hash(now_ns, u64::from(site), hash.value());
        self.trace.line(now_ns, lane(site), LineKind::Input, || format!("{input:?}"));
        for effect in effects {
            self.trace.line(now_ns, lane(site), LineKind::Effect, || format!("{effect:?}"));
        }
    }

    pub(super) fn step_scheduler(&mut self, input: scheduler::Input) {
        let now = self.shows(SCHEDULER);
        let site = self.sites.get_mut(SCHEDULER as usize);
        let Some(Process::Scheduler(machine)) = site.and_then(|site| site.process.as_mut()) else {
            return;
        };
        let mut effects = Vec::new();
        machine.step(now, input.clone(), &mut effects);
        let (input, made) = (&input, effects.as_slice());
        let met = Met::SchedulerStepped { now, input, effects: made, machine };
        see(&met, self.now_ns, &mut self.oracles, &mut self.broken);
        self.log(SCHEDULER, input, &effects);
        self.mark_scheduler(&effects);
        for effect in effects {
            match effect {
                scheduler::Effect::Send { connection, message } => {
                    self.say_to_member(connection.get(), &message);
                }
                scheduler::Effect::Close { connection } => {
                    self.close(connection.get(), End::Server);
                }
                scheduler::Effect::Done { .. } | scheduler::Effect::Observe(_) => {}
            }
        }
        self.plan_tick(SCHEDULER);
    }

    pub(super) fn step_member(&mut self, number: u32, input: member::Input) {
        let now = self.shows(number);
        let Some(running) = self.sites.get_mut(number as usize).and_then(|it| it.running()) else {
            return;
        };
        let mut effects = Vec::new();
        running.member.step(now, input.clone(), &mut effects);
        let (machine, input, made) = (&running.member, &input, effects.as_slice());
        let met = Met::MemberStepped { site: number, now, input, effects: made, machine };
        see(&met, self.now_ns, &mut self.oracles, &mut self.broken);
        self.log(number, input, &effects);
        for effect in effects {
            self.member_wants(number, effect);
        }
        self.plan_tick(number);
    }

    fn member_wants(&mut self, number: u32, effect: member::Effect) {
        match effect {
            member::Effect::Connect { connection } => {
                let link = self.connect(number, SCHEDULER, Purpose::Scheduler(connection));
                if let Some(running) = self.site(number).and_then(|it| it.running()) {
                    running.ways.insert(connection, link);
                }
            }
            member::Effect::Send { connection, message } => {
                if let Some(link) = self.way(number, connection) {
                    self.say_to_scheduler(link, &message);
                }
            }
            member::Effect::Close { connection } => {
                if let Some(link) = self.way(number, connection) {
                    self.close(link, End::Client);
                }
            }
            member::Effect::Done { call, result } => self.scheduler_told(number, call, result),
            member::Effect::Membership(membership) => {
                let of = (*membership).clone();
                match self.role(number) {
                    Role::Worker => self.step_worker(number, worker::Input::Membership(of)),
                    _ => self.step_server(number, server::Input::Membership(of)),
                }
            }
            member::Effect::AskTraces { connection, number: of, after } => {
                let now = self.shows(number);
                let page = match self.site(number).and_then(|it| it.running()).map(|it| &it.side) {
                    Some(Side::Worker(side)) => side.machine.page(now, after),
                    _ => Page { received: now, answered: now, ..Page::default() },
                };
                if let Some(link) = self.way(number, connection) {
                    self.say_to_scheduler(link, &ToScheduler::Traces { number: of, page });
                }
            }
            member::Effect::Over(status) => self.is_over(number, &status),
            member::Effect::Observe(event) => self.mark_member(&event),
        }
    }

    fn way(&mut self, number: u32, connection: ConnectionId) -> Option<u64> {
        self.site(number)?.running()?.ways.get(&connection).copied()
    }

    pub(super) fn role(&self, number: u32) -> Role {
        self.sites.get(number as usize).map_or(Role::Scheduler, |site| site.role)
    }

    pub(super) fn step_worker(&mut self, number: u32, input: worker::Input<Slice>) {
        let now = self.shows(number);
        let Some(running) = self.sites.get_mut(number as usize).and_then(|it| it.running()) else {
            return;
        };
        let Side::Worker(side) = &mut running.side else {
            return;
        };
        let mut effects = Vec::new();
        side.machine.step(now, input.clone(), &mut effects);
        for effect in &effects {
            // Mostly the two are the same memory.
            if let worker::Effect::Fill { destination, source } = effect
                && destination != source
                && let Some(bytes) = running.memory.read(source).map(<[u8]>::to_vec)
            {
                running.memory.write(destination, 0, &bytes);
            }
        }
        let (machine, memory) = (&side.machine, &running.memory);
        let (input, made) = (&input, effects.as_slice());
        let met = Met::WorkerStepped { site: number, now, input, effects: made, machine, memory };
        see(&met, self.now_ns, &mut self.oracles, &mut self.broken);
        self.log(number, input, &effects);
        self.mark_worker(input, &effects);
        for effect in effects {
            self.worker_wants(number, effect);
        }
        self.plan_tick(number);
    }

    fn worker_wants(&mut self, number: u32, effect: worker::Effect<Slice>) {
        match effect {
            worker::Effect::Connect { server, incarnation, addresses, .. } => {
                let address = addresses.first().map(|it| it.to_string()).unwrap_or_default();
                let to = self.sites.iter().position(|site| site.name == address);
                let to = to.and_then(|to| u32::try_from(to).ok()).unwrap_or(u32::MAX);
                self.connect(number, to, Purpose::Server(server, incarnation));
            }
            worker::Effect::Send { connection, message } => {
                self.say_to_server(number, connection.get(), &message);
            }
            worker::Effect::Close { connection } => self.close(connection.get(), End::Client),
            worker::Effect::Started { call, result } => self.is_started(number, call, &result),
            worker::Effect::Waited { call, result } => self.has_waited(number, call, &result),
            worker::Effect::Fill { .. } | worker::Effect::Observe(_) => {}
        }
    }

    pub(super) fn step_server(&mut self, number: u32, input: server::Input<Slice>) {
        let now = self.shows(number);
        let Some(running) = self.sites.get_mut(number as usize).and_then(|it| it.running()) else {
            return;
        };
        let Side::Server(side) = &mut running.side else {
            return;
        };
        let mut effects = Vec::new();
        side.machine.step(now, input.clone(), &mut effects);
        let (machine, memory) = (&side.machine, &running.memory);
        let (input, made) = (&input, effects.as_slice());
        let met = Met::ServerStepped { site: number, now, input, effects: made, machine, memory };
        see(&met, self.now_ns, &mut self.oracles, &mut self.broken);
        self.log(number, input, &effects);
        self.mark_server(input, &effects);
        for effect in effects {
            match effect {
                server::Effect::Send { connection, message } => {
                    self.say_to_worker(number, connection.get(), &message);
                }
                server::Effect::Close { connection } => self.close(connection.get(), End::Server),
                server::Effect::Batch { call, result } => self.has_batch(number, call, result),
                server::Effect::Done { result: Err(Refusal::AnsweredBefore { unit }), .. } => {
                    self.answers_others(number, input, unit);
                }
                server::Effect::Done { .. } => {}
                server::Effect::Observe(server::Event::Refused { .. }) => self.see(&Met::Troubled),
                server::Effect::Observe(_) => {}
            }
        }
        self.plan_tick(number);
    }

    /// A connection is there.
    pub(super) fn connected(&mut self, site: u32, number: u64, purpose: Purpose) {
        match purpose {
            Purpose::Scheduler(connection) => {
                self.step_member(site, member::Input::Connected { connection });
            }
            Purpose::Server(server, incarnation) => {
                let connection = ConnectionId::new(number);
                let input = worker::Input::Connected { server, incarnation, connection };
                self.step_worker(site, input);
            }
        }
    }

    pub(super) fn scheduler_connected(&mut self, number: u64) {
        let connection = ConnectionId::new(number);
        self.step_scheduler(scheduler::Input::Connected { connection });
    }

    /// A connection could not be made.
    pub(super) fn not_connected(&mut self, site: u32, _: u64, purpose: Purpose) {
        match purpose {
            Purpose::Scheduler(connection) => {
                let status = Status::new(Code::Unavailable, "nobody listens");
                self.step_member(site, member::Input::NotConnected { connection, status });
            }
            Purpose::Server(server, incarnation) => {
                self.has_no_way(site, server, incarnation);
            }
        }
    }

    fn has_no_way(&mut self, site: u32, server: ServerRank, incarnation: Incarnation) {
        let why = "nobody listens".into();
        self.step_worker(site, worker::Input::NotConnected { server, incarnation, why });
    }

    /// A connection is over.
    pub(super) fn disconnected(
        &mut self,
        site: u32,
        number: u64,
        (end, purpose): (End, Purpose),
        was_closed: bool,
    ) {
        let connection = ConnectionId::new(number);
        let why = if was_closed { "it was closed" } else { "it broke" };
        match (end, purpose) {
            (End::Server, Purpose::Scheduler(_)) => {
                self.step_scheduler(scheduler::Input::Disconnected { connection });
            }
            (End::Client, Purpose::Scheduler(connection)) => {
                let status = Status::new(Code::Unavailable, why);
                self.step_member(site, member::Input::Disconnected { connection, status });
            }
            (End::Server, Purpose::Server(..)) => {
                self.step_server(site, server::Input::Disconnected { connection, why: why.into() });
            }
            (End::Client, Purpose::Server(..)) => {
                self.step_worker(site, worker::Input::Disconnected { connection, why: why.into() });
            }
        }
    }

    /// A process has its rank: what passes its tensors begins.
    pub(super) fn begin_side(&mut self, number: u32, rank: rondo_core::exchange::InstanceRank) {
        let config = self.shape.settings.config();
        let (sizes, role) = (self.shape.sizes(), self.role(number));
        let Some(running) = self.site(number).and_then(|it| it.running()) else {
            return;
        };
        running.rank = Some(rank);
        let incarnation = running.incarnation;
        let index = sizes.index(rank).get();
        match role {
            Role::Worker => {
                if let Ok(machine) = Worker::start(config.clone(), rank, incarnation) {
                    running.side = Side::Worker(Box::new(super::workers::side(machine)));
                }
                let (servers, ranks) = (sizes.servers, (index, sizes.group));
                let worker = sizes.group_of(rank);
                self.see(&Met::Worker { site: number, config: &config, worker, servers, ranks });
            }
            _ => {
                if let Ok(machine) = Server::start(config.clone(), rank, incarnation) {
                    running.side = Side::Server(Box::new(super::servers::side(machine)));
                }
                let (workers, index) = (sizes.workers, (index, sizes.group));
                let rank = rank.get();
                self.see(&Met::Server { site: number, config: &config, workers, rank, index });
            }
        }
    }

    /// A process is woken when one of its machines wishes to be.
    pub(super) fn plan_tick(&mut self, number: u32) {
        let now_ns = self.now_ns;
        let Some(site) = self.site(number) else {
            return;
        };
        let (life, clock) = (site.life, site.clock);
        let Some(deadline) = site.deadline() else {
            return;
        };
        let at_ns = clock.when(deadline).max(now_ns);
        if site.wakes_at_ns.is_some_and(|wakes| wakes <= at_ns) {
            return;
        }
        site.wakes_at_ns = Some(at_ns);
        self.queue.plan(at_ns, Event::Tick(number, life));
    }

    pub(super) fn tick(&mut self, number: u32, life: u32) {
        let now_ns = self.now_ns;
        let role = self.role(number);
        let Some(site) = self.living(number, life) else {
            return;
        };
        if site.being == Being::Paused {
            site.held.push(Event::Tick(number, life));
            return;
        }
        if site.wakes_at_ns.is_some_and(|wakes| wakes > now_ns) {
            return;
        }
        site.wakes_at_ns = None;
        match role {
            Role::Scheduler => self.step_scheduler(scheduler::Input::Tick),
            Role::Worker => {
                self.step_member(number, member::Input::Tick);
                self.step_worker(number, worker::Input::Tick);
            }
            Role::Server => {
                self.step_member(number, member::Input::Tick);
                self.step_server(number, server::Input::Tick);
            }
        }
    }

    /// Keeps an event for later if a process stands still.
    pub(super) fn is_held(&mut self, number: u32, event: Event) -> bool {
        let site = self.site(number).filter(|site| site.being == Being::Paused);
        match site {
            Some(site) => {
                site.held.push(event);
                true
            }
            None => false,
        }
    }
}
