//! Streams of records: which splits are read of which workers, and what they bring.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Splits;
use super::held::Held;
use super::trial::{SLOW, Trial};
use crate::ids::TaskId;
use crate::limits::RECORDS_PROTOCOL;
use crate::reader::shared::{Purpose, Shared};
use crate::reader::types::{Batch, Effect, ReadSplit, Records, RpcId, Task};
use crate::status::{Code, Status};
use crate::time::{Duration, Time};

/// Longest pause before a split is read elsewhere.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// An open stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    place: u64,
    task: TaskId,
    worker: Arc<str>,
    opened: Time,
    /// Since when a message is asked for that has not come.
    asked: Option<Time>,
}

impl Splits {
    /// The split that the application is to get next.
    pub(super) fn front(&self) -> Option<u64> {
        self.current.or_else(|| {
            let first = self.held.iter().find(|(_, held)| !held.is_delivered());
            first.map(|(place, _)| *place)
        })
    }

    /// Whether one more message may come that nobody waits for.
    pub(super) fn has_room(&self, shared: &Shared) -> bool {
        let asked = self.streams.values().filter(|stream| stream.asked.is_some()).count();
        let coming = (asked as u64).saturating_add(1).saturating_mul(self.largest);
        let config = &shared.config;
        self.buffered.saturating_add(asked) < config.buffer_deliveries_max
            && self.buffered_bytes.saturating_add(coming) <= config.buffer_bytes_max
    }

    /// Whether the application waits for this split, of which nothing lies here.
    fn is_waited_for(&self, place: u64) -> bool {
        let lacks = self.held.get(&place).is_some_and(|held| !held.has_buffered());
        self.front() == Some(place) && lacks
    }

    /// Whether this split may be read. The one in front always may, else what lies here could keep
    /// it from coming for ever.
    fn may_open(&self, place: u64, held: &Held, shared: &Shared) -> bool {
        if held.is_received() || held.stream.is_some() {
            return false;
        }
        let is_free = self.streams.len() < self.way.streams && self.has_room(shared);
        is_free || self.is_waited_for(place)
    }

    /// When a split may be read again that nobody could read.
    pub(super) fn opening_due(&self, shared: &Shared) -> Option<Time> {
        if self.lacks_tasks(shared) {
            return None;
        }
        let may = self.held.iter().filter(|(place, held)| self.may_open(**place, held, shared));
        may.map(|(_, held)| held.retry.at().unwrap_or(Time::ZERO)).min()
    }

    pub(super) fn open_streams(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        let places: Vec<u64> = self.held.keys().copied().collect();
        for place in places {
            let Some(held) = self.held.get(&place) else {
                continue;
            };
            if held.retry.waits(now) || !self.may_open(place, held, shared) {
                continue;
            }
            // The split in front is read beside the others: by one stream more, whichever is in front.
            if self.streams.len() > self.way.streams {
                self.withdraw_last(now, shared, out);
            }
            let Some(held) = self.held.get(&place) else {
                continue;
            };
            let Some((task, address)) = choose(now, held, &self.trial, shared) else {
                return;
            };
            self.open(now, place, (&task, address), shared, out);
        }
    }

    fn open(
        &mut self,
        now: Time,
        place: u64,
        (task, address): (&Task, Arc<str>),
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) {
        let Some(held) = self.held.get_mut(&place) else {
            return;
        };
        let rpc = shared.begin(Purpose::Stream);
        if shared.is_slow(&task.worker) {
            self.trial.begin(now, rpc);
        }
        held.retry.begin();
        held.stream = Some(rpc);
        let worker = task.worker.clone();
        let worker_load = &mut shared.worker(&worker).load;
        *worker_load = worker_load.saturating_add(1);
        let stream = Stream { place, task: task.id, worker, opened: now, asked: Some(now) };
        self.streams.insert(rpc, stream);
        let (split, skip) = (held.split, held.received);
        let read = ReadSplit { task: task.id, split, skip, batch_records: self.way.batch_records };
        out.push(Effect::Open { rpc, address, read });
    }

