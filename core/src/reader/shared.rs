//! What both ways to read have: calls under way, the tasks there are, what is counted.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::config::Config;
use super::report::{Counts, WorkerCounts};
use super::retry::Retry;
use super::types::{Effect, Request, RpcId, Task};
use crate::ids::{ClientId, TaskId};
use crate::limits::WORKERS_MAX;
use crate::time::{Duration, Time};

/// What could not be read, kept for people.
const SKIPPED_KEPT_MAX: usize = 16;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Job,
    Iteration,
    Heartbeat,
    Release,
    /// To hold splits, and to acknowledge.
    Hold,
    /// A stream of records.
    Stream,
    /// An element of this task.
    Fetch(TaskId),
    /// To agree that this task is gone.
    Remove(TaskId),
}

/// What both ways to read have.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) config: Config,
    last_rpc: u64,
    pub(super) purposes: BTreeMap<RpcId, Purpose>,
    pub(super) client: Option<ClientId>,
    pub(super) tasks: Vec<Task>,
    /// Whether the dispatcher has said which tasks there are.
    pub(super) is_told: bool,
    /// Whether everything of the iteration was handed out and read.
    pub(super) is_finished: bool,
    /// Deliveries that the application still takes.
    pub(super) wanted: u64,
    pub(super) counts: Counts,
    /// What could not be read: the first few.
    pub(super) skipped: Vec<String>,
    pub(super) workers: BTreeMap<Arc<str>, Worker>,
    /// Readers of one job begin with different workers.
    pub(super) rotation: u64,
}

/// A worker that was read from.
#[derive(Clone, Debug, Default)]
pub(super) struct Worker {
    pub(super) counts: WorkerCounts,
    /// Streams open, or calls under way.
    pub(super) load: usize,
    pub(super) retry: Retry,
    /// Whether its last call that failed was slow to fail.
    pub(super) was_slow: bool,
}

impl Shared {
    pub(super) fn new(config: Config, rotation: u64) -> Self {
        Self {
            config,
            last_rpc: 0,
            purposes: BTreeMap::new(),
            client: None,
            tasks: Vec::new(),
            is_told: false,
            is_finished: false,
            wanted: 0,
            counts: Counts::default(),
            skipped: Vec::new(),
            workers: BTreeMap::new(),
            rotation,
        }
    }

    /// Names a call.
    pub(super) fn begin(&mut self, purpose: Purpose) -> RpcId {
        self.last_rpc = self.last_rpc.saturating_add(1);
        let rpc = RpcId(self.last_rpc);
        self.purposes.insert(rpc, purpose);
        rpc
    }

    /// Calls the dispatcher.
    pub(super) fn ask(
        &mut self,
        purpose: Purpose,
        request: Request,
        deadline: Duration,
        out: &mut Vec<Effect>,
    ) -> RpcId {
        let rpc = self.begin(purpose);
        out.push(Effect::Ask { rpc, request, deadline });
        rpc
    }

    /// Takes a call back.
    pub(super) fn withdraw(&mut self, rpc: RpcId, out: &mut Vec<Effect>) {
        if self.purposes.remove(&rpc).is_some() {
            out.push(Effect::Withdraw { rpc });
        }
    }

    /// Takes all calls back but those for these purposes.
    pub(super) fn withdraw_all_but(
        &mut self,
        stays: impl Fn(Purpose) -> bool,
        out: &mut Vec<Effect>,
    ) {
        self.purposes.retain(|rpc, purpose| {
            let stays = stays(*purpose);
            if !stays {
                out.push(Effect::Withdraw { rpc: *rpc });
            }
            stays
        });
    }

    /// The worker of this name, known from now on.
    pub(super) fn worker(&mut self, name: &Arc<str>) -> &mut Worker {
        self.workers.entry(name.clone()).or_default()
    }

    /// A call to a worker has ended.
    pub(super) fn unload(&mut self, name: &Arc<str>) {
        let worker = self.worker(name);
        worker.load = worker.load.saturating_sub(1);
    }

