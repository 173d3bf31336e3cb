//! Reading by split in the model: splits are looked for one by one.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::dispatcher::{Group, HeldSplit, HoldSplits, Reply, ShardingPolicy, SplitsHeld};
use rondo_core::ids::{ClientId, IterationId, TaskId};
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::kept::Kept;
use super::splitting::{Holder, nth};
use super::{Heard, Model};

/// What is known of the splits that clients share.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shared {
    /// Places that nobody holds, with the records acknowledged.
    pub(crate) waiting: BTreeMap<u64, u64>,
    /// How many readers there are, as they say.
    pub(crate) group: Option<u32>,
    pub(crate) acknowledged: u64,
}

/// What the answer to a reader depends on besides the kept state.
pub(super) struct Circumstances {
    /// See [`Model::is_contradicted`].
    is_contradicted: bool,
    /// See [`Model::recalls`].
    recalls: Option<bool>,
    /// Finished tasks that their workers have dropped.
    dropped: BTreeSet<TaskId>,
}

impl Kept {
    pub(super) fn hold(&mut self, request: &HoldSplits, by: &Circumstances) -> Heard {
        let client = self.clients.get(&request.client).ok_or(Code::NotFound)?;
        let id = client.iteration;
        let iteration = self.iteration(id).unwrap();
        if iteration.collected {
            return Err(Code::FailedPrecondition);
        }
        if iteration.finished {
            return Ok(Reply::SplitsHeld(SplitsHeld { finished: true, ..SplitsHeld::default() }));
        }
        let job = self.job_of(iteration);
        let alone = job.consumers.is_none() && iteration.sources.len() == 1;
        if job.sharding != ShardingPolicy::Dynamic || !alone {
            return Err(Code::FailedPrecondition);
        }
        let other = iteration.shared.group.is_some_and(|size| size != request.group.size);
        if other && self.held(id) > 0 {
            return Err(if by.is_contradicted { Code::InvalidArgument } else { Code::Unavailable });
        }
        if let Some(again) = by.recalls.filter(|_| self.is_left_to_workers(id)) {
            self.recall(id, again);
        }
        self.acknowledge(id, request);
        while self.clients[&request.client].splits.len() < request.hold {
            let Some((place, records)) = self.next_for(id, request.group) else { break };
            let client = self.clients.get_mut(&request.client).unwrap();
            client.splits.insert(place, records);
            client.held_any = true;
            self.iteration_mut(id).unwrap().shared.group = Some(request.group.size);
        }
        if self.is_read(id) && (self.again(id) == 0 || by.recalls.is_some()) {
            self.end(id);
        }
        self.end_if_over(id);
        if self.held(id) > 0 && !self.can_be_read(id, &by.dropped) {
            self.make_another_task(id);
        }
        self.make_reader(id);
        Ok(Reply::SplitsHeld(self.answer_to(request.client)))
    }

    fn acknowledge(&mut self, id: IterationId, request: &HoldSplits) {
        let client = self.clients.get_mut(&request.client).unwrap();
        let before: u64 = client.splits.values().sum();
        for progress in &request.progress {
            if let Some(records) = client.splits.get_mut(&progress.place) {
                *records = progress.records.max(*records);
            }
        }
        let after: u64 = client.splits.values().sum();
        for progress in request.progress.iter().filter(|progress| progress.finished) {
            client.splits.remove(&progress.place);
        }
        self.iteration_mut(id).unwrap().shared.acknowledged += after - before;
    }

    /// Takes the lowest place there is for a reader of this group.
    fn next_for(&mut self, id: IterationId, group: Group) -> Option<(u64, u64)> {
        let own = |place: &u64| place % u64::from(group.size) == u64::from(group.index);
        let iteration = self.iteration_mut(id).unwrap();
        let waiting = iteration.shared.waiting.keys().copied().find(own);
        let again = iteration.given.again_of_first_pass().filter(|place| own(place)).min();
        let given = &mut iteration.given.splits;
        match (waiting, again) {
            (Some(place), other) if other.is_none_or(|other| place < other) => {
                return Some((place, iteration.shared.waiting.remove(&place)?));
            }
            (_, Some(place)) => {
                given.retain(|it| *it != ((0, 0, place as usize), Holder::Again));
                return Some((place, 0));
            }
            _ => {}
        }
        let (source, pass, given) = &mut iteration.sources[0];
        let first = *given as u64;
        let place = (first..first + u64::from(group.size)).find(own)?;
        if *pass > 0 || nth(source, place as usize).is_none() {
            return None;
        }
        *given = place as usize + 1;
        iteration.shared.waiting.extend((first..place).map(|place| (place, 0)));
        Some((place, 0))
    }

