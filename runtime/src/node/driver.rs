//! The one loop: take what has happened, step, append one commit group, sync beside it, release.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rondo_core::control::{self, Effect, Effects, Health, Input, Node, Reply};
use rondo_core::dispatcher;
use rondo_core::ids::{CallId, Lsn};
use rondo_core::status::Status;
use rondo_core::time::Time;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::blob_keeper::BlobKeeper;
use super::compaction::Built;
use super::config::NodeConfig;
use super::events::{observe, observe_coordination};
use super::handle::{Figures, NodeHandle, Shared, Submission};
use super::inbox::{Inbox, inbox};
use super::journal::{Appended, Journal, JournalWoke};
use super::listings::Listings;
use super::memory::MemoryLeft;
use super::pushes::{FreshPushes, Pushes, settled};
use super::turns;
#[cfg(madsim)]
use super::watch::Watch;
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::memory::{Ceiling, SnapshotPlan};
use crate::store::StoreError;
use crate::transport::Transport;

/// The longest sleep, so that a far deadline cannot overflow a timer.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// What a node is made of.
pub(super) struct Parts {
    /// The machine.
    pub(super) node: Node,
    /// Its journal; none for a node that keeps everything in memory.
    pub(super) journal: Option<Journal>,
    /// Its clock.
    pub(super) clock: Clock,
    /// Its random numbers.
    pub(super) entropy: Entropy,
    /// Its way to workers.
    pub(super) transport: Arc<dyn Transport>,
    /// Its large definitions.
    pub(super) blobs: BlobKeeper,
    /// The bound on its process's memory.
    pub(super) ceiling: Ceiling,
    /// Who watches it.
    #[cfg(madsim)]
    pub(super) watch: Arc<dyn Watch>,
}

/// How a node's task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was told to stop, and everything is durable.
    Stopped,
    /// It cannot go on.
    Halted(String),
}

/// Starts a node's task.
pub(super) fn spawn(parts: Parts, config: NodeConfig) -> (NodeHandle, JoinHandle<Ended>) {
    let (submissions, inbox) = inbox(config.line_calls_max);
    let shared = Shared::new(parts.journal.as_ref().map(Journal::kind));
    #[cfg(madsim)]
    let shared = shared.watched_by(parts.watch.clone());
    let shared = Arc::new(shared);
    let handle = NodeHandle { submissions, shared: shared.clone() };
    let mut driver = Driver {
        node: parts.node,
        journal: parts.journal,
        clock: parts.clock,
        entropy: parts.entropy,
        pushes: Pushes::new(parts.transport),
        fresh_pushes: FreshPushes::default(),
        blobs: parts.blobs,
        memory: MemoryLeft::below(parts.ceiling),
        inbox,
        listings: Listings::new(config.queue_calls_max),
        shared,
        config,
        effects: Effects::new(),
        waiting: BTreeMap::new(),
        retry: false,
        halted: None,
        shown: (Health::Serving, Figures::default()),
        #[cfg(madsim)]
        watch: parts.watch,
    };
    driver.show();
    (handle, tokio::spawn(driver.run()))
}

pub(super) struct Driver {
    pub(super) node: Node,
    pub(super) journal: Option<Journal>,
    pub(super) clock: Clock,
    pub(super) entropy: Entropy,
    pub(super) pushes: Pushes,
    pub(super) fresh_pushes: FreshPushes,
    pub(super) blobs: BlobKeeper,
    pub(super) memory: MemoryLeft,
    pub(super) inbox: Inbox<Submission>,
    /// Listings that wait until other calls have had their time.
    pub(super) listings: Listings,
    pub(super) shared: Arc<Shared>,
    pub(super) config: NodeConfig,
    pub(super) effects: Effects,
    pub(super) waiting: BTreeMap<CallId, oneshot::Sender<Result<Reply, Status>>>,
    /// The machine asked for another try to write what was refused.
    pub(super) retry: bool,
    pub(super) halted: Option<String>,
    pub(super) shown: (Health, Figures),
    #[cfg(madsim)]
    pub(super) watch: Arc<dyn Watch>,
}

/// What ended a wait.
enum Woken {
    Journal(JournalWoke),
    CallersLeft,
    BlobsUnpinned,
    Due,
    Calls(usize),
    Listings,
    Stop,
}

impl Driver {
    async fn run(mut self) -> Ended {
        let mut calls = Vec::new();
        let shared = self.shared.clone();
        while self.halted.is_none() {
            let woken = self.wait(&shared, &mut calls).await;
            match woken {
                Woken::Journal(woke) => {
                    let is_synced = matches!(woke, JournalWoke::Synced(..));
                    self.journal_woke(woke).await;
                    if is_synced {
                        self.gather(&mut calls).await;
                    }
                }
                Woken::CallersLeft => self.forget_gone(),
                Woken::BlobsUnpinned => self.forget_loose_blobs(),
                Woken::Due => self.step(Input::Tick),
                Woken::Calls(0) | Woken::Stop => break,
                Woken::Calls(_) => {
                    self.take_turn(&mut calls, self.config.batch_calls_max).await;
                }
                // Others have their turn between two listings.
                Woken::Listings => tokio::task::yield_now().await,
            }
            self.list_one().await;
            self.settle().await;
            if self.inbox.has_calls() {
                // Else nobody else has a turn until the inbox is empty.
                tokio::task::yield_now().await;
            }
        }
        self.finish().await
    }

