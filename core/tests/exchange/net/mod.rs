//! Workers, servers, and what is on its way between them, with all that must hold of it.

mod application;
mod calm;
mod faults;
mod links;
mod members;
mod oracle;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rondo_core::exchange::membership::{Membership, State};
use rondo_core::exchange::server::{self, Server};
use rondo_core::exchange::worker::{self, Worker};
use rondo_core::exchange::{Config, InstanceRank, Key, Policy, Refusal, UnitHandler};
use rondo_core::ids::{CallId, Incarnation};
use rondo_core::time::{Duration, Time};

use links::Link;
use oracle::{Content, Request};

/// How the net is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) workers: usize,
    pub(crate) servers: usize,
    pub(crate) policy: Policy,
    pub(crate) key_credits: u32,
    pub(crate) batch_fails_on_loss: bool,
    /// Whether servers have slots for all keys of all workers from the beginning.
    pub(crate) has_slots: bool,
    /// Whether connections may break, and who is away may be taken for lost.
    pub(crate) breaks: bool,
}

/// A worker's process.
pub(crate) struct WorkerSide {
    /// None while it is crashed.
    pub(crate) machine: Option<Worker<u32>>,
    pub(crate) incarnation: Incarnation,
    pub(crate) news: VecDeque<Membership>,
    /// Calls that wait, and the request that each waits for.
    pub(crate) waiting: BTreeMap<CallId, usize>,
    /// Memory that an answer is being written to, by connection.
    pub(crate) written: BTreeMap<u64, Vec<u32>>,
}

/// A unit that the application has.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) pushes: Vec<u32>,
    /// Slots that they lie in.
    pub(crate) slots: Vec<(u32, u64)>,
    pub(crate) pulls: usize,
    pub(crate) pull_bytes: Vec<u64>,
    pub(crate) owes_answer: bool,
    pub(crate) is_read: bool,
}

/// A server's process, and its application.
pub(crate) struct ServerSide {
    pub(crate) machine: Option<Server<u32>>,
    pub(crate) incarnation: Incarnation,
    pub(crate) news: VecDeque<Membership>,
    pub(crate) waiting: BTreeMap<CallId, server::Partial>,
    pub(crate) held: BTreeMap<UnitHandler, Held>,
    /// The last unit of each worker that was given out.
    pub(crate) last_unit: BTreeMap<usize, UnitHandler>,
    /// Which tensor lies in each slot.
    pub(crate) slots: BTreeMap<(u32, u64), u32>,
    /// Slots that are being written, by connection.
    pub(crate) written: BTreeMap<u64, Vec<(u32, u64)>>,
    /// Workers that take part, by what it has been told and has told.
    pub(crate) up: BTreeSet<u32>,
    /// What it was told last of each worker.
    pub(crate) runs: BTreeMap<u32, (Incarnation, State)>,
    /// Whether it is being told who takes part: who it then takes for lost may be up in another run.
    pub(crate) is_learning: bool,
    /// Which slot each tensor lies in that lies in one.
    pub(crate) in_slot: BTreeMap<u32, (u32, u64)>,
    /// Requests of which it has given out the unit.
    pub(crate) given: BTreeSet<usize>,
}

/// All of it.
pub(crate) struct Net {
    pub(crate) setup: Setup,
    pub(crate) config: Config,
    pub(crate) now: Time,
    pub(crate) workers: Vec<WorkerSide>,
    pub(crate) servers: Vec<ServerSide>,
    pub(crate) links: BTreeMap<u64, Link>,
    /// Connections that workers want: worker, server, and the run of each.
    pub(crate) connects: VecDeque<(usize, usize, Incarnation, Incarnation)>,
    /// Pairs between which there is no way.
    pub(crate) cut: BTreeSet<(usize, usize)>,
    pub(crate) membership: Membership,
    pub(crate) contents: Vec<Content>,
    pub(crate) requests: Vec<Request>,
    /// Whether anything has happened for which a request may fail.
    pub(crate) is_faulty: bool,
    last: u64,
}

impl Net {
    pub(crate) fn new(setup: Setup) -> Self {
        let config = Config {
            policy: setup.policy,
            key_credits: setup.key_credits,
            batch_fails_on_loss: setup.batch_fails_on_loss,
            worker_requests_max: 4,
            request_bytes_max: 60,
            worker_bytes_max: 80,
            handlers_max: 10,
            calls_max: 6,
            traces_max: 4,
            slots_max: 10,
            reconnect_grace: Duration::from_secs(if setup.breaks { 2 } else { 3_600 }),
            ..Config::default()
        };
        let membership = members::empty(setup);
        let mut net = Self {
            setup,
            config,
            now: Time::from_millis(1_000),
            workers: Vec::new(),
            servers: Vec::new(),
            links: BTreeMap::new(),
            connects: VecDeque::new(),
            cut: BTreeSet::new(),
            membership,
            contents: Vec::new(),
            requests: Vec::new(),
            is_faulty: setup.breaks,
            last: 0,
        };
        for _ in 0..setup.workers {
            let side = net.new_worker();
            net.workers.push(side);
        }
        for _ in 0..setup.servers {
            let side = net.new_server();
            net.servers.push(side);
        }
        net.all_join();
        net
    }