    /// Whether all splits were handed out, and nothing is with or for clients.
    fn is_handed_out(&self, id: IterationId) -> bool {
        let iteration = self.iteration(id).unwrap();
        let (source, pass, given) = &iteration.sources[0];
        let handed_out = *pass > 0 || nth(source, *given).is_none();
        handed_out && !iteration.finished && !self.awaits_readers(id)
    }

    /// Unfinished tasks whose workers may still read splits that they took.
    fn takers(&self, id: IterationId) -> Vec<TaskId> {
        let iteration = self.iteration(id).unwrap();
        let unfinished = iteration.active.iter().filter(|task| !self.tasks[task].finished);
        let takers = unfinished.filter(|task| {
            iteration.given.count(&Holder::Task(**task)) > 0
                || iteration.given.unattributed > self.tasks[task].unattributed_before
        });
        takers.copied().collect()
    }

    fn is_read(&self, id: IterationId) -> bool {
        self.is_handed_out(id) && self.takers(id).is_empty()
    }

    fn is_left_to_workers(&self, id: IterationId) -> bool {
        self.is_handed_out(id) && (self.again(id) > 0 || !self.takers(id).is_empty())
    }

    /// Those who would read what workers took are gone: it is for those who wait, or lost.
    fn recall(&mut self, id: IterationId, again: bool) {
        let mut addresses = Vec::new();
        let is_known = |task: &TaskId| {
            let given = &self.iteration(id).unwrap().given;
            given.count(&Holder::Task(*task)) > 0
        };
        let takers = self.takers(id).into_iter().filter(|task| !again || is_known(task));
        for task in takers.collect::<Vec<_>>() {
            addresses.push(self.tasks[&task].address.clone());
            self.forsake(task, again);
            self.erase(task);
        }
        if !self.is_read(id) {
            addresses.iter().for_each(|address| self.make_task_on(id, address));
        }
        self.recalled += u64::from(!addresses.is_empty());
    }

    fn answer_to(&self, id: ClientId) -> SplitsHeld {
        let client = &self.clients[&id];
        let iteration = self.iteration(client.iteration).unwrap();
        let held = client.splits.iter().map(|(place, records)| HeldSplit {
            place: *place,
            split: nth(&iteration.sources[0].0, *place as usize).unwrap(),
            records: *records,
        });
        SplitsHeld {
            splits: held.collect(),
            finished: iteration.finished,
            with_workers: iteration.sources.len() == 1 && self.is_left_to_workers(client.iteration),
        }
    }

    pub(crate) fn held(&self, id: IterationId) -> usize {
        self.clients_of(id).iter().map(|client| self.clients[client].splits.len()).sum()
    }

    /// Splits that were handed out once and are to be handed out again.
    pub(super) fn to_be_given(&self, id: IterationId) -> usize {
        let iteration = self.iteration(id).unwrap();
        iteration.given.count(&Holder::Again) + iteration.shared.waiting.len()
    }

    pub(super) fn awaits(&self, id: IterationId) -> bool {
        self.held(id) + self.to_be_given(id) > 0
    }

    fn again(&self, id: IterationId) -> usize {
        self.iteration(id).unwrap().given.count(&Holder::Again)
    }

    /// The same, as far as those concern clients that hold splits: they know the first pass only.
    fn awaits_readers(&self, id: IterationId) -> bool {
        let iteration = self.iteration(id).unwrap();
        let again = iteration.given.again_of_first_pass().next().is_some();
        again || self.held(id) + iteration.shared.waiting.len() > 0
    }

    pub(super) fn has_reader(&self, id: IterationId) -> bool {
        self.iteration(id).unwrap().active.iter().any(|task| !self.tasks[task].finished)
    }

    /// Whether somebody who lives and serves splits has a task of the iteration, over or not.
    fn can_be_read(&self, id: IterationId, dropped: &BTreeSet<TaskId>) -> bool {
        let mut there =
            self.iteration(id).unwrap().active.iter().filter(|id| !dropped.contains(*id));
        there.any(|id| {
            let address = &self.tasks[id].address;
            !self.lost.contains(address) && self.serves_splits(address)
        })
    }

    pub(super) fn serves_splits(&self, address: &str) -> bool {
        let worker = self.workers.iter().find(|worker| worker.address == address);
        worker.unwrap().transfer_servers.iter().any(|server| server.protocol == "rondo")
    }

    /// What a worker may be handed of the splits that wait: while clients hold some, none that was
    /// begun.
    pub(super) fn waiting_for_workers(&self, id: IterationId) -> Option<u64> {
        let begun_too = self.held(id) == 0;
        let mut waiting = self.iteration(id).unwrap().shared.waiting.iter();
        waiting.find(|(_, records)| begun_too || **records == 0).map(|(place, _)| *place)
    }
}

