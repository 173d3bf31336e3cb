//! A scheduler, processes, and the network between them: what one says reaches the other in order, late
//! or never. Invariants hold after every step, and the oracle sees all that is said.

use std::collections::{BTreeMap, VecDeque};

use rondo_core::exchange::member::{self, Ask, Standing};
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::message::{Scope, ToScheduler};
use rondo_core::exchange::scheduler::{self, Scheduler};
use rondo_core::exchange::{Config, Mask, Page, Role};
use rondo_core::ids::{CallId, ConnectionId};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use crate::network::{Delivery, Line};
use crate::oracle::Oracle;
use crate::process::{Process, Told, config};

/// Deliveries at one time after which something goes round in circles.
const DELIVERIES_MAX: usize = 100_000;
/// With more processes a scheduler is looked at now and then only, which takes long.
const SMALL: usize = 20;

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) config: Config,
    pub(crate) sizes: Sizes,
    pub(crate) settings: scheduler::Settings,
    /// `None` while it is dead.
    pub(crate) scheduler: Option<Scheduler>,
    pub(crate) processes: Vec<Process>,
    pub(crate) lines: Vec<Line>,
    pub(crate) attempts: VecDeque<(usize, ConnectionId)>,
    pub(crate) oracle: Oracle,
    pub(crate) events: Vec<scheduler::Event>,
    pub(crate) done_by_scheduler: BTreeMap<CallId, Result<(), Status>>,
    steps: u64,
    last_call: u64,
    last_connection: u64,
    last_incarnation: u64,
}

impl World {
    /// A scheduler that knows how many there will be, and processes that are not started yet.
    pub(crate) fn new(workers: u32, servers: u32, group: u32) -> Self {
        let sizes = Sizes { workers, servers, group };
        let settings = scheduler::Settings {
            config: config(),
            sizes: Some(sizes),
            takes_part: false,
            goes_on_without_lost: false,
        };
        Self::with(sizes, settings)
    }

    pub(crate) fn with(sizes: Sizes, settings: scheduler::Settings) -> Self {
        let of = |role| (0..sizes.instances(role)).map(move |rank| Process::new(role, rank));
        Self {
            now: Time::from_millis(1_000_000),
            config: settings.config.clone(),
            sizes,
            scheduler: Some(Scheduler::start(settings.clone()).unwrap()),
            settings,
            processes: of(Role::Server).chain(of(Role::Worker)).collect(),
            lines: Vec::new(),
            attempts: VecDeque::new(),
            oracle: Oracle::default(),
            events: Vec::new(),
            done_by_scheduler: BTreeMap::new(),
            steps: 0,
            last_call: 0,
            last_connection: 0,
            last_incarnation: 0,
        }
    }

    /// The same with everybody there.
    #[track_caller]
    pub(crate) fn begun(workers: u32, servers: u32, group: u32) -> Self {
        let mut world = Self::new(workers, servers, group);
        world.begin();
        world
    }

    #[track_caller]
    pub(crate) fn begin(&mut self) {
        for process in 0..self.processes.len() {
            self.start(process);
        }
        self.calm(50);
        for process in 0..self.processes.len() {
            assert!(self.is_joined(process), "{:?}", self.processes[process]);
        }
    }

    pub(crate) fn next_incarnation(&mut self) -> u64 {
        self.last_incarnation += 1;
        self.last_incarnation
    }

    /// Starts another run of a process, which wants to take part.
    pub(crate) fn start(&mut self, process: usize) -> CallId {
        let incarnation = self.next_incarnation();
        let (sizes, config) = (self.sizes, self.config.clone());
        self.processes[process].start(incarnation, sizes, config);
        self.ask(process, Ask::Join { timeout: None })
    }

    pub(crate) fn ask(&mut self, process: usize, ask: Ask) -> CallId {
        self.last_call += 1;
        let call = CallId::new(self.last_call);
        let kind = match ask {
            Ask::Barrier { mask, scope, .. } => Some((mask, scope)),
            _ => None,
        };
        self.processes[process].waiting.insert(call, kind);
        self.step_member(process, member::Input::Asked { call, ask });
        call
    }

