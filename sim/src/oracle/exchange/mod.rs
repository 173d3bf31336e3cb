//! What an exchange promises, watched at the border of each process' machines and in its memory.
//!
//! Ledgers follow what goes into machines and what comes out of them, and share no code with these. What
//! stands in tensors says whose they are, so an answer that is made of anything else is seen.

mod barriers;
mod losses;
mod memory;
mod ranks;
mod server;
mod worker;

use std::collections::BTreeMap;

use rondo_core::exchange::member::{self, Member};
use rondo_core::exchange::scheduler::{self, Scheduler};
use rondo_core::exchange::server::Server;
use rondo_core::exchange::worker::Worker;
use rondo_core::exchange::{Config, check_server, check_worker};
use rondo_core::ids::ConnectionId;
use rondo_core::invariant::Violation;
use rondo_core::time::Time;

use self::barriers::Barriers;
use self::losses::Losses;
pub use self::memory::{Memory, SERIAL_BYTES, Slice, answer, pulled_key, pushed, serial_of};
use self::ranks::Ranks;
use self::server::ServerLedger;
use self::worker::WorkerLedger;
use super::{Broken, Waiting, broken};
use crate::checks::{Check, reached};
use crate::turns::InvariantTurns;

/// Names of these promises.
pub const NAMES: [&str; 12] = [
    "handler",
    "answer",
    "batch",
    "slot",
    "memory",
    "told",
    "protocol",
    "rank",
    "barrier",
    "invariant",
    "leftover",
    "liveness",
];

/// What the oracles see. A process is named by the number of its machine in the world.
#[derive(Clone, Copy, Debug)]
pub enum Met<'a> {
    /// A process has its rank, and a worker begins.
    Worker {
        /// The process.
        site: u32,
        /// The settings.
        config: &'a Config,
        /// Its group's rank.
        worker: u32,
        /// How many groups of servers there are.
        servers: u32,
        /// The first server's instance rank, and how far apart they are.
        ranks: (u32, u32),
    },
    /// A process has its rank, and a server begins.
    Server {
        /// The process.
        site: u32,
        /// The settings.
        config: &'a Config,
        /// How many groups of workers there are.
        workers: u32,
        /// Its instance rank.
        rank: u32,
        /// Its index in its group, and the size of groups.
        index: (u32, u32),
    },
    /// A process is gone.
    Died {
        /// The process.
        site: u32,
    },
    /// The scheduler is gone.
    SchedulerDied,
    /// The scheduler goes on after it stood still.
    SchedulerResumed {
        /// Its own time.
        now: Time,
    },
    /// Something went wrong, or somebody has left: from here on some may be lost.
    Troubled,
    /// A worker's machine took an input.
    WorkerStepped {
        /// The process.
        site: u32,
        /// Its own time.
        now: Time,
        /// The input.
        input: &'a rondo_core::exchange::worker::Input<Slice>,
        /// What came of it.
        effects: &'a [rondo_core::exchange::worker::Effect<Slice>],
        /// The machine afterwards.
        machine: &'a Worker<Slice>,
        /// The process' memory.
        memory: &'a Memory,
    },
    /// A server's machine took an input.
    ServerStepped {
        /// The process.
        site: u32,
        /// Its own time.
        now: Time,
        /// The input.
        input: &'a rondo_core::exchange::server::Input<Slice>,
        /// What came of it.
        effects: &'a [rondo_core::exchange::server::Effect<Slice>],
        /// The machine afterwards.
        machine: &'a Server<Slice>,
        /// The process' memory.
        memory: &'a Memory,
    },
    /// The machine of a process as the scheduler sees it took an input.
    MemberStepped {
        /// The process.
        site: u32,
        /// Its own time.
        now: Time,
        /// The input.
        input: &'a member::Input,
        /// What came of it.
        effects: &'a [member::Effect],
        /// The machine afterwards.
        machine: &'a Member,
    },
    /// The scheduler's machine took an input.
    SchedulerStepped {
        /// Its own time.
        now: Time,
        /// The input.
        input: &'a scheduler::Input,
        /// What came of it.
        effects: &'a [scheduler::Effect],
        /// The machine afterwards.
        machine: &'a Scheduler,
    },
    /// From now on an answer is written to a worker's memory as it arrives, until the worker's machine is
    /// told that it has come or that its connection is over.
    Lands {
        /// The process.
        site: u32,
        /// The connection.
        connection: ConnectionId,
        /// Where each tensor goes.
        slices: &'a [Slice],
    },
    /// What arrives is being written there.
    Written {
        /// The process.
        site: u32,
        /// Where.
        slice: &'a Slice,
    },
    /// A tensor is read to be sent.
    Read {
        /// The process.
        site: u32,
        /// Where.
        slice: &'a Slice,
        /// Its memory.
        memory: &'a Memory,
    },
    /// Nothing must be left of a process' requests: what there is that must not be.
    Emptied {
        /// The process.
        site: u32,
        /// What is left.
        left: Option<&'a str>,
    },
    /// Everything healed so long ago that all must have got on.
    HealedLongAgo {
        /// Who has not.
        waiting: &'a [Waiting],
    },
}