    /// Ends the stream of the split that the application gets last. The split is read on later, from the
    /// record where it stopped; that it had failed counts no more. A trial that ends so has failed.
    fn withdraw_last(&mut self, now: Time, shared: &mut Shared, out: &mut Vec<Effect>) {
        let last = self.streams.iter().max_by_key(|(_, stream)| stream.place);
        let Some((rpc, stream)) = last.map(|(rpc, stream)| (*rpc, stream)) else {
            return;
        };
        self.trial.failed(now, rpc, &stream.worker);
        shared.withdraw(rpc, out);
        let closed = self.close(rpc, shared);
        if let Some(held) = closed.and_then(|stream| self.held.get_mut(&stream.place)) {
            held.retry.succeeded();
        }
    }

    /// Asks streams for more: first the one that the application waits for.
    pub(super) fn take_more(&mut self, now: Time, shared: &Shared, out: &mut Vec<Effect>) {
        let mut idle: Vec<(u64, RpcId)> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.asked.is_none())
            .map(|(rpc, stream)| (stream.place, *rpc))
            .collect();
        idle.sort_unstable();
        for (place, rpc) in idle {
            if !self.is_waited_for(place) && !self.has_room(shared) {
                continue;
            }
            if let Some(stream) = self.streams.get_mut(&rpc) {
                stream.asked = Some(now);
                out.push(Effect::Take { rpc });
            }
        }
    }

    /// The dispatcher has said which tasks there are: nobody waits for those that are gone.
    pub(in crate::reader) fn told(&mut self, shared: &mut Shared, out: &mut Vec<Effect>) {
        if shared.is_finished {
            self.poll_now();
        }
        if self.lacks_tasks(shared) {
            return;
        }
        let is_gone = |stream: &Stream| shared.tasks.iter().all(|task| task.id != stream.task);
        let gone: Vec<RpcId> = self
            .streams
            .iter()
            .filter(|(_, stream)| is_gone(stream))
            .map(|(rpc, _)| *rpc)
            .collect();
        for rpc in gone {
            shared.withdraw(rpc, out);
            self.close(rpc, shared);
        }
    }

    fn close(&mut self, rpc: RpcId, shared: &mut Shared) -> Option<Stream> {
        let stream = self.streams.remove(&rpc)?;
        self.trial.ended(rpc);
        shared.unload(&stream.worker);
        if let Some(held) = self.held.get_mut(&stream.place) {
            held.stream = None;
        }
        Some(stream)
    }

    pub(super) fn stream_failed(
        &mut self,
        now: Time,
        rpc: RpcId,
        status: Status,
        entropy: u64,
        shared: &mut Shared,
    ) -> Result<(), Status> {
        if let Some(stream) = self.streams.get(&rpc) {
            self.trial.failed(now, rpc, &stream.worker);
        }
        let Some(stream) = self.close(rpc, shared) else {
            return Ok(());
        };
        let Stream { place, task, ref worker, .. } = stream;
        if !status.code.is_soft() {
            let Status { code, message, details } = status;
            let text = format!("worker {worker} cannot read the split at place {place}: {message}");
            return Err(Status::new(code, text).with(details));
        }
        shared.count_retry();
        count_failure(now, &stream, status.clone(), entropy, shared);
        if let Some(held) = self.held.get_mut(&place) {
            held.retry.failed(now, status, entropy, PAUSE_MAX);
            held.avoided = Some((stream.worker, task));
        }
        Ok(())
    }

    /// A stream has brought something.
    ///
    /// # Errors
    /// When the worker has left records out, or contradicts what came before.
    pub(super) fn received(
        &mut self,
        rpc: RpcId,
        records: Records,
        shared: &mut Shared,
        out: &mut Vec<Effect>,
    ) -> Result<(), Status> {
        let Some(stream) = self.streams.get_mut(&rpc) else {
            return Ok(());
        };
        stream.asked = None;
        self.trial.ended(rpc);
        let (place, worker) = (stream.place, stream.worker.clone());
        shared.worker(&worker).retry.succeeded();
        let is_last = records.is_last;
        let size = records.records.len() as u64;
        if let Some(held) = self.held.get_mut(&place) {
            held.retry.succeeded();
            held.avoided = None;
            let batch = fresh(place, held, &worker, records, shared)?;
            if let Some(batch) = batch {
                held.keep(batch);
                self.buffered = self.buffered.saturating_add(1);
                self.buffered_bytes = self.buffered_bytes.saturating_add(size);
                self.largest = self.largest.max(size);
            }
            if is_last {
                held.complete();
            }
        }
        if is_last {
            shared.withdraw(rpc, out);
            self.close(rpc, shared);
        }
        Ok(())
    }
}

