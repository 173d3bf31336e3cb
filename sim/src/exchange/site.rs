//! A machine of the world and the process that runs there, if one does.

use std::collections::BTreeMap;

use rondo_core::exchange::member::Member;
use rondo_core::exchange::message::Scope;
use rondo_core::exchange::scheduler::Scheduler;
use rondo_core::exchange::server::{Partial, Server};
use rondo_core::exchange::worker::Worker;
use rondo_core::exchange::{Handler, InstanceRank, Mask, Role, UnitHandler};
use rondo_core::ids::{CallId, ConnectionId, Incarnation};
use rondo_core::time::Time;

use super::event::Event;
use crate::clock::Clock;
use crate::fault::Fault;
use crate::oracle::exchange::{Memory, Slice};
use crate::rng::{Source, Stream};
use crate::swarm::{ExchangeShape, Swarm};

/// Clocks show this when a run begins.
const BEGINNING: Time = Time::from_millis(1_000_000_000);
/// The scheduler's machine.
pub(super) const SCHEDULER: u32 = 0;

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Being {
    /// It runs.
    Up,
    /// It stands still, and what happens to it waits.
    Paused,
    /// It is gone.
    Down,
}

/// A machine of the world.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) role: Role,
    /// The rank that its processes want.
    pub(super) rank: u32,
    pub(super) name: String,
    pub(super) being: Being,
    /// How many processes there have been.
    pub(super) life: u32,
    pub(super) process: Option<Process>,
    /// What happened while it stood still.
    pub(super) held: Vec<Event>,
    pub(super) clock: Clock,
    pub(super) stream: Stream,
    /// When it is to be woken.
    pub(super) wakes_at_ns: Option<u64>,
}

/// A process.
#[derive(Debug)]
pub(super) enum Process {
    /// The scheduler's.
    Scheduler(Box<Scheduler>),
    /// A worker's, or a server's.
    Member(Box<Running>),
}

/// The process of a worker or a server.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) member: Member,
    pub(super) incarnation: Incarnation,
    pub(super) memory: Memory,
    /// Its connections to the scheduler, by the numbers it gave them.
    pub(super) ways: BTreeMap<ConnectionId, u64>,
    pub(super) rank: Option<InstanceRank>,
    pub(super) side: Side,
    /// Calls that wait for the scheduler.
    pub(super) calls: BTreeMap<CallId, Call>,
    /// Whether it is on its way out.
    pub(super) leaves: bool,
    /// What it has been told in the end of a run.
    pub(super) last: Last,
}

/// How far a process is with what all do in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) request: Option<Handler>,
    pub(super) is_answered: bool,
    pub(super) has_met: bool,
    pub(super) has_left: bool,
}

/// A call to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Join,
    Barrier(Mask, Scope),
    /// The barrier at which all meet in the end.
    LastBarrier,
    Leave,
}

/// What passes tensors in a process.
#[derive(Debug)]
pub(super) enum Side {
    /// It has no rank yet.
    None,
    Worker(Box<WorkerSide>),
    Server(Box<ServerSide>),
}

/// A worker and its application.
#[derive(Debug)]
pub(super) struct WorkerSide {
    pub(super) machine: Worker<Slice>,
    /// Requests that are not over, by their first handlers.
    pub(super) requests: BTreeMap<Handler, Lent>,
    /// Calls that wait, and for what.
    pub(super) waits: BTreeMap<CallId, Handler>,
    /// The last request that is over.
    pub(super) over: Option<Handler>,
}

/// Memory that a request uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Lent {
    pub(super) pushes: Vec<Slice>,
}

/// A server and its application.
#[derive(Debug)]
pub(super) struct ServerSide {
    pub(super) machine: Server<Slice>,
    pub(super) held: BTreeMap<UnitHandler, Held>,
    pub(super) over: Option<UnitHandler>,
    /// Calls for batches that wait.
    pub(super) waits: BTreeMap<CallId, Partial>,
}

/// A unit that an application has.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// What was pushed, as it was when it came.
    pub(super) pushes: Vec<Vec<u8>>,
    /// What is pulled: keys and sizes.
    pub(super) pulls: Vec<(u64, u64)>,
    pub(super) owes_answer: bool,
    pub(super) is_released: bool,
}

impl Site {
    pub(super) fn new(number: u32, shape: &ExchangeShape, source: &Source, swarm: &Swarm) -> Self {
        let workers = shape.workers.saturating_mul(shape.group);
        let (role, rank) = match number.checked_sub(1) {
            None => (Role::Scheduler, 0),
            Some(rank) if rank < workers => (Role::Worker, rank),
            Some(other) => (Role::Server, other.saturating_sub(workers)),
        };
        let mut stream = source.stream("exchange-process", number);
        let drift = match swarm.faults.has(Fault::ClockDrift) {
            true => i32::try_from(stream.below(100_000)).unwrap_or(0).saturating_sub(50_000),
            false => 0,
        };
        let name = match role {
            Role::Scheduler => "scheduler".to_owned(),
            _ => format!("{role} {rank}"),
        };
        Self {
            role,
            rank,
            name,
            being: Being::Down,
            life: 0,
            process: None,
            held: Vec::new(),
            clock: Clock::showing(BEGINNING, drift),
            stream,
            wakes_at_ns: None,
        }
    }

    pub(super) fn running(&mut self) -> Option<&mut Running> {
        match self.process.as_mut()? {
            Process::Member(running) => Some(running),
            Process::Scheduler(_) => None,
        }
    }

    pub(super) fn worker(&mut self) -> Option<&mut WorkerSide> {
        match &mut self.running()?.side {
            Side::Worker(side) => Some(side),
            _ => None,
        }
    }

    pub(super) fn server(&mut self) -> Option<&mut ServerSide> {
        match &mut self.running()?.side {
            Side::Server(side) => Some(side),
            _ => None,
        }
    }

    /// When one of its machines wants to be woken, by its own clock.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self.process.as_ref()? {
            Process::Scheduler(scheduler) => scheduler.deadline(),
            Process::Member(running) => {
                let side = match &running.side {
                    Side::None => None,
                    Side::Worker(side) => side.machine.deadline(),
                    Side::Server(side) => side.machine.deadline(),
                };
                [running.member.deadline(), side].into_iter().flatten().min()
            }
        }
    }
}
