//! What processes know of their requests, with all clocks made one.

mod chrome;
mod file;
mod lanes;
mod observer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use rondo_core::exchange::membership::{Member, Membership, State};
use rondo_core::exchange::{
    Aligned, InstanceRank, Measured, NodeId, Offset, Page, Passage, Role, align,
};
use rondo_core::status::{Code, Status};

use self::observer::Observer;
use super::{Error, Exchange};

/// Questions by which the clock of a process is compared; the one that took the least time counts.
const COMPARISONS: u32 = 8;

/// Ways of requests to servers and back, on one clock.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Whose clock that is.
    pub root: NodeId,
    /// Processes, by their numbers.
    pub processes: BTreeMap<NodeId, Recorded>,
}

/// What is known of one process.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its role.
    pub role: Role,
    /// Its rank.
    pub rank: InstanceRank,
    /// Its host.
    pub host: Arc<str>,
    /// How far its clock is ahead of the root's; `None` if nothing leads there.
    pub clock: Option<Aligned>,
    /// Nanoseconds that the fastest question to it and its answer were on the way.
    pub round_trip_nanos: Option<u64>,
    /// Ways of its requests, in the order in which they ended.
    pub passages: Vec<Passage>,
    /// Ways that were earlier than these, and are not kept or not wanted.
    pub left_out: u64,
    /// Why it says nothing, if it does not.
    pub refused: Option<Status>,
}

/// How much is collected, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Ways of requests of each process: the latest.
    pub passages_max: u64,
    /// How long it may take altogether.
    pub timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { passages_max: 1 << 12, timeout: Duration::from_secs(10) }
    }
}

impl Recording {
    /// What all processes know that take part, by way of their scheduler at `host:port`, on its clock.
    ///
    /// # Errors
    /// UNAVAILABLE if no scheduler is there, FAILED_PRECONDITION if nobody takes part,
    /// RESOURCE_EXHAUSTED if too many look on, DEADLINE_EXCEEDED.
    pub fn of_everybody(scheduler: &str, bounds: Bounds) -> Result<Self, Status> {
        let (mut observer, membership) = Observer::connect(scheduler, bounds.timeout)?;
        let mut collected = Collected::default();
        for member in membership.members.iter().filter(|member| member.state == State::Up) {
            collected.add(&mut observer, member, bounds.passages_max)?;
        }
        Ok(collected.aligned(NodeId::SCHEDULER))
    }

    /// What a worker knows itself, on its own clock.
    pub(super) fn of_worker(membership: &Membership, rank: InstanceRank, pages: Vec<Page>) -> Self {
        let mut collected = Collected::default();
        let Some(node) = NodeId::of(Role::Worker, rank) else {
            return collected.aligned(NodeId::SCHEDULER);
        };
        let servers: Vec<InstanceRank> =
            pages.iter().flat_map(|page| &page.clocks).map(|(server, _)| *server).collect();
        for member in &membership.members {
            let is_own = (member.role, member.rank) == (Role::Worker, rank);
            let is_server = member.role == Role::Server && servers.contains(&member.rank);
            if is_own || is_server {
                collected.insert(member);
            }
        }
        for page in pages {
            collected.take(node, page, 0);
        }
        collected.aligned(node)
    }

    /// Writes it for Perfetto and the like: JSON of Chrome's trace event format.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        chrome::write(self, out)
    }

    /// How many ways of requests there are.
    pub fn passages(&self) -> usize {
        self.processes.values().map(|process| process.passages.len()).sum()
    }
}