    pub(crate) fn come(&mut self, process: usize, mask: Mask, scope: Scope) -> CallId {
        self.ask(process, Ask::Barrier { mask, scope, timeout: None })
    }

    pub(crate) fn cancel(&mut self, process: usize, call: CallId) {
        if let Some(kind) = self.processes[process].waiting.remove(&call).flatten() {
            self.processes[process].gave_up.insert(kind, true);
        }
        self.step_member(process, member::Input::Cancel { call });
    }

    pub(crate) fn ask_scheduler(&mut self, ask: scheduler::Ask) -> CallId {
        self.last_call += 1;
        let call = CallId::new(self.last_call);
        self.step_scheduler(scheduler::Input::Asked { call, ask });
        call
    }

    pub(crate) fn step_member(&mut self, process: usize, input: member::Input) {
        let Some(machine) = &mut self.processes[process].member else {
            return;
        };
        let mut out = Vec::new();
        machine.step(self.now, input, &mut out);
        member::check(machine).unwrap_or_else(|violation| panic!("{violation}"));
        for effect in out {
            self.carry_out_of_member(process, effect);
        }
    }

    fn carry_out_of_member(&mut self, process: usize, effect: member::Effect) {
        let of = &mut self.processes[process];
        let incarnation = of.incarnation;
        let line = |connection: ConnectionId| {
            move |line: &&mut Line| {
                line.process == process
                    && line.incarnation == incarnation
                    && line.there == connection
            }
        };
        match effect {
            member::Effect::Connect { connection } => {
                self.attempts.push_back((process, connection));
            }
            member::Effect::Send { connection, message } => {
                if let ToScheduler::Barrier(barrier) = &message {
                    let kind = (barrier.mask, barrier.scope);
                    self.oracle.numbers.insert((incarnation, barrier.number), kind);
                }
                let line = self.lines.iter_mut().find(line(connection));
                if let Some(line) = line.filter(|line| line.is_open_here && !line.is_silent) {
                    line.to_scheduler.push_back(message);
                }
            }
            member::Effect::Close { connection } => {
                self.attempts.retain(|attempt| *attempt != (process, connection));
                if let Some(line) = self.lines.iter_mut().find(line(connection)) {
                    line.is_open_there = false;
                    line.to_member.clear();
                }
            }
            member::Effect::Done { call, result } => {
                let kind = of.waiting.remove(&call);
                let kind = kind.unwrap_or_else(|| panic!("{call} is answered and does not wait"));
                let gave_up = result.is_err() && kind.is_some();
                if let Some(kind) = kind.filter(|_| gave_up) {
                    of.gave_up.insert(kind, true);
                }
                of.told.insert(call, result);
            }
            member::Effect::AskTraces { connection, number, .. } => {
                let message = ToScheduler::Traces { number, page: Page::default() };
                self.carry_out_of_member(process, member::Effect::Send { connection, message });
            }
            member::Effect::Membership(membership) => Oracle::learns(of, &membership),
            member::Effect::Over(status) => of.over = Some(status),
            member::Effect::Observe(_) => {}
        }
    }