    /// Whether a worker has failed and brought nothing since.
    pub(super) fn is_doubtful(&self, name: &str) -> bool {
        self.failures(name) > 0
    }

    /// Whether a worker is doubtful, and its last call was slow to fail.
    pub(super) fn is_slow(&self, name: &str) -> bool {
        self.workers.get(name).is_some_and(|it| it.was_slow && it.retry.failures() > 0)
    }

    /// Whether a doubtful worker may be tried: its pause is over, and no call to it is under way.
    pub(super) fn is_due(&self, name: &str, now: Time) -> bool {
        self.workers.get(name).is_some_and(|it| it.load == 0 && !it.retry.waits(now))
    }

    /// How long a worker that has failed is to be left alone.
    pub(super) fn pause_left(&self, name: &str, now: Time) -> Duration {
        let at = self.workers.get(name).and_then(|worker| worker.retry.at());
        at.map_or(Duration::ZERO, |at| at.since(now))
    }

    /// How often in a row a worker has failed.
    pub(super) fn failures(&self, name: &str) -> u32 {
        self.workers.get(name).map_or(0, |worker| worker.retry.failures())
    }

    /// When a worker failed last, if it has brought nothing since.
    pub(super) fn last_failed(&self, name: &str) -> Option<Time> {
        self.workers.get(name).and_then(|worker| worker.retry.last_failed())
    }

    /// Streams or calls that a worker has.
    pub(super) fn load(&self, name: &str) -> usize {
        self.workers.get(name).map_or(0, |worker| worker.load)
    }

    /// Records of a worker have come, each for the first time.
    pub(super) fn count(&mut self, worker: &Arc<str>, records: u64, bytes: u64) {
        let counts = &mut self.counts;
        counts.records = counts.records.saturating_add(records);
        counts.bytes = counts.bytes.saturating_add(bytes);
        let counts = &mut self.worker(worker).counts;
        counts.records = counts.records.saturating_add(records);
        counts.bytes = counts.bytes.saturating_add(bytes);
    }

    /// What could not be read was passed over. The first few are kept.
    pub(super) fn skipped(&mut self, what: Vec<String>) {
        self.counts.skipped = self.counts.skipped.saturating_add(what.len() as u64);
        let room = SKIPPED_KEPT_MAX.saturating_sub(self.skipped.len());
        self.skipped.extend(what.into_iter().take(room));
    }

    /// A call has failed that is made again.
    pub(super) fn count_retry(&mut self) {
        self.counts.retries = self.counts.retries.saturating_add(1);
    }

    /// The dispatcher has said which tasks there are. A worker that has none any more, or a new one, is not
    /// taken for one that fails: it was started anew. Workers are forgotten altogether when there have been
    /// too many.
    pub(super) fn told(&mut self, tasks: Vec<Task>) {
        let before: BTreeSet<TaskId> = self.tasks.iter().map(|task| task.id).collect();
        self.tasks = tasks;
        let is_crowd = self.workers.len() > WORKERS_MAX;
        let (tasks, workers) = (&self.tasks, &mut self.workers);
        let new = tasks.iter().filter(|task| !before.contains(&task.id));
        let new: BTreeSet<&Arc<str>> = new.map(|task| &task.worker).collect();
        let listed: BTreeSet<&Arc<str>> = tasks.iter().map(|task| &task.worker).collect();
        workers.retain(|name, worker| {
            let is_gone = worker.load == 0 && !listed.contains(name);
            if is_gone || new.contains(name) {
                worker.retry.succeeded();
            }
            !(is_gone && is_crowd)
        });
    }
}

impl Task {
    /// Where its worker serves this protocol.
    pub(super) fn address(&self, protocol: &str) -> Option<&Arc<str>> {
        self.servers.iter().find(|(name, _)| name == protocol).map(|(_, address)| address)
    }
}