impl Exchange {
    /// What this worker knows of its requests, on its own clock.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if this is no worker: what servers know travels with their answers.
    pub fn recording(&self) -> Result<Recording, Error> {
        if self.role() != Role::Worker {
            return Err(self.is_no(Role::Worker));
        }
        let membership = self.membership();
        let membership = membership
            .ok_or_else(|| Status::new(Code::FailedPrecondition, "nobody takes part yet"))?;
        let mut pages: Vec<Page> = Vec::new();
        loop {
            let after =
                pages.last().and_then(|page| page.passages.last()).map_or(0, |it| it.number);
            let page = self.engine.with(|process, _, now| process.page(now, after));
            // What ends meanwhile is of no interest.
            let last = pages.first().map_or(page.last, |first| first.last);
            let end = page.passages.last().map_or(last, |it| it.number);
            pages.push(page);
            if end >= last {
                return Ok(Recording::of_worker(&membership, self.rank(), pages));
            }
        }
    }
}

/// What was collected so far.
#[derive(Default)]
struct Collected {
    processes: BTreeMap<NodeId, Recorded>,
    measured: Vec<Measured>,
}

impl Collected {
    fn insert(&mut self, member: &Member) -> Option<NodeId> {
        let node = NodeId::of(member.role, member.rank)?;
        let recorded = Recorded {
            role: member.role,
            rank: member.rank,
            host: Arc::clone(&member.host),
            clock: None,
            round_trip_nanos: None,
            passages: Vec::new(),
            left_out: 0,
            refused: None,
        };
        self.processes.insert(node, recorded);
        Some(node)
    }

    /// Asks one process.
    fn add(&mut self, observer: &mut Observer, member: &Member, max: u64) -> Result<(), Status> {
        let Some(node) = self.insert(member) else { return Ok(()) };
        let peer = (member.role, member.rank);
        let mut best: Option<Offset> = None;
        let mut last = 0;
        for _ in 0..COMPARISONS {
            // Behind all there is: nothing but what the clocks show.
            match observer.ask(peer, u64::MAX)? {
                Ok(traces) => {
                    last = traces.page.last;
                    let offset = traces.clock();
                    best = best.into_iter().chain(offset).min_by_key(|it| it.error_nanos);
                }
                Err(status) => {
                    self.refuse(node, status);
                    return Ok(());
                }
            }
        }
        if let Some(offset) = best {
            self.measured.push(Measured { by: NodeId::SCHEDULER, of: node, offset });
            if let Some(recorded) = self.processes.get_mut(&node) {
                recorded.round_trip_nanos = Some(offset.error_nanos.saturating_mul(2));
            }
        }
        self.add_pages(observer, (node, peer), last, max)
    }

    fn add_pages(
        &mut self,
        observer: &mut Observer,
        (node, peer): (NodeId, (Role, InstanceRank)),
        last: u64,
        max: u64,
    ) -> Result<(), Status> {
        let wanted = last.saturating_sub(max);
        let mut after = 0;
        while after < last {
            let traces = match observer.ask(peer, after)? {
                Ok(traces) => traces,
                Err(status) => {
                    self.refuse(node, status);
                    return Ok(());
                }
            };
            let end = traces.page.passages.last().map_or(last, |it| it.number);
            self.take(node, traces.page, wanted);
            after = end.max(wanted);
        }
        Ok(())
    }

    fn take(&mut self, node: NodeId, page: Page, wanted: u64) {
        let clocks = page.clocks.into_iter().filter_map(|(server, offset)| {
            Some(Measured { by: node, of: NodeId::of(Role::Server, server)?, offset })
        });
        self.measured.extend(clocks);
        if let Some(recorded) = self.processes.get_mut(&node) {
            let passages = page.passages.into_iter().filter(|it| it.number > wanted);
            recorded.passages.extend(passages);
            let first =
                recorded.passages.first().map_or(page.last, |it| it.number.saturating_sub(1));
            recorded.left_out = first;
        }
    }

    fn refuse(&mut self, node: NodeId, status: Status) {
        if let Some(recorded) = self.processes.get_mut(&node) {
            recorded.refused = Some(status);
        }
    }

    fn aligned(mut self, root: NodeId) -> Recording {
        let clocks = align(root, &self.measured);
        for (node, process) in &mut self.processes {
            process.clock = clocks.get(node).copied();
        }
        Recording { root, processes: self.processes }
    }
}
