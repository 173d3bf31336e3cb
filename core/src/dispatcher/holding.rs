//! Reading by split: clients hold splits, say how far they have read them, and leave them to others
//! when they are gone.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::by_split::{Group, SplitProgress, next_places};
use super::machine::{Answer, Dispatcher, Effect, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::{Event, HeldSplit, Reply, SplitsHeld};
use super::request::HoldSplits;
use super::state::{Client, Iteration, SourcePosition, State, Task};
use super::types::ShardingPolicy;
use crate::ids::{ClientId, IterationId, TaskId, WorkerId};
use crate::limits::SPLITS_PER_CLIENT_MAX;
use crate::time::Time;

impl Dispatcher {
    /// Takes what a client has read, and hands it splits until it holds as many as it wants.
    pub(super) fn hold_splits(&mut self, turn: &mut Turn<'_>, request: &HoldSplits) -> Answer {
        let client = self.client(request.client)?;
        let (id, known_since) = (client.iteration, client.changed);
        self.leases.hear_reader(request.client, turn.now);
        self.check_not_collected(id)?;
        let iteration = self.iteration(id)?;
        if iteration.finished {
            let reply = SplitsHeld { finished: true, ..SplitsHeld::default() };
            return Ok((Reply::SplitsHeld(reply), iteration.changed.max(known_since)));
        }
        self.check_by_split(iteration)?;
        self.check_group(self.client(request.client)?, iteration, request.group)?;
        let before = turn.log.last();
        self.recall_unread(turn, id)?;
        let iteration = self.iteration(id)?;
        let source = self.check_by_split(iteration)?;
        let record = decide_holding(self.client(request.client)?, iteration, source, request);
        self.commit(turn, record)?;
        self.watch_reader(request.client, turn.now);
        self.finish_if_read(turn, id)?;
        self.make_task_for_clients(turn, id)?;
        let (reply, rests_on) = self.splits_of(request)?;
        let written = turn.log.last();
        Ok((reply, if written > before { written } else { rests_on }))
    }

    /// Only one source, and every element to one consumer.
    fn check_by_split<'a>(&self, of: &'a Iteration) -> Result<&'a SourcePosition, Refusal> {
        let iteration = of.id;
        let job = self.state.jobs().get(&of.job);
        let policy = job.map_or(ShardingPolicy::Off, |job| job.sharding);
        if policy != ShardingPolicy::Dynamic {
            return Err(Refusal::NotDynamic { iteration, policy: policy.name() });
        }
        if job.is_some_and(|job| job.consumers.is_some()) {
            let problem = "its job has num_consumers, so that consumers read by rounds";
            return Err(Refusal::NotBySplit { iteration, problem });
        }
        match of.sources.as_slice() {
            [source] => Ok(source),
            _ => {
                let problem = "its dataset has not exactly one source of splits";
                Err(Refusal::NotBySplit { iteration, problem })
            }
        }
    }

    /// All readers of an iteration say the same number, as long as any of them holds a split.
    ///
    /// Holders that were not heard since this reader joined may have died before it, as those of a
    /// job that begins anew with another number: they are heard or given up soon.
    fn check_group(&self, reader: &Client, of: &Iteration, group: Group) -> Result<(), Refusal> {
        let agreed = of.by_split.group_size.filter(|agreed| *agreed != group.size);
        let Some(agreed) = agreed.filter(|_| of.by_split.held > 0) else {
            return Ok(());
        };
        let mut holders = of.clients.iter().filter(|id| self.splits_held_by(**id) > 0);
        let is_there =
            |id: &ClientId| *id == reader.id || self.leases.has_spoken_since(*id, reader.acquired);
        let (iteration, asked) = (of.id, group.size);
        Err(match holders.any(is_there) {
            true => Refusal::OtherGroup { iteration, asked, agreed },
            false => Refusal::FormerGroup { iteration, asked, agreed },
        })
    }

    /// Takes the rest of an iteration from workers that took it for clients that read by element,
    /// once there has been none of those for long: the clients there are wait for it. With
    /// `reissue_lost_splits` they get what is known to be with workers, though some of it may have been
    /// read, and go on waiting for the rest. Else it counts as lost, but only where dynamic reads that
    /// nobody goes on with are given up.
    fn recall_unread(&mut self, turn: &mut Turn<'_>, id: IterationId) -> Result<(), Refusal> {
        let iteration = self.iteration(id)?;
        if !self.state.is_left_to_workers(iteration) || !self.lacks_consumers(iteration, turn.now) {
            return Ok(());
        }
        let again = self.config.reissue_lost_splits;
        let takers = self.state.takers(iteration).filter(|task| !again || task.splits.has_any());
        let takers: Vec<(TaskId, WorkerId)> = takers.map(|task| (task.id, task.worker)).collect();
        for (task, worker) in &takers {
            let before = self.splits_with(*worker);
            self.commit(turn, [Record::RemoveTask { id: *task, again }])?;
            self.processes.forget_task(*worker, *task);
            self.tell_of_lost_splits(turn, *worker, &before);
        }
        if !self.state.is_read(self.iteration(id)?) {
            for (_, worker) in takers {
                self.make_task_on(turn, id, worker)?;
            }
        }
        Ok(())
    }

    /// Whether there has been no client that reads by element for so long that none is waited for.
    fn lacks_consumers(&self, of: &Iteration, now: Time) -> bool {
        let patience = match (self.config.reissue_lost_splits, self.config.job_gc_timeout) {
            (true, _) => self.config.client_timeout,
            (false, Some(timeout)) if self.config.gc_dynamic_sharding_jobs => timeout,
            (false, _) => return false,
        };
        if !of.clients.iter().all(|id| self.leases.reads_by_split(*id)) {
            return false;
        }
        let since = self.leases.without_consumers_since(of.id);
        self.is_over(since, since, Some(patience), now)
    }

    /// Ends an iteration that clients have read to its end, but for what workers still read
    /// that took splits themselves. Splits of later passes are lost, if they wait to be handed out
    /// again and nobody who reads by element is waited for.
    ///
    /// So ends one whose tasks are all finished when the last split that clients held is read: workers
    /// said that it is over, and nobody would read what they left.
    fn finish_if_read(&mut self, turn: &mut Turn<'_>, id: IterationId) -> Result<(), Refusal> {
        let iteration = self.iteration(id)?;
        let left = iteration.splits.again.count();
        let is_over = self.state.has_only_finished_tasks(iteration) && !iteration.awaits();
        let is_read = is_over || self.state.is_read(iteration);
        if !is_read || left > 0 && !self.lacks_consumers(iteration, turn.now) {
            return Ok(());
        }
        self.commit(turn, [Record::FinishIteration { id }])?;
        if left > 0 {
            let event = Event::LaterPassesLost { iteration: id, lost: left };
            turn.out.push(Effect::Observe(event));
        }
        Ok(())
    }

    /// Makes a task where one is missing. Clients that hold splits need one to read them with; else splits
    /// that are to be handed out again need one that asks for them.
    fn make_task_for_clients(
        &mut self,
        turn: &mut Turn<'_>,
        id: IterationId,
    ) -> Result<(), Refusal> {
        let iteration = self.iteration(id)?;
        match iteration.by_split.held > 0 {
            false => self.make_reader(turn, id),
            true if self.serves_clients(iteration) => Ok(()),
            true => self.make_another_task(turn, id),
        }
    }

    /// Whether a live worker that serves splits has a task of an iteration, or is to get it. A finished
    /// task serves clients as well as another one, as long as its worker has it.
    fn serves_clients(&self, of: &Iteration) -> bool {
        let mut tasks = of.tasks.iter().filter_map(|id| self.state.tasks().get(id));
        tasks.any(|task| {
            let there = !task.finished || self.processes.has_kept(task);
            there && self.state.is_live(task.worker, true)
        })
    }

    /// What a client holds, with the newest record that the answer rests on.
    fn splits_of(&self, request: &HoldSplits) -> Answer {
        let client = self.client(request.client)?;
        let iteration = self.iteration(client.iteration)?;
        let source = iteration.sources.first().map(|position| position.source);
        let held = client.splits.iter().filter_map(|(place, records)| {
            let split = source?.split_at(*place)?;
            Some(HeldSplit { place: *place, split, records: *records })
        });
        let with_workers = self.state.is_left_to_workers(iteration);
        let reply =
            SplitsHeld { splits: held.collect(), finished: iteration.finished, with_workers };
        // Whether there is more for it, and how many its group are, is what others have done.
        let after = client.changed.max(iteration.splits_changed).max(iteration.changed);
        Ok((Reply::SplitsHeld(reply), after))
    }

    /// How many splits a client holds.
    pub(super) fn splits_held_by(&self, id: ClientId) -> u64 {
        let client = self.state.clients().get(&id);
        client.map_or(0, |client| u64::try_from(client.splits.len()).unwrap_or(u64::MAX))
    }
}