/// All that watch an exchange.
#[derive(Debug, Default)]
pub struct Oracles {
    workers: BTreeMap<u32, WorkerLedger>,
    servers: BTreeMap<u32, ServerLedger>,
    made: worker::Book,
    ranks: Ranks,
    losses: Losses,
    barriers: Barriers,
    is_troubled: bool,
    turns: InvariantTurns,
}

impl Oracles {
    /// Lets them see something.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn see(&mut self, met: &Met<'_>) -> Result<(), Broken> {
        match *met {
            Met::Worker { site, config, worker, servers, ranks } => {
                let ledger = WorkerLedger::new(config.clone(), worker, servers, ranks);
                self.workers.insert(site, ledger);
            }
            Met::Server { site, config, workers, rank, index } => {
                self.servers.insert(site, ServerLedger::new(config.clone(), workers, rank, index));
            }
            Met::Died { site } => {
                self.workers.remove(&site);
                self.servers.remove(&site);
                self.ranks.died(site);
                self.barriers.died(site);
            }
            Met::SchedulerDied => {
                self.ranks.scheduler_died();
                self.losses = Losses::default();
            }
            Met::SchedulerResumed { now } => self.losses.resumed(now),
            Met::Troubled => self.is_troubled = true,
            Met::Emptied { site, left } => {
                reached(Check::ExchangeLeftover);
                if let Some(left) = left {
                    return Err(broken("leftover", format!("process {site} still has {left}")));
                }
            }
            Met::HealedLongAgo { waiting } => return all_got_on(waiting),
            _ => return self.see_step(met),
        }
        Ok(())
    }

    fn holds(&mut self, check: impl FnOnce() -> Result<(), Violation>) -> Seen {
        if !self.turns.is_due() {
            return Ok(());
        }
        reached(Check::ExchangeInvariant);
        check().map_err(|violation| broken("invariant", violation.to_string()))
    }

    fn see_step(&mut self, met: &Met<'_>) -> Result<(), Broken> {
        let troubled = self.is_troubled;
        match *met {
            Met::WorkerStepped { site, now, input, effects, machine, memory } => {
                self.holds(|| check_worker(machine))?;
                let ledger = self.workers.get_mut(&site);
                let book = &mut self.made;
                let seen = ledger
                    .map_or(Ok(()), |it| it.see(now, (input, effects), memory, book, troubled));
                of(site, seen)
            }
            Met::ServerStepped { site, now, input, effects, machine, memory } => {
                self.holds(|| check_server(machine))?;
                let (ledger, book) = (self.servers.get_mut(&site), &self.made);
                let seen = ledger
                    .map_or(Ok(()), |it| it.see(now, (input, effects), memory, book, troubled));
                of(site, seen)
            }
            Met::MemberStepped { site, input, effects, machine, .. } => {
                self.holds(|| member::check(machine))?;
                of(site, self.ranks.member(site, input, effects, machine))?;
                of(site, self.barriers.member(site, input, effects, machine, troubled))
            }
            Met::SchedulerStepped { now, input, effects, machine } => {
                self.holds(|| scheduler::check(machine))?;
                self.ranks.scheduler(now, input, effects, machine)?;
                self.losses.scheduler(now, input, effects, &machine.settings().config)?;
                self.barriers.scheduler(input, effects, machine)
            }
            Met::Lands { site, connection, slices } => {
                if let Some(ledger) = self.workers.get_mut(&site) {
                    ledger.lands(connection, slices);
                }
                Ok(())
            }
            Met::Written { site, slice } => {
                reached(Check::ExchangeMemory);
                let worker = self.workers.get(&site).map_or(Ok(()), |it| it.written(slice));
                let server = self.servers.get(&site).map_or(Ok(()), |it| it.written(slice));
                of(site, worker.and(server))
            }
            Met::Read { site, slice, memory } => match memory.read(slice) {
                Some(_) => Ok(()),
                None => {
                    of(site, wrong("memory", format!("{slice:?} is sent, which it has no more")))
                }
            },
            _ => Ok(()),
        }
    }
}

/// What a ledger says.
type Seen = Result<(), Broken>;

fn wrong(promise: &str, text: String) -> Seen {
    Err(broken(promise, text))
}

fn of(site: u32, seen: Seen) -> Seen {
    seen.map_err(|it| Broken { text: format!("process {site}: {}", it.text), ..it })
}

fn all_got_on(waiting: &[Waiting]) -> Seen {
    reached(Check::ExchangeLiveness);
    match waiting.first() {
        None => Ok(()),
        Some(Waiting { who, what }) => {
            let all = waiting.len();
            wrong("liveness", format!("{who} has not got on: {what} ({all} in all)"))
        }
    }
}
