//! A second dispatcher, written from the specification alone: slow, plain, without a journal. Its
//! answers must be those of the real one.

mod deletion;
mod freeing;
mod held_up;
pub(crate) mod holding;
mod kept;
mod losing;
mod positions;
mod processes;
mod reading;
mod rounds;
pub(crate) mod splitting;
mod versions;
mod working;

pub(crate) use kept::{Job, Kept};

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::dispatcher::{Config, Reply, Request};
use rondo_core::ids::{CallId, ClientId, DatasetId, IterationId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

/// What a caller should hear; of a refusal, its code.
pub(crate) type Heard = Result<Reply, Code>;

/// The dispatcher as it should be.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// What survives a restart.
    pub(crate) kept: Kept,
    config: Config,
    /// Times of signs of life, less the hold-ups before each.
    heard: BTreeMap<ClientId, Time>,
    /// Clients that asked this process for splits to hold.
    by_split: BTreeSet<ClientId>,
    /// When a client came to an iteration that had none, or one left that never asked for splits.
    elements_until: BTreeMap<IterationId, Time>,
    /// How many splits were to be given again when a task was last made for consumers by element, and that.
    elements_tried: BTreeMap<IterationId, (usize, TaskId)>,
    /// When clients spoke to this process.
    spoke: BTreeMap<ClientId, Time>,
    /// Clients that have joined and sent nothing yet, with when that was, less the hold-ups.
    joined: BTreeMap<ClientId, Time>,
    held_up: held_up::HeldUp,
    /// Splits as they were handed out.
    handed: BTreeMap<CallId, splitting::HandedOut>,
    /// Splits that did not reach their callers, and are not taken back yet.
    undelivered: Vec<splitting::HandedOut>,
    /// Workers that can be lost, by address.
    signs: BTreeMap<String, losing::Signs>,
    /// Since when workers are lost, as far as this process saw it.
    lost_since: BTreeMap<String, Time>,
    /// The process at each worker's address.
    processes: BTreeMap<String, processes::Process>,
    rounds: BTreeMap<IterationId, i64>,
    /// Consumers that were let go from a round before which they were blocked, with the last such round.
    let_go: BTreeMap<ClientId, (IterationId, i64)>,
    votes: BTreeMap<TaskId, Vote>,
    next_maintenance: Time,
    started: Time,
}

/// Consumers that wait for each other to give up a task: their calls, indexes, deadlines and rounds.
#[derive(Clone, Debug)]
struct Vote {
    waiting: Vec<(CallId, i64, Time, i64)>,
}

impl Model {
    /// A dispatcher just started with what was kept.
    pub(crate) fn start(config: Config, mut kept: Kept, now: Time) -> Self {
        kept.above = config.ids_above.unwrap_or(kept.above);
        Self {
            signs: losing::survivors(&kept, now),
            lost_since: kept.lost.iter().map(|address| (address.clone(), now)).collect(),
            processes: processes::survivors(&kept, now),
            heard: kept.clients.keys().map(|id| (*id, now)).collect(),
            by_split: BTreeSet::new(),
            elements_until: BTreeMap::new(),
            elements_tried: BTreeMap::new(),
            spoke: BTreeMap::new(),
            joined: BTreeMap::new(),
            held_up: held_up::HeldUp::beginning(&config, &kept, now),
            handed: BTreeMap::new(),
            undelivered: Vec::new(),
            next_maintenance: now.after(config.job_gc_check_interval),
            kept,
            config,
            rounds: BTreeMap::new(),
            let_go: BTreeMap::new(),
            votes: BTreeMap::new(),
            started: now,
        }
    }

    /// Takes a request, and says who should hear what. A call that nothing is said of waits.
    ///
    /// While the journal `refuses` updates, whoever would cause one hears UNAVAILABLE, and nothing
    /// that is kept changes.
    pub(crate) fn request(
        &mut self,
        now: Time,
        call: CallId,
        request: &Request,
        refuses: bool,
    ) -> Vec<(CallId, Heard)> {
        self.begin_step(now);
        let answers = self.take(now, call, request, refuses);
        self.end_step();
        answers
    }

