//! Clients of iterations: heartbeats that bring task lists, and release.

use alloc::sync::Arc;

use super::by_split::DepartedReader;
use super::machine::{Answer, Dispatcher, Effect, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::{ClientHeartbeatReply, Event, Reply};
use super::request::ClientHeartbeat;
use super::state::{Client, Iteration};
use super::types::TaskInfo;
use crate::ids::{ClientId, IterationId, Lsn, TaskId};

impl Dispatcher {
    pub(super) fn client_heartbeat(
        &mut self,
        turn: &mut Turn<'_>,
        heartbeat: &ClientHeartbeat,
    ) -> Answer {
        let client = self.client(heartbeat.client)?;
        let (known_since, id) = (client.changed, client.iteration);
        let reads_by_element =
            client.splits.is_empty() && self.leases.reads_by_element(heartbeat.client);
        self.leases.hear_client(heartbeat.client, turn.now);
        self.check_not_collected(id)?;
        if reads_by_element {
            self.make_task_for_consumer(turn, id)?;
        }
        self.report_round(turn, id, heartbeat)?;
        let (tasks, listed_since) = self.tasks_seen(id)?;
        let iteration = self.iteration(id)?;
        let reply = ClientHeartbeatReply {
            tasks,
            iteration_finished: iteration.finished,
            block_round: iteration.pending.front().map(|front| front.target_round),
            deployment_mode: self.config.deployment_mode,
        };
        self.note_let_go(id, heartbeat, reply.block_round);
        let after = known_since.max(listed_since);
        Ok((Reply::ClientHeartbeat(reply), after))
    }

    pub(super) fn release_client(&mut self, turn: &mut Turn<'_>, id: ClientId) -> Answer {
        self.client(id)?;
        let bereaved = self.part_with(turn, id)?;
        if let Some(iteration) = bereaved {
            self.make_reader(turn, iteration)?;
        }
        Ok((Reply::ClientReleased, turn.log.last()))
    }

    /// Releases a reader by split, unless it is gone already, and says how far it came.
    pub(super) fn end_reader(&mut self, turn: &mut Turn<'_>, id: ClientId, job: &str) -> Answer {
        let unknown = || Refusal::UnknownReader { client: id, job: job.into() };
        let of = self.state.job_named(job).map(|job| job.id).ok_or_else(unknown)?;
        if let Some(client) = self.state.clients().get(&id) {
            let iteration = self.iteration(client.iteration)?;
            // Nothing would be kept of the others. They stay.
            if iteration.job != of || iteration.collected || !client.has_held {
                return Err(unknown());
            }
            self.release_client(turn, id)?;
        }
        let job = self.state.jobs().get(&of).ok_or_else(unknown)?;
        let reader = job.departed.get(&id).cloned().ok_or_else(unknown)?;
        // The number of a record is the server's own.
        let reader = DepartedReader { left: Lsn::NONE, ..reader };
        Ok((Reply::ReaderEnded(reader), job.changed))
    }

    /// Releases a client. If it held splits, they are others' from then on: names its iteration.
    pub(super) fn part_with(
        &mut self,
        turn: &mut Turn<'_>,
        id: ClientId,
    ) -> Result<Option<IterationId>, Refusal> {
        let (iteration, splits) = (self.client(id)?.iteration, self.splits_held_by(id));
        self.commit(turn, [Record::ReleaseClient { id, at: turn.now }])?;
        self.leases.forget_client(id, iteration, turn.now);
        if let Some(rounds) = self.rounds.get_mut(&iteration) {
            rounds.forget(id);
        }
        if splits == 0 {
            return Ok(None);
        }
        turn.out.push(Effect::Observe(Event::SplitsGivenUp { client: id, splits }));
        Ok(Some(iteration))
    }

    pub(super) fn client(&self, id: ClientId) -> Result<&Client, Refusal> {
        self.state.clients().get(&id).ok_or(match self.config.fault_tolerant {
            true => Refusal::UnknownClient(id),
            false => Refusal::ForgottenClient(id),
        })
    }

    pub(super) fn iteration(&self, id: IterationId) -> Result<&Iteration, Refusal> {
        self.state.iterations().get(&id).ok_or(Refusal::UnknownIteration(id))
    }

    pub(super) fn check_not_collected(&self, id: IterationId) -> Result<(), Refusal> {
        if !self.iteration(id)?.collected {
            return Ok(());
        }
        // Nothing else ends an iteration that has clients.
        Err(Refusal::Ended { iteration: id })
    }

    /// The iteration's task list, made anew only when something in it has changed, with the newest
    /// record it shows.
    fn tasks_seen(&mut self, id: IterationId) -> Result<(Arc<[TaskInfo]>, Lsn), Refusal> {
        let iteration = self.iteration(id)?;
        let version = self.list_version(iteration);
        if let Some((cached, tasks)) = self.views.get(&id)
            && *cached == version
        {
            return Ok((tasks.clone(), version));
        }
        let tasks = self.task_infos(iteration);
        self.views.insert(id, (version, tasks.clone()));
        Ok((tasks, version))
    }

    /// The newest record that an iteration's task list shows. A worker's new profile touches its
    /// open iterations only, since it would have to look through all the finished ones.
    pub(super) fn list_version(&self, iteration: &Iteration) -> Lsn {
        if !iteration.finished {
            return iteration.changed;
        }
        let tasks = iteration.tasks.iter();
        let workers = tasks.filter_map(|task| {
            let task = self.state.tasks().get(task)?;
            self.state.workers().get(&task.worker)
        });
        let newest = workers.map(|worker| worker.changed).max();
        newest.map_or(iteration.changed, |lsn| lsn.max(iteration.changed))
    }

    /// The iteration's task list as its clients see it.
    pub(super) fn task_infos(&self, iteration: &Iteration) -> Arc<[TaskInfo]> {
        let tasks = iteration.tasks.iter();
        tasks.filter_map(|task| self.task_info(*task)).collect()
    }

    fn task_info(&self, id: TaskId) -> Option<TaskInfo> {
        let task = self.state.tasks().get(&id)?;
        let worker = self.state.workers().get(&task.worker)?;
        Some(TaskInfo {
            worker_address: worker.address.clone(),
            task: id,
            iteration: task.iteration,
            starting_round: task.starting_round,
            worker_tags: worker.profile.tags.clone(),
            worker_uid: worker.profile.uid,
            transfer_servers: worker.profile.transfer_servers.clone(),
        })
    }
}