    async fn wait(&mut self, shared: &Shared, calls: &mut Vec<Submission>) -> Woken {
        let sleep = match self.node.deadline() {
            Some((at, _)) => self.clock.until(at).min(SLEEP_MAX),
            None => SLEEP_MAX,
        };
        let lingers = self.journal.as_ref().map_or(Duration::ZERO, Journal::lingers_for);
        let sleep = if lingers > Duration::ZERO { sleep.min(lingers) } else { sleep };
        let again = self.journal.as_ref().and_then(Journal::tries_again_in);
        let sleep = again.map_or(sleep, |again| sleep.min(again));
        let at_once = turns::CALLS_AT_ONCE.min(self.config.batch_calls_max).max(1);
        let blobs = self.blobs.clone();
        tokio::select! {
            biased;
            woke = journal_woke(&mut self.journal) => Woken::Journal(woke),
            () = shared.stop.notified() => Woken::Stop,
            () = shared.somebody_left.notified() => Woken::CallersLeft,
            () = blobs.unpinned() => Woken::BlobsUnpinned,
            () = tokio::time::sleep(sleep) => Woken::Due,
            count = self.inbox.recv_many(calls, at_once) => Woken::Calls(count),
            () = std::future::ready(()), if !self.listings.is_empty() => Woken::Listings,
        }
    }

    /// Tells the machines how much memory is left, if that has changed.
    pub(super) fn tell_memory(&mut self) {
        let snapshots = self.journal.as_ref().map_or(SnapshotPlan::Never, Journal::snapshots);
        if let Some(memory) = self.memory.news(snapshots) {
            self.step(Input::Memory(memory));
        }
    }

    pub(super) fn forget_gone(&mut self) {
        for call in self.shared.take_gone() {
            self.waiting.remove(&call);
            // Also of a call that is answered: its caller did not take the answer.
            self.step(Input::Cancel { call });
        }
    }

    /// A registration that was refused, or never made, may leave a blob that nothing names.
    fn forget_loose_blobs(&mut self) {
        for digest in self.blobs.take_loose() {
            if !self.node.names_blob(digest) {
                self.blobs.remove(digest);
            }
        }
    }

    async fn journal_woke(&mut self, woke: JournalWoke) {
        match woke {
            JournalWoke::Synced(upto, outcome) => self.synced(upto, outcome),
            JournalWoke::Compacted(outcome) => self.compacted(outcome),
            JournalWoke::Back(Ok(done)) => {
                if let Some(journal) = &mut self.journal {
                    journal.came_back(done);
                }
                self.offer().await;
            }
            JournalWoke::Back(Err(error)) => {
                self.step(Input::SyncFailed { reason: error.to_string() })
            }
        }
    }

    fn synced(&mut self, upto: Lsn, outcome: Result<(), StoreError>) {
        self.step(match outcome {
            Ok(()) => Input::Synced { upto },
            Err(error) => Input::SyncFailed { reason: error.to_string() },
        });
    }