    fn take(
        &mut self,
        now: Time,
        call: CallId,
        request: &Request,
        refuses: bool,
    ) -> Vec<(CallId, Heard)> {
        let before = (self.kept.clone(), self.signs.clone(), self.processes.clone());
        let elements = (self.elements_tried.clone(), self.elements_until.clone());
        let (lost_since, let_go) = (self.lost_since.clone(), self.let_go.clone());
        let on_their_way = (self.handed.clone(), self.undelivered.clone());
        let mut answers = match request {
            Request::MaybeRemoveTask { task, consumer_index, round } => {
                self.remove(now, call, *task, (*consumer_index, *round))
            }
            other => vec![(call, self.answer(now, call, other))],
        };
        if refuses && self.kept != before.0 {
            (self.kept, self.processes) = (before.0, before.2);
            (self.elements_tried, self.elements_until) = elements;
            if matches!(request, Request::WorkerHeartbeat(_)) {
                (self.handed, self.undelivered) = on_their_way;
            }
            // No answer lets a consumer go.
            (self.lost_since, self.let_go) = (lost_since, let_go);
            self.note_lost_worker_lives(now, request);
            if !self.is_sign_of_life(request) {
                self.signs = before.1;
            }
            answers.iter_mut().for_each(|(_, heard)| *heard = Err(Code::Unavailable));
        }
        answers
    }

    /// A lost worker that cannot be recorded as back is not forgotten.
    fn note_lost_worker_lives(&mut self, now: Time, request: &Request) {
        if let Request::WorkerHeartbeat(heartbeat) = request
            && let Some(since) = self.lost_since.get_mut(&heartbeat.address)
        {
            *since = now;
        }
    }

    /// Whether it is a heartbeat of a worker that is there: it lives, recorded or not.
    fn is_sign_of_life(&self, request: &Request) -> bool {
        let Request::WorkerHeartbeat(heartbeat) = request else {
            return false;
        };
        let known = self.kept.workers.iter().any(|worker| worker.address == heartbeat.address);
        known && !self.kept.lost.contains(&heartbeat.address)
    }

    fn answer(&mut self, now: Time, call: CallId, request: &Request) -> Heard {
        match request {
            Request::RegisterDataset(request) => self.kept.register(now, request),
            Request::GetRegistered { dataset, metadata } => {
                self.kept.get_registered(now, dataset, metadata)
            }
            Request::GetMetadata { dataset } => {
                let dataset = self.dataset(dataset)?;
                Ok(Reply::Metadata(dataset.registered.metadata.encoded.clone()))
            }
            Request::GetDefinition { dataset } => {
                Ok(Reply::Definition(self.dataset(dataset)?.registered.definition.clone()))
            }
            Request::GetConfig => Ok(Reply::Config(self.config.deployment_mode)),
            Request::DisableCompression { dataset, disable } => {
                self.dataset(dataset)?;
                Ok(self.kept.compress(dataset, *disable))
            }
            Request::GetOrCreateJob(request) => self.kept.job(now, request),
            Request::GetOrCreateIteration { job, repetition } => self.join(now, *job, *repetition),
            Request::ClientHeartbeat(heartbeat) => self.client_heartbeat(now, heartbeat),
            Request::ReleaseClient { client } => self.release(now, *client),
            Request::WorkerHeartbeat(heartbeat) => self.worker_heartbeat(now, heartbeat),
            Request::WorkerUpdate { worker_address, progress } => {
                Ok(self.kept.update(worker_address, progress))
            }
            Request::GetSplit { iteration, repetition, source, asker } => {
                let asked = (*iteration, *repetition, *source);
                let (heard, handed) = self.kept.split(asked, asker.as_deref());
                if handed.is_some() {
                    self.elements_tried.remove(iteration);
                }
                self.handed.extend(handed.map(|handed| (call, handed)));
                self.note_split(now, *iteration, asker.as_deref(), &heard);
                heard
            }
            Request::HoldSplits(request) => self.hold(now, request),
            Request::EndReader { client, job } => self.end_reader(now, *client, job),
            Request::GetWorkers => {
                let addresses = self.kept.workers.iter().map(|w| w.address.as_str().into());
                Ok(Reply::Workers(addresses.collect()))
            }
            Request::SavePosition { name, job } => {
                self.kept.save_position(now, name, job, &self.by_split)
            }
            Request::RestorePosition { name, job, wanted } => {
                self.restore_position(now, name, job, wanted.as_deref())
            }
            Request::DeletePosition { name } => self.kept.delete_position(name),
            Request::ListPositions => Ok(self.kept.list_positions()),
            Request::GetVersionToRead { dataset, job, position } => {
                self.kept.version_to_read(dataset, job.as_deref(), position.as_deref())
            }
            Request::DeleteJob { name } => self.delete_job(now, name),
            Request::DeleteDataset { dataset } => self.kept.delete_dataset(dataset),
            Request::RemoveWorker { address } => self.remove_worker(address),
            Request::Report | Request::MaybeRemoveTask { .. } => unreachable!("not asked here"),
        }
    }