/// What is new in a message; `None` if nothing is.
///
/// # Errors
/// When records were left out, or the split ends before what came before.
fn fresh(
    place: u64,
    held: &Held,
    worker: &Arc<str>,
    message: Records,
    shared: &mut Shared,
) -> Result<Option<Batch>, Status> {
    let Records { first, count, records, is_last, skipped } = message;
    let (expected, end) = (held.received, first.saturating_add(count));
    let wrong = |what| {
        let text = format!("worker {worker}, split {} at place {place}: {what}", held.split);
        Err(Status::new(Code::DataLoss, text))
    };
    if first > expected {
        let what = format!("records {first} to {end} came where record {expected} is next");
        return wrong(what);
    }
    if is_last && end < expected {
        let what = format!("it ends at record {end}, but {expected} records came before");
        return wrong(what);
    }
    let passed = expected.saturating_sub(first);
    let new = end.saturating_sub(expected);
    let again = count.saturating_sub(new);
    shared.counts.duplicates = shared.counts.duplicates.saturating_add(again);
    shared.skipped(skipped);
    if new == 0 {
        return Ok(None);
    }
    shared.count(worker, new, records.len() as u64);
    let split = held.split;
    Ok(Some(Batch { place, split, first: expected, count: new, passed, records }))
}

/// Counts a failed stream against its worker. The streams of a connection that breaks are one failure.
fn count_failure(now: Time, stream: &Stream, status: Status, entropy: u64, shared: &mut Shared) {
    let worker = shared.worker(&stream.worker);
    if worker.retry.last_failed().is_some_and(|last| stream.opened <= last) {
        return;
    }
    worker.retry.failed(now, status, entropy, PAUSE_MAX);
    worker.was_slow = stream.asked.is_some_and(|asked| now.since(asked) >= SLOW);
}

/// The task to read a split with. In order of weight, it prefers:
///
/// * a worker that has not failed, or is to be tried again; then one whose calls fail soon;
/// * not the worker that failed with this split;
/// * of several tasks of one worker, not the task that failed with this split, and then the newest:
///   a worker has one unfinished task of an iteration, and has forgotten those it finished before;
/// * the worker with the fewest streams. Among equals, readers begin with different workers.
fn choose(now: Time, held: &Held, trial: &Trial, shared: &Shared) -> Option<(Task, Arc<str>)> {
    let avoided = held.avoided.as_ref();
    let tried = trial.worker_for(now, held.retry.failures(), shared);
    let count = shared.tasks.len().max(1) as u64;
    let start = shared.rotation % count;
    let newest = newest_of_workers(&shared.tasks);
    let mut ranked: Vec<_> = shared
        .tasks
        .iter()
        .enumerate()
        .filter_map(|(index, task)| {
            let address = task.address(RECORDS_PROTOCOL)?;
            let name = &*task.worker;
            let has_failed = avoided.is_some_and(|(worker, _)| **worker == *name);
            let task_failed = avoided.is_some_and(|(_, failed)| *failed == task.id);
            let is_old = newest.get(name) != Some(&task.id);
            let turn = (index as u64).saturating_add(count).saturating_sub(start) % count;
            let task_rank = (task_failed, is_old);
            let failed = (tried.doubt_of(name, now, shared), has_failed);
            Some(((failed, task_rank, shared.load(name), turn), task, address))
        })
        .collect();
    ranked.sort_unstable_by_key(|(rank, ..)| *rank);
    ranked.first().map(|(_, task, address)| ((*task).clone(), (*address).clone()))
}

/// The newest task of each worker that serves records.
fn newest_of_workers(tasks: &[Task]) -> BTreeMap<&str, TaskId> {
    let mut newest: BTreeMap<&str, TaskId> = BTreeMap::new();
    for task in tasks.iter().filter(|task| task.address(RECORDS_PROTOCOL).is_some()) {
        let id = newest.entry(&task.worker).or_insert(task.id);
        *id = task.id.max(*id);
    }
    newest
}