impl Model {
    pub(super) fn hold(&mut self, now: Time, request: &HoldSplits) -> Heard {
        if self.kept.clients.contains_key(&request.client) {
            self.hear_client(now, request.client);
        }
        self.by_split.insert(request.client);
        let is_contradicted = self.is_contradicted(request.client);
        let recalls = self.recalls(now, request.client);
        let dropped =
            self.processes.values().flat_map(|process| &process.dropped).copied().collect();
        self.kept.hold(request, &Circumstances { is_contradicted, recalls, dropped })
    }

    /// Whether splits go back that workers took for clients that read by element; then, whether
    /// others get them. All clients there are ask for splits to hold, and it is long since one was
    /// there that did not.
    fn recalls(&self, now: Time, id: ClientId) -> Option<bool> {
        let again = self.config.reissue_lost_splits;
        let patience = match again {
            true => Some(self.config.client_timeout),
            false => self.config.job_gc_timeout.filter(|_| self.config.gc_dynamic_sharding_jobs),
        };
        let iteration = self.kept.clients.get(&id)?.iteration;
        let clients = self.kept.clients_of(iteration);
        let until = self.elements_until.get(&iteration).copied();
        let since = until.unwrap_or(self.started).max(self.started);
        let is_long = self.held_up.less_since(since, now) >= since.after(patience?);
        let asks = |client| self.by_split.contains(client);
        (is_long && clients.iter().all(asks)).then_some(again)
    }

    /// A client that reads by element is there, others hold splits, and nobody asks for what is to be given
    /// again. Somebody who lives gets a task, unless the last one is there and has left as many: best one
    /// who keeps no task that is over, and took part before.
    pub(super) fn make_task_for_elements(&mut self, id: IterationId) {
        let count = self.kept.to_be_given(id);
        let iteration = self.kept.iteration(id).unwrap();
        let mut untouched = iteration.shared.waiting.values().filter(|records| **records == 0);
        let nothing = self.kept.again(id) == 0 && untouched.next().is_none();
        let is_read = self.kept.held(id) == 0 || self.kept.has_reader(id);
        let tried = self.elements_tried.get(&id);
        let in_vain =
            tried.is_some_and(|(left, by)| *left == count && iteration.active.contains(by));
        if nothing || is_read || iteration.finished || in_vain {
            return;
        }
        let is_dropped = |task| self.processes.values().any(|it| it.dropped.contains(task));
        let own = |address: &str| {
            let tasks = iteration.active.iter();
            tasks.filter(|task| self.kept.tasks[*task].address == address).collect::<Vec<_>>()
        };
        let addresses = self.kept.workers.iter().map(|worker| worker.address.clone());
        let living = addresses.filter(|address| !self.kept.lost.contains(address));
        let rank = |address: &String| {
            let tasks = own(address);
            (tasks.iter().any(|task| !is_dropped(task)), tasks.is_empty())
        };
        if let Some(address) = living.min_by_key(rank) {
            self.kept.make_task_on(id, &address);
            let newest = self.kept.iteration(id).unwrap().active.iter().max();
            let newest = newest.copied();
            self.elements_tried.extend(newest.map(|task| (id, (count, task))));
        }
    }

    pub(super) fn part_with(&mut self, now: Time, id: ClientId) -> bool {
        let iteration = self.kept.clients.get(&id).map(|client| client.iteration);
        let released = self.kept.release(now, id);
        if let Some(iteration) = iteration.filter(|_| !self.by_split.contains(&id)) {
            self.elements_until.insert(iteration, now);
        }
        released
    }

    /// Whether somebody who holds a split is known to live beside this reader: the reader itself, or
    /// another one heard after the reader came.
    fn is_contradicted(&self, id: ClientId) -> bool {
        let Some(reader) = self.kept.clients.get(&id) else {
            return false;
        };
        let mut holders =
            self.kept.clients.iter().filter(|(_, other)| {
                other.iteration == reader.iteration && !other.splits.is_empty()
            });
        holders.any(|(other, _)| {
            let spoke = self.spoke.get(other);
            *other == id || spoke.is_some_and(|spoke| *spoke > reader.joined)
        })
    }

    pub(super) fn give_up_silent_readers(&mut self, now: Time, refuses: bool) {
        let mut bereaved = Vec::new();
        let hearing = self.held_up.less(now);
        for (id, client) in self.kept.clients.clone() {
            let ends = self.heard.get(&id).map(|heard| heard.after(self.config.reader_timeout));
            let over = |ends: &Time| hearing > *ends && !client.splits.is_empty();
            if ends.filter(over).is_none() {
                continue;
            }
            if refuses {
                self.heard.insert(id, hearing);
            } else {
                self.part_with(now, id);
                bereaved.push(client.iteration);
            }
        }
        bereaved.sort();
        bereaved.dedup();
        bereaved.into_iter().for_each(|id| self.kept.make_reader(id));
    }
}