    fn dataset(&self, id: &DatasetId) -> Result<&kept::Dataset, Code> {
        self.kept.datasets.get(id).ok_or(Code::NotFound)
    }

    /// Forgets a waiting call.
    pub(crate) fn cancel(&mut self, call: CallId) {
        for vote in self.votes.values_mut() {
            vote.waiting.retain(|(waiting, ..)| *waiting != call);
        }
        self.votes.retain(|_, vote| !vote.waiting.is_empty());
    }

    /// Calls that wait for a removal.
    pub(crate) fn waiting(&self) -> Vec<CallId> {
        self.votes.values().flat_map(|vote| vote.waiting.iter().map(|(call, ..)| *call)).collect()
    }

    /// Lets time pass, and says who should hear what.
    pub(crate) fn tick(&mut self, now: Time, refuses: bool) -> Vec<(CallId, Heard)> {
        self.begin_step(now);
        let late = self.do_what_is_due(now, refuses);
        self.end_step();
        late
    }

    fn do_what_is_due(&mut self, now: Time, refuses: bool) -> Vec<(CallId, Heard)> {
        let late: Vec<(CallId, Heard)> =
            self.votes.values_mut().flat_map(|vote| vote.expire(now)).collect();
        self.votes.retain(|_, vote| !vote.waiting.is_empty());
        self.lose_silent(now, refuses);
        self.give_up_silent_readers(now, refuses);
        if now >= self.next_maintenance {
            self.next_maintenance = now.after(self.config.job_gc_check_interval);
            if !refuses {
                self.maintain(now);
            }
        }
        late
    }

    fn maintain(&mut self, now: Time) {
        let others = self.kept.clients.iter().filter(|(_, client)| client.splits.is_empty());
        let hearing = self.held_up.less(now);
        let silent = others.filter(|(id, _)| match (self.heard.get(id), self.joined.get(id)) {
            (Some(heard), _) => hearing.since(*heard) > self.config.client_timeout,
            (None, Some(at)) => hearing.since(*at) > self.config.client_first_heartbeat_timeout,
            (None, None) => unreachable!("client {id} neither joined nor was there"),
        });
        let silent: Vec<ClientId> = silent.map(|(id, _)| *id).collect();
        for id in silent {
            self.part_with(now, id);
        }
        let timeout = self.config.job_gc_timeout.unwrap_or(Duration::from_secs(u64::MAX));
        let dynamic_too = self.config.gc_dynamic_sharding_jobs;
        for (id, dynamic, at) in self.kept.unread() {
            let hearing = self.held_up.less_since(at, now);
            if dynamic && !dynamic_too {
                let retention = self.config.abandoned_iteration_retention;
                let over = retention.is_some_and(|retention| hearing >= at.after(retention));
                if over && now >= self.started.after(Duration::from_secs(60)) {
                    self.kept.abandon(now, id);
                    self.forget_rounds(id);
                }
            } else if hearing >= at.after(timeout) {
                self.kept.collect(now, id);
                self.forget_rounds(id);
            }
        }
        self.free(now);
    }
}