    /// A number that nothing else has.
    pub(crate) fn draw(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn new_worker(&mut self) -> WorkerSide {
        WorkerSide {
            machine: None,
            incarnation: Incarnation::new(self.draw()),
            news: VecDeque::new(),
            waiting: BTreeMap::new(),
            written: BTreeMap::new(),
        }
    }

    fn new_server(&mut self) -> ServerSide {
        ServerSide {
            machine: None,
            incarnation: Incarnation::new(self.draw()),
            news: VecDeque::new(),
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            last_unit: BTreeMap::new(),
            slots: BTreeMap::new(),
            written: BTreeMap::new(),
            up: BTreeSet::new(),
            runs: BTreeMap::new(),
            is_learning: false,
            in_slot: BTreeMap::new(),
            given: BTreeSet::new(),
        }
    }

    /// A new run of a worker begins.
    pub(crate) fn start_worker(&mut self, nth: usize) {
        let mut side = self.new_worker();
        let rank = InstanceRank::new(u32::try_from(nth).unwrap());
        let machine = Worker::start(self.config.clone(), rank, side.incarnation);
        side.machine = Some(machine.unwrap());
        self.workers[nth] = side;
    }

    /// A new run of a server begins.
    pub(crate) fn start_server(&mut self, nth: usize) {
        let mut side = self.new_server();
        let rank = InstanceRank::new(u32::try_from(nth).unwrap());
        let machine = Server::start(self.config.clone(), rank, side.incarnation);
        side.machine = Some(machine.unwrap());
        self.servers[nth] = side;
        if self.setup.has_slots {
            self.register_all(nth);
        }
    }

    pub(crate) fn call(&mut self) -> CallId {
        CallId::new(self.draw())
    }

    /// Something happens to a worker.
    pub(crate) fn tell_worker(&mut self, nth: usize, input: worker::Input<u32>) {
        let Some(machine) = self.workers[nth].machine.as_mut() else {
            return;
        };
        let mut effects = Vec::new();
        machine.step(self.now, input, &mut effects);
        rondo_core::exchange::check_worker(machine).unwrap_or_else(|e| panic!("{e}"));
        for effect in effects {
            self.worker_wants(nth, effect);
        }
    }

    /// Something happens to a server.
    pub(crate) fn tell_server(&mut self, nth: usize, input: server::Input<u32>) {
        let Some(machine) = self.servers[nth].machine.as_mut() else {
            return;
        };
        let mut effects = Vec::new();
        machine.step(self.now, input, &mut effects);
        rondo_core::exchange::check_server(machine).unwrap_or_else(|e| panic!("{e}"));
        for effect in effects {
            self.server_wants(nth, effect);
        }
        self.nobody_waits_for_the_lost(nth);
    }

    fn worker_wants(&mut self, nth: usize, effect: worker::Effect<u32>) {
        match effect {
            worker::Effect::Connect { server, incarnation, .. } => {
                let own = self.workers[nth].incarnation;
                let server = usize::try_from(server.get()).unwrap();
                self.connects.push_back((nth, server, own, incarnation));
            }
            worker::Effect::Send { connection, message } => {
                self.send_up(connection.get(), message);
            }
            worker::Effect::Close { connection } => self.close(connection.get()),
            worker::Effect::Started { call, result } => self.started(nth, call, result),
            worker::Effect::Fill { destination, source } => self.filled(destination, source),
            worker::Effect::Waited { call, result } => self.waited(nth, call, result),
            worker::Effect::Observe(event) => {
                if let worker::Event::Protocol { what, .. } = event {
                    panic!("a server does not keep to the protocol: {what}");
                }
            }
        }
    }

    fn server_wants(&mut self, nth: usize, effect: server::Effect<u32>) {
        match effect {
            server::Effect::Send { connection, message } => {
                self.send_down(connection.get(), message);
            }
            server::Effect::Close { connection } => self.close(connection.get()),
            server::Effect::Batch { call, result } => self.given_out(nth, call, result),
            server::Effect::Done { result, .. } => self.answered(&result),
            server::Effect::Observe(event) => self.observed(nth, event),
        }
    }

    fn observed(&mut self, nth: usize, event: server::Event) {
        match event {
            server::Event::Lost(_) if self.servers[nth].is_learning => {}
            server::Event::Lost(lost) => {
                self.servers[nth].up.remove(&lost.rank.get());
            }
            server::Event::Ready { worker, .. } => {
                self.servers[nth].up.insert(worker.get());
            }
            server::Event::Refused { refusal, .. } => {
                // Workers keep to their credits; the sizes of slots they cannot know.
                assert!(matches!(refusal, Refusal::SlotTooSmall { .. }), "{refusal}");
                self.is_faulty = true;
            }
            server::Event::Protocol { what } => panic!("a worker breaks the protocol: {what}"),
            server::Event::Rejected { .. } | server::Event::Away { .. } => {}
        }
    }

    /// Time passes, and everybody is ticked when they want to be.
    pub(crate) fn pass(&mut self, millis: u64) {
        let end = self.now.after(Duration::from_millis(millis));
        loop {
            let of_workers =
                self.workers.iter().filter_map(|it| it.machine.as_ref()).map(Worker::deadline);
            let of_servers =
                self.servers.iter().filter_map(|it| it.machine.as_ref()).map(Server::deadline);
            let next = of_workers.chain(of_servers).flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = next.max(self.now);
            (0..self.workers.len()).for_each(|nth| self.tell_worker(nth, worker::Input::Tick));
            (0..self.servers.len()).for_each(|nth| self.tell_server(nth, server::Input::Tick));
        }
        self.now = end;
    }
}

/// Keys are few.
pub(crate) fn key(of: u8) -> Key {
    Key::new(u64::from(of % 3))
}
