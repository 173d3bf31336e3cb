//! Reading in rounds, as TensorFlow's client does it: in each round one element of every task that
//! has started, and no round at or past the one it was asked to block before.

use std::sync::Arc;

use rondo_core::dispatcher::{ClientHeartbeat, ClientHeartbeatReply, TaskInfo};
use rondo_core::ids::{ClientId, IterationId, TaskId};
use rondo_core::time::Time;

/// Failed reads of a task before its removal is asked for.
const FAILURES: u32 = 2;

/// A consumer's rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader {
    /// The first round it has not begun.
    next: i64,
    /// Whether it is in the round before that.
    pub(super) open: bool,
    limit: Option<i64>,
    list: Vec<TaskInfo>,
    /// What it reads in the present round, in order.
    reads: Vec<Reading>,
    gone: Vec<TaskId>,
    pub(super) iteration: Option<IterationId>,
    /// Whether a consumer between rounds reports the next one, as TensorFlow's client does.
    pub(super) counts_next: bool,
}

/// A task in a round.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) task: TaskId,
    pub(super) address: Arc<str>,
    pub(super) state: ReadState,
    failures: u32,
    pub(super) retry_at: Time,
}

/// Where a read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadState {
    /// To be asked for.
    Due,
    /// Asked for.
    Asked,
    /// To be given up by agreement.
    Hopeless,
    /// The others are asked to agree.
    Voting,
    /// Read.
    Read,
    /// Given up by agreement.
    Gone,
}

impl Reader {
    /// The round it is in, or was in last.
    pub(super) const fn round(&self) -> i64 {
        self.next.saturating_sub(1)
    }

    fn current(&self) -> i64 {
        match self.counts_next && !self.open {
            true => self.next,
            false => self.round().max(0),
        }
    }

    /// What its heartbeat says.
    pub(super) fn heartbeat(&self, client: ClientId) -> ClientHeartbeat {
        let blocked = self.limit.filter(|limit| !self.open && self.next >= *limit);
        ClientHeartbeat {
            client,
            current_round: Some(self.current()),
            blocked_round: blocked,
            target_processing_time_ns: 0,
        }
    }

    /// Takes the answer to a heartbeat.
    pub(super) fn hear(&mut self, reply: &ClientHeartbeatReply) {
        match reply.block_round {
            None => self.limit = None,
            // It is there already, which the next heartbeat will say.
            Some(round) if self.current() >= round => {}
            Some(round) => self.limit = Some(round),
        }
        let listed = |task: &TaskId| reply.tasks.iter().any(|listed| listed.task == *task);
        self.gone.retain(listed);
        for read in &mut self.reads {
            // Whoever is not in the list any more was given up by all.
            if !listed(&read.task) && read.state != ReadState::Read {
                read.state = ReadState::Gone;
            }
        }
        self.list = reply.tasks.to_vec();
        self.iteration = self.list.first().map(|task| task.iteration).or(self.iteration);
    }

    /// Begins the next round, if it may.
    pub(super) fn begin(&mut self, now: Time) -> bool {
        let limit_reached = self.limit.is_some_and(|limit| self.next >= limit);
        let started = self.list.iter().filter(|task| task.starting_round <= self.next);
        let reads = started.filter(|task| !self.gone.contains(&task.task)).map(|task| Reading {
            task: task.task,
            address: task.worker_address.clone(),
            state: ReadState::Due,
            failures: 0,
            retry_at: now,
        });
        let reads: Vec<Reading> = reads.collect();
        if self.open || limit_reached || reads.is_empty() {
            return false;
        }
        self.reads = reads;
        self.next = self.next.saturating_add(1);
        self.open = true;
        true
    }

    /// When it goes on, the next round beginning no earlier than `pause_ends`.
    pub(super) fn wake_at(&self, pause_ends: Time) -> Time {
        if !self.open {
            let may = self.limit.is_none_or(|limit| self.next < limit);
            let has_tasks = self
                .list
                .iter()
                .any(|task| task.starting_round <= self.next && !self.gone.contains(&task.task));
            return if may && has_tasks { pause_ends } else { Time::NEVER };
        }
        let waits = |read: &&Reading| matches!(read.state, ReadState::Due | ReadState::Hopeless);
        let due = self.reads.iter().filter(waits).map(|read| read.retry_at);
        due.min().unwrap_or(Time::NEVER)
    }

    /// What it reads in the present round.
    pub(super) fn reads(&mut self) -> &mut [Reading] {
        &mut self.reads
    }

    pub(super) fn reading(&mut self, task: TaskId) -> Option<&mut Reading> {
        self.reads.iter_mut().find(|read| read.task == task)
    }

    /// Ends the round when everything is read or given up: what was read, in order.
    pub(super) fn end(&mut self) -> Option<Vec<TaskId>> {
        let over = |read: &Reading| matches!(read.state, ReadState::Read | ReadState::Gone);
        if !self.open || !self.reads.iter().all(over) {
            return None;
        }
        self.open = false;
        let reads = std::mem::take(&mut self.reads);
        let gone = reads.iter().filter(|read| read.state == ReadState::Gone);
        self.gone.extend(gone.map(|read| read.task));
        let read = reads.iter().filter(|read| read.state == ReadState::Read);
        Some(read.map(|read| read.task).collect())
    }
}

impl Reading {
    /// A read failed; after several the others are asked.
    pub(super) fn failed(&mut self, retry_at: Time) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = retry_at;
        self.state = match self.failures < FAILURES {
            true => ReadState::Due,
            false => ReadState::Hopeless,
        };
    }

    /// The others do not agree: it is tried afresh.
    pub(super) fn stays(&mut self, retry_at: Time) {
        (self.failures, self.retry_at) = (0, retry_at);
        self.state = ReadState::Due;
    }
}
