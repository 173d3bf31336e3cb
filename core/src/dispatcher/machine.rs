//! The dispatcher's machine: takes a request, decides, records, applies, answers.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::config::Config;
use super::delivery::Deliveries;
use super::former::FormerTasks;
use super::leases::Leases;
use super::processes::Processes;
use super::record::Record;
use super::refusal::Refusal;
use super::removal::Removals;
use super::reply::{Event, Reply};
use super::request::Request;
use super::rounds::Rounds;
use super::state::State;
use super::types::{TaskDef, TaskInfo};
use super::worker_list::WorkerList;
use crate::ids::{CallId, Digest, IterationId, Lsn, TaskId, WorkerId};
use crate::memory::Memory;
use crate::status::Status;
use crate::time::Time;

/// The dispatcher.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    pub(super) config: Config,
    pub(super) state: State,
    pub(super) worker_list: WorkerList,
    pub(super) leases: Leases,
    /// The processes at workers' addresses.
    pub(super) processes: Processes,
    pub(super) removals: Removals,
    /// Splits on their way to workers.
    pub(super) deliveries: Deliveries,
    /// How far consumers are, per iteration of a coordinated read.
    pub(super) rounds: BTreeMap<IterationId, Rounds>,
    /// Task lists as clients see them, each valid for one version of its iteration.
    pub(super) views: BTreeMap<IterationId, (Lsn, Arc<[TaskInfo]>)>,
    /// What workers said they run when it was what they should run, each valid for one version of
    /// its worker.
    pub(super) agreed: BTreeMap<WorkerId, (Lsn, Vec<TaskId>)>,
    /// Tasks of a former life that workers still run.
    pub(super) former: FormerTasks,
    pub(super) next_maintenance: Time,
    /// When this process began.
    pub(super) started: Time,
    /// The newest record that freed a worker.
    pub(super) last_worker_freed: Lsn,
    pub(super) memory: Memory,
}

/// What the dispatcher asks of the node it lives in, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write a record.
    Append {
        /// Its position.
        lsn: Lsn,
        /// The record.
        record: Record,
    },
    /// Answer a call, once everything up to `after` is durable.
    Reply {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<Reply, Status>,
        /// What the answer depends on.
        after: Lsn,
    },
    /// Tell a worker of a task, once everything up to `after` is durable.
    Push {
        /// The task.
        task: TaskDef,
        /// What the task depends on.
        after: Lsn,
    },
    /// No dataset has this blob any more, once everything up to `after` is durable.
    ForgetBlob {
        /// The blob.
        digest: Digest,
        /// The record that freed the last one.
        after: Lsn,
    },
    /// Something worth a log line.
    Observe(Event),
    /// A record did not fit the state. Nothing of it was written; the node must stop.
    Halt {
        /// What did not fit.
        reason: Arc<str>,
    },
}

/// One step of the machine.
pub type Turn<'a> = crate::log::Turn<'a, Effect>;

/// An answer, and the newest record it depends on.
pub(super) type Answer = Result<(Reply, Lsn), Refusal>;

impl Dispatcher {
    /// Starts with a state from the journal (or none). Whoever is in it counts as just heard from.
    pub fn start(config: Config, state: State, now: Time) -> Self {
        let worker_list = WorkerList::with(&config.worker_addresses, &state);
        let next_maintenance = match config.job_gc_timeout {
            Some(_) => now.after(config.job_gc_check_interval),
            None => Time::NEVER,
        };
        Self {
            leases: Leases::of_survivors(&state, &config, now),
            processes: Processes::of_survivors(&state, now),
            removals: Removals::default(),
            deliveries: Deliveries::default(),
            rounds: BTreeMap::new(),
            views: BTreeMap::new(),
            agreed: BTreeMap::new(),
            former: FormerTasks::default(),
            worker_list,
            next_maintenance,
            started: now,
            last_worker_freed: Lsn::NONE,
            memory: Memory::Enough,
            config,
            state,
        }
    }

    /// The durable state.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Learns how much memory the process has left.
    pub fn set_memory(&mut self, memory: Memory) {
        self.memory = memory;
    }

    /// Refuses one more of something when so many are there already, or when the memory is short.
    pub(super) fn check_room(
        &self,
        what: &'static str,
        there: usize,
        bound: usize,
    ) -> Result<(), Refusal> {
        check_bound(what, there, bound)?;
        Ok(self.memory.check_state(what)?)
    }

    /// The same of what jobs that run need: it is refused when no memory is left at all.
    pub(super) fn check_room_of_jobs(
        &self,
        what: &'static str,
        there: usize,
        bound: usize,
    ) -> Result<(), Refusal> {
        check_bound(what, there, bound)?;
        Ok(self.memory.check_all(what)?)
    }