impl State {
    /// Whether everything that clients can read by split has been handed out and read, and workers
    /// have nothing more.
    fn is_read(&self, of: &Iteration) -> bool {
        of.is_handed_out() && self.takers(of).next().is_none()
    }

    /// Whether all that is left to read of an iteration is with workers.
    fn is_left_to_workers(&self, of: &Iteration) -> bool {
        of.is_handed_out() && (!of.splits.again.is_empty() || self.takers(of).next().is_some())
    }

    /// Unfinished tasks that may still read splits that their workers took.
    fn takers<'a>(&'a self, of: &'a Iteration) -> impl Iterator<Item = &'a Task> + 'a {
        let tasks = of.tasks.iter().filter_map(|id| self.tasks().get(id));
        tasks.filter(|task| !task.finished && task.splits.may_hold_any(&of.splits))
    }
}

impl Iteration {
    /// Whether all splits of an unfinished iteration of one source were handed out, and no client
    /// holds or is to get any.
    fn is_handed_out(&self) -> bool {
        let [source] = self.sources.as_slice() else {
            return false;
        };
        let handed_out = source.repetition > 0 || source.index >= source.source.len();
        handed_out && !self.finished && !self.awaits_readers_by_split()
    }

    /// Whether clients that read by split have, or can get, splits that were handed out before. They
    /// read the first pass only.
    pub(super) fn awaits_readers_by_split(&self) -> bool {
        let again = self.splits.again.first_of(0, 0).is_some();
        self.by_split.held > 0 || !self.by_split.waiting.is_empty() || again
    }