    pub(crate) fn step_scheduler(&mut self, input: scheduler::Input) {
        let Some(machine) = &mut self.scheduler else {
            return;
        };
        let mut out = Vec::new();
        machine.step(self.now, input, &mut out);
        self.steps += 1;
        if self.processes.len() <= SMALL || self.steps.is_multiple_of(64) {
            scheduler::check(machine).unwrap_or_else(|violation| panic!("{violation}"));
        }
        for effect in out {
            match effect {
                scheduler::Effect::Send { connection, message } => {
                    let line = self.lines.iter_mut().find(|line| line.here == connection);
                    if let Some(line) = line {
                        self.oracle.is_told(&self.processes, line, &message);
                        if line.is_open_there && !line.is_silent {
                            line.to_member.push_back(message);
                        }
                    }
                }
                scheduler::Effect::Close { connection } => {
                    let line = self.lines.iter_mut().find(|line| line.here == connection);
                    if let Some(line) = line {
                        line.is_open_here = false;
                        line.to_scheduler.clear();
                    }
                }
                scheduler::Effect::Done { call, result } => {
                    let result = result.map_err(Status::from);
                    let before = self.done_by_scheduler.insert(call, result);
                    assert_eq!(before, None, "{call} is answered twice");
                }
                scheduler::Effect::Observe(event) => self.events.push(event),
            }
        }
    }