    /// Takes one request.
    pub fn request(&mut self, turn: &mut Turn<'_>, call: CallId, request: Request, entropy: u64) {
        self.leases.begin_step(turn.now);
        let answer = self.answer(turn, call, request, entropy);
        self.leases.end_step(&self.state);
        let Some(answer) = answer else {
            return;
        };
        // A refusal is rare and may rest on anything, so it waits for everything.
        let (result, after) = match answer {
            Ok((reply, after)) => (Ok(reply), after),
            Err(refusal) => (Err(refusal.into()), turn.log.last()),
        };
        turn.out.push(Effect::Reply { call, result, after });
    }

    /// Answers a request, or has it wait for other consumers.
    fn answer(
        &mut self,
        turn: &mut Turn<'_>,
        call: CallId,
        request: Request,
        entropy: u64,
    ) -> Option<Answer> {
        Some(match request {
            Request::RegisterDataset(request) => self.register_dataset(turn, request, entropy),
            Request::GetRegistered { dataset, metadata } => {
                self.get_registered(turn, &dataset, &metadata)
            }
            Request::GetMetadata { dataset } => self.metadata(&dataset),
            Request::GetConfig => Ok((Reply::Config(self.config.deployment_mode), Lsn::NONE)),
            Request::DisableCompression { dataset, disable } => {
                self.disable_compression(turn, dataset, disable)
            }
            Request::GetOrCreateJob(request) => self.get_or_create_job(turn, request, entropy),
            Request::GetOrCreateIteration { job, repetition } => self.join(turn, job, repetition),
            Request::ClientHeartbeat(heartbeat) => self.client_heartbeat(turn, &heartbeat),
            Request::ReleaseClient { client } => self.release_client(turn, client),
            Request::WorkerHeartbeat(heartbeat) => self.worker_heartbeat(turn, heartbeat),
            Request::WorkerUpdate { worker_address: address, progress } => {
                self.worker_update(turn, &address, &progress)
            }
            Request::GetDefinition { dataset } => self.definition(&dataset),
            Request::GetSplit { iteration, repetition, source, asker } => {
                self.get_split(turn, call, (iteration, repetition, source), asker.as_deref())
            }
            Request::HoldSplits(request) => self.hold_splits(turn, &request),
            Request::EndReader { client, job } => self.end_reader(turn, client, &job),
            Request::GetWorkers => Ok(self.workers()),
            Request::Report => Ok((Reply::Report(self.report(turn.now)), Lsn::NONE)),
            Request::MaybeRemoveTask { task, consumer_index, round } => {
                self.maybe_remove_task(turn, call, task, consumer_index, round);
                return None;
            }
            other => self.answer_operator(turn, other),
        })
    }

    /// Answers what people ask: about positions, and to delete.
    fn answer_operator(&mut self, turn: &mut Turn<'_>, request: Request) -> Answer {
        match request {
            Request::SavePosition { name, job } => self.save_position(turn, &name, &job),
            Request::RestorePosition { name, job, wanted } => {
                self.restore_position(turn, &name, &job, wanted.as_deref())
            }
            Request::DeletePosition { name } => self.delete_position(turn, &name),
            Request::ListPositions => Ok(self.list_positions(turn)),
            Request::GetVersionToRead { dataset, job, position } => {
                self.version_to_read(turn, &dataset, job.as_deref(), position.as_deref())
            }
            Request::DeleteJob { name } => self.delete_job(turn, &name),
            Request::DeleteDataset { dataset } => self.delete_dataset(turn, &dataset),
            Request::RemoveWorker { address } => self.remove_worker(turn, &address),
            _ => Err(Refusal::Defect("the request is of no kind that people ask".into())),
        }
    }

    /// Records and applies what was decided, in order.
    ///
    /// A record that does not fit the state is a defect of ours: it is never written, so that it
    /// cannot be met again in every replay, and the node stops.
    pub(super) fn commit(
        &mut self,
        turn: &mut Turn<'_>,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Lsn, Refusal> {
        for record in records {
            if let Some(reason) = turn.log.refuses() {
                return Err(Refusal::JournalRefuses(reason.clone()));
            }
            let lsn = turn.log.next();
            let ended = self.tasks_ended_by(&record);
            if let Err(error) = self.state.apply(lsn, &record) {
                let reason = alloc::format!("record {lsn} does not fit the state: {error}");
                turn.out.push(Effect::Halt { reason: reason.as_str().into() });
                return Err(Refusal::Defect(reason));
            }
            self.deliveries.forget_tasks(ended);
            self.forget_deliveries_before(&record);
            turn.log.advance();
            turn.out.push(Effect::Append { lsn, record });
        }
        Ok(turn.log.last())
    }
}

fn check_bound(what: &'static str, there: usize, bound: usize) -> Result<(), Refusal> {
    if there >= bound { Err(Refusal::TooMany { what, bound }) } else { Ok(()) }
}