    /// A snapshot that cannot be built costs space, not data: the segments behind it stay.
    fn compacted(&mut self, outcome: Result<Built, String>) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        match outcome {
            Ok(built) => {
                let Built { upto, size_bytes } = built;
                tracing::info!(records = upto.get(), size_bytes, "snapshot written");
                journal.forget(built);
            }
            Err(reason) => tracing::error!(reason, "a snapshot could not be built"),
        }
    }

    pub(super) fn step(&mut self, input: Input) {
        let now: Time = self.clock.now();
        let mut effects = std::mem::take(&mut self.effects);
        #[cfg(madsim)]
        self.watch.input(now, &input);
        self.node.step(now, input, &mut effects);
        // Before the answers go out: whoever has one sees no earlier state.
        self.show();
        for effect in effects.drain() {
            #[cfg(madsim)]
            self.watch.effect(now, &effect);
            self.perform(effect);
        }
        self.effects = effects;
        #[cfg(madsim)]
        self.watch.stepped(now, &self.node);
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Append { lsn, record } => {
                if let Some(journal) = &mut self.journal {
                    journal.collect(lsn, &record);
                }
            }
            Effect::Sync { upto } => {
                if let Some(journal) = &mut self.journal {
                    journal.want(upto);
                }
            }
            Effect::RetryAppend => self.retry = true,
            Effect::Reply { call, result } => {
                if let Some(answer) = self.waiting.remove(&call) {
                    self.answer(answer, result);
                }
            }
            Effect::Push { task } => {
                if let Some(push) = self.pushes.push(task) {
                    self.fresh_pushes.add(push);
                }
            }
            Effect::ForgetBlob { digest } => self.blobs.remove(digest),
            Effect::Observe(control::Event::Dispatcher(event)) => observe(&event),
            Effect::Observe(control::Event::Coordination(event)) => observe_coordination(&event),
            Effect::Halt { reason } => self.halted = Some(reason),
        }
    }

    /// Answers a call. A new reader is answered when the workers have its tasks, which the machine
    /// has pushed just before: it goes to them next.
    fn answer(
        &mut self,
        answer: oneshot::Sender<Result<Reply, Status>>,
        result: Result<Reply, Status>,
    ) {
        let is_reader = matches!(result, Ok(Reply::Dispatcher(dispatcher::Reply::Client(_))));
        let Some(pushes) = is_reader.then(|| self.fresh_pushes.take()).flatten() else {
            // A caller that has just left needs no answer.
            let _ = answer.send(result);
            return;
        };
        tokio::spawn(async move {
            settled(pushes).await;
            let _ = answer.send(result);
        });
    }

    /// Writes what the last inputs brought, starts what must be started, and shows how things are.
    async fn settle(&mut self) {
        if self.halted.is_some() {
            // What was collected belongs to a decision that was never finished.
            return self.show();
        }
        if !self.journal.as_ref().is_some_and(Journal::may_collect_more) {
            self.append().await;
        }
        if std::mem::take(&mut self.retry) {
            self.offer().await;
        }
        let durable = self.node.durable();
        if let Some(journal) = &mut self.journal {
            journal.start_sync(durable);
            journal.compact_if_due();
            if let Err(error) = journal.mark(durable).await {
                let reason = error.to_string();
                self.step(Input::SyncFailed { reason });
            }
        }
        // A snapshot may have begun or ended.
        self.tell_memory();
        self.show();
    }

    pub(super) async fn append(&mut self) {
        let durable = self.node.durable();
        let Some(journal) = &mut self.journal else {
            return;
        };
        match journal.append_group(durable).await {
            Appended::Taken => {}
            Appended::Refused { from, reason } => {
                tracing::error!(record = %from, reason, "the journal takes no records");
                self.step(Input::AppendRefused { from, reason });
            }
            Appended::Failed(reason) => self.step(Input::SyncFailed { reason }),
        }
    }

    /// Offers the journal's store again what it has not taken.
    async fn offer(&mut self) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let was_full = journal.is_full;
        match journal.offer().await {
            Appended::Taken if was_full => {
                tracing::info!("the journal takes records again");
                self.step(Input::AppendAccepted);
            }
            Appended::Refused { from, reason } if !was_full => {
                tracing::error!(record = %from, reason, "the journal takes no records");
                self.step(Input::AppendRefused { from, reason });
            }
            Appended::Taken | Appended::Refused { .. } => {}
            Appended::Failed(reason) => self.step(Input::SyncFailed { reason }),
        }
    }

    /// Shows others how things are, if that has changed.
    fn show(&mut self) {
        let (durable, last) = (self.node.durable(), self.node.last());
        let memory = Figures { durable, last, ..Figures::default() };
        let journal = self.journal.as_ref();
        let figures = journal.map_or(memory, |journal| journal.figures(durable, last));
        let health = self.node.health();
        if self.shown.1 != figures || self.shown.0 != *health {
            self.shared.show(health, figures);
            self.shown = (health.clone(), figures);
        }
    }

    /// Lets the sync under way and one more end, so that whoever waits only for the disk has an
    /// answer; whoever waits for other clients is told that the server stops.
    async fn finish(mut self) -> Ended {
        if self.halted.is_none() {
            let settled = tokio::time::timeout(self.config.stop_timeout, self.drain()).await;
            if settled.is_err() {
                let reason = "the last sync did not end in time".to_owned();
                self.step(Input::SyncFailed { reason });
            }
        }
        if let Some(journal) = &mut self.journal {
            journal.stop_compacting().await;
        }
        self.show();
        match self.halted {
            Some(reason) => {
                tracing::error!(reason, "the node has halted");
                Ended::Halted(reason)
            }
            None => Ended::Stopped,
        }
    }

    async fn drain(&mut self) {
        while self.halted.is_none() {
            self.forget_gone();
            // Also what nobody waits for.
            let last = self.node.last();
            if let Some(journal) = &mut self.journal {
                journal.want(last);
            }
            self.settle().await;
            let durable = self.node.durable();
            let journal = self.journal.as_ref();
            if journal.is_none_or(|journal| journal.is_at_rest(durable)) {
                if let Some(journal) = &mut self.journal {
                    journal.sync_note().await;
                }
                return;
            }
            let woke = journal_woke(&mut self.journal).await;
            self.journal_woke(woke).await;
        }
    }
}

/// Waits for the disk.
async fn journal_woke(journal: &mut Option<Journal>) -> JournalWoke {
    match journal {
        Some(journal) => journal.woke().await,
        None => std::future::pending().await,
    }
}