    /// What may happen next on the network.
    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        let mut all: Vec<_> = (0..self.attempts.len()).map(Delivery::Attempt).collect();
        for (at, line) in self.lines.iter().enumerate().filter(|(_, line)| !line.is_silent) {
            if !line.to_scheduler.is_empty() || line.ends_here() {
                all.push(Delivery::ToScheduler(at));
            }
            if !line.to_member.is_empty() || line.ends_there() {
                all.push(Delivery::ToMember(at));
            }
        }
        all
    }

    pub(crate) fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::Attempt(at) => {
                let (process, there) = self.attempts.remove(at).unwrap();
                self.connect(process, there);
            }
            Delivery::ToScheduler(at) => {
                let line = &mut self.lines[at];
                let connection = line.here;
                match line.to_scheduler.pop_front() {
                    Some(message) => {
                        self.step_scheduler(scheduler::Input::Received { connection, message });
                    }
                    None => {
                        line.is_open_here = false;
                        self.step_scheduler(scheduler::Input::Disconnected { connection });
                    }
                }
            }
            Delivery::ToMember(at) => self.deliver_to_member(at),
        }
    }

    fn deliver_to_member(&mut self, at: usize) {
        let line = &mut self.lines[at];
        let (process, connection) = (line.process, line.there);
        let is_of_this_run = self.processes[process].incarnation == line.incarnation;
        let input = match line.to_member.pop_front() {
            Some(message) => {
                self.oracle.hears(&mut self.processes[process], line, &message);
                member::Input::Received { connection, message }
            }
            None => {
                line.is_open_there = false;
                let status = Status::new(Code::Unavailable, "the connection broke");
                member::Input::Disconnected { connection, status }
            }
        };
        if is_of_this_run {
            self.step_member(process, input);
        }
    }

    fn connect(&mut self, process: usize, there: ConnectionId) {
        if self.processes[process].member.is_none() {
            return;
        }
        if self.scheduler.is_none() {
            let status = Status::new(Code::Unavailable, "nobody is there");
            let input = member::Input::NotConnected { connection: there, status };
            return self.step_member(process, input);
        }
        self.last_connection += 1;
        let here = ConnectionId::new(self.last_connection);
        self.lines.push(Line {
            process,
            incarnation: self.processes[process].incarnation,
            there,
            here,
            to_scheduler: VecDeque::new(),
            to_member: VecDeque::new(),
            is_open_there: true,
            is_open_here: true,
            is_silent: false,
        });
        self.step_scheduler(scheduler::Input::Connected { connection: here });
        self.step_member(process, member::Input::Connected { connection: there });
    }

    /// All that is under way arrives.
    #[track_caller]
    pub(crate) fn drain(&mut self) {
        for _ in 0..DELIVERIES_MAX {
            let Some(delivery) = self.deliveries().first().copied() else {
                self.lines.retain(|line| line.is_open_here || line.is_open_there);
                return;
            };
            self.deliver(delivery);
        }
        panic!("there is always more to deliver");
    }

    /// All that is under way to and from a process arrives.
    #[track_caller]
    pub(crate) fn drain_of(&mut self, process: usize) {
        let is_of = |world: &Self, delivery: &Delivery| match delivery {
            Delivery::Attempt(at) => world.attempts[*at].0 == process,
            Delivery::ToScheduler(at) | Delivery::ToMember(at) => {
                world.lines[*at].process == process
            }
        };
        self.drain_if(is_of);
    }

    /// All that is under way to the scheduler arrives.
    #[track_caller]
    pub(crate) fn drain_to_scheduler(&mut self) {
        self.drain_if(|_, delivery| !matches!(delivery, Delivery::ToMember(_)));
    }

    /// The same but of what this process says.
    #[track_caller]
    pub(crate) fn drain_to_scheduler_but_of(&mut self, process: usize) {
        self.drain_if(|world, delivery| match delivery {
            Delivery::ToScheduler(at) => {
                world.lines[*at].process != process || !world.lines[*at].is_open_there
            }
            Delivery::Attempt(_) | Delivery::ToMember(_) => false,
        });
    }

    #[track_caller]
    fn drain_if(&mut self, which: impl Fn(&Self, &Delivery) -> bool) {
        for _ in 0..DELIVERIES_MAX {
            let mut deliveries = self.deliveries().into_iter();
            let Some(delivery) = deliveries.find(|delivery| which(self, delivery)) else {
                return;
            };
            self.deliver(delivery);
        }
        panic!("there is always more to deliver");
    }

    fn deadline(&self) -> Option<Time> {
        let members = self.processes.iter().filter_map(|it| it.member.as_ref()?.deadline());
        members.chain(self.scheduler.as_ref().and_then(Scheduler::deadline)).min()
    }

    /// Whoever wants to be woken by now is.
    #[track_caller]
    pub(crate) fn tick(&mut self) {
        for _ in 0..DELIVERIES_MAX {
            if self.deadline().is_none_or(|at| at > self.now) {
                return;
            }
            let now = self.now;
            if self.scheduler.as_ref().and_then(Scheduler::deadline).is_some_and(|at| at <= now) {
                self.step_scheduler(scheduler::Input::Tick);
            }
            for process in 0..self.processes.len() {
                let member = self.processes[process].member.as_ref();
                if member.and_then(member::Member::deadline).is_some_and(|at| at <= now) {
                    self.step_member(process, member::Input::Tick);
                }
            }
        }
        panic!("there is always more to do");
    }

    /// Time passes, and all that is said arrives at once.
    #[track_caller]
    pub(crate) fn calm(&mut self, millis: u64) {
        self.pass(millis, true);
    }

    /// Time passes, and nothing arrives.
    #[track_caller]
    pub(crate) fn stall(&mut self, millis: u64) {
        self.pass(millis, false);
    }

    #[track_caller]
    fn pass(&mut self, millis: u64, delivers: bool) {
        let end = self.now.after(Duration::from_millis(millis));
        loop {
            if delivers {
                self.drain();
            }
            self.tick();
            if delivers && !self.deliveries().is_empty() {
                continue;
            }
            match self.deadline().filter(|at| *at <= end) {
                Some(at) => self.now = at.max(self.now),
                None => break,
            }
        }
        self.now = end;
    }

    pub(crate) fn standing(&self, process: usize) -> Option<Standing> {
        self.processes[process].member.as_ref().map(|member| member.standing().clone())
    }

    pub(crate) fn is_joined(&self, process: usize) -> bool {
        self.standing(process) == Some(Standing::Joined)
    }

    #[track_caller]
    pub(crate) fn told(&self, process: usize, call: CallId) -> &Told {
        let told = self.processes[process].told.get(&call);
        told.unwrap_or_else(|| panic!("{call} of {:?} waits", self.processes[process]))
    }

    pub(crate) fn is_waiting(&self, process: usize, call: CallId) -> bool {
        self.processes[process].waiting.contains_key(&call)
    }

    /// The process of this role and rank.
    pub(crate) fn find(&self, role: Role, rank: u32) -> usize {
        let found = self.processes.iter().position(|it| it.role == role && it.rank.get() == rank);
        found.unwrap()
    }
}