    /// Whether splits that were handed out have yet to be read, as far as tasks do not.
    pub(super) fn awaits(&self) -> bool {
        self.by_split.held > 0 || self.to_be_handed_out_again() > 0
    }

    /// How many splits wait to be handed out again.
    pub(super) fn to_be_handed_out_again(&self) -> u64 {
        self.splits.again.count().saturating_add(self.by_split.waiting_count())
    }
}

/// What a client's request changes, if anything.
fn decide_holding(
    client: &Client,
    of: &Iteration,
    source: &SourcePosition,
    request: &HoldSplits,
) -> Option<Record> {
    let progress = progress_of(client, &request.progress);
    let finished = progress.iter().filter(|progress| progress.finished).count();
    let left = client.splits.len().saturating_sub(finished);
    let wanted = request.hold.min(SPLITS_PER_CLIENT_MAX).saturating_sub(left);
    let taken = next_places(of, source, request.group, wanted);
    if progress.is_empty() && taken.is_empty() {
        return None;
    }
    Some(Record::HoldSplits { client: client.id, progress, taken, group_size: request.group.size })
}

/// What is new in what a client says of the splits it holds.
fn progress_of(client: &Client, said: &[SplitProgress]) -> Vec<SplitProgress> {
    let mut new: BTreeMap<u64, SplitProgress> = BTreeMap::new();
    for said in said {
        let Some(known) = client.splits.get(&said.place) else {
            continue;
        };
        let nothing = SplitProgress { place: said.place, records: *known, finished: false };
        let progress = new.entry(said.place).or_insert(nothing);
        progress.records = progress.records.max(said.records);
        progress.finished |= said.finished;
    }
    let is_new = |progress: &SplitProgress| {
        progress.finished || client.splits.get(&progress.place) != Some(&progress.records)
    };
    new.into_values().filter(is_new).collect()
}
