//! Records read by split: each is delivered once in each life of a reader, in order; each is
//! acknowledged once, and what was acknowledged is nobody's to read again; a reader that is told that
//! all was read has been told the truth; and a restored position is where it was saved, to the record.
//!
//! Beside readers by element a split is a worker's or a reader's, and who is told that all was read has
//! been told that the workers have read theirs, too.
//!
//! What is acknowledged is what the records in the journal say, and no less than what was answered.

mod beside;
mod groups;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::control::{Record, Recovered};
use rondo_core::dispatcher::{self, HoldSplits, Reply, Request, SplitProgress, SplitsHeld};
use rondo_core::ids::{CallId, ClientId, IterationId, Lsn};
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;

use self::groups::Groups;
use super::journaled::{Change, Journal, Places};
use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};
use crate::fault::PROXY_ANSWERS;
use crate::swarm::ReadingShape;
use crate::workload::Delivered;
use crate::workload::elements::OfElements;

/// Stands among the places of an iteration for what strangers have got of it.
const STRAYED: u64 = u64::MAX;

/// One life of a reader.
#[derive(Default)]
struct Life {
    /// From which record on it was told to read each split.
    told: BTreeMap<u64, u64>,
    /// The next record of each split.
    next: BTreeMap<u64, u64>,
    current: Option<u64>,
}

pub(super) struct Reading {
    shape: Option<ReadingShape>,
    journal: Journal,
    /// What readers were told is acknowledged.
    promised: BTreeMap<IterationId, Places>,
    lives: BTreeMap<ClientId, Life>,
    asking: BTreeMap<CallId, HoldSplits>,
    /// Calls for a split, or that say that a task is over, by who is no worker of this disk's.
    strangers: BTreeSet<CallId>,
    groups: Groups,
}

impl Reading {
    pub(super) fn new(shape: Option<ReadingShape>) -> Self {
        Self {
            shape,
            journal: Journal::default(),
            promised: BTreeMap::new(),
            lives: BTreeMap::new(),
            asking: BTreeMap::new(),
            strangers: BTreeSet::new(),
            groups: Groups::default(),
        }
    }

    fn records_of(&self, place: u64) -> u64 {
        // One source counts the splits of all passes: a split's value is its place.
        self.shape.map_or(0, |shape| shape.records_of(place))
    }

    fn record(&mut self, lsn: Lsn, record: &dispatcher::Record, shadow: &Shadow) -> Verdict {
        use dispatcher::Record as R;
        let change = match record {
            R::AcquireClient { id, iteration, .. } => {
                self.lives.remove(id);
                self.groups.joined(*id);
                Change::Joined(*id, *iteration)
            }
            R::HoldSplits { client, progress, taken, group_size } => {
                if !taken.is_empty() {
                    self.groups.takes(*client, *group_size, shadow)?;
                }
                return self.held(lsn, *client, (progress, taken), shadow);
            }
            R::CreateFinishedIteration { id, .. } => Change::KnownFinished(*id),
            R::SavePosition { name, job, .. } => self.saved(name, job, shadow),
            R::RestorePosition { name, job, .. } => Change::Restored(job.clone(), name.clone()),
            R::ResumeIteration { id, job, repetition, .. } => {
                // Only the first repetition is read by split, and only its position is followed.
                let job = shadow.state().jobs().get(job).filter(|_| *repetition == 0);
                Change::Resumed(*id, job.map(|job| job.name.clone()))
            }
            _ => return Ok(()),
        };
        self.journal.change(lsn, change);
        Ok(())
    }

    fn held(
        &mut self,
        lsn: Lsn,
        client: ClientId,
        (progress, taken): (&[SplitProgress], &[u64]),
        shadow: &Shadow,
    ) -> Verdict {
        let Some(id) = self.journal.now().of.get(&client).copied() else {
            return Ok(());
        };
        for told in progress {
            reached(Check::ReadingAcknowledged);
            let (all, (records, finished)) =
                (self.records_of(told.place), self.known(id, told.place));
            if finished || told.records < records {
                return Err(format!("{told:?} of {client}, but {records} were acknowledged"));
            }
            if told.records > all || told.finished && told.records < all {
                return Err(format!("{told:?} of {client}, of {all} records"));
            }
            self.journal.change(lsn, Change::Read(id, *told));
        }
        for place in taken {
            if self.known(id, *place).1 {
                return Err(format!("client {client} is to read split {place} of {id} again"));
            }
            self.not_with_workers(id, *place)?;
            let before = self.journal.now().holders.get(&(id, *place)).copied();
            let holds = |of: &ClientId| {
                let of = shadow.state().clients().get(of);
                of.is_some_and(|of| of.splits.contains_key(place))
            };
            if let Some(before) = before.filter(holds) {
                return Err(format!("clients {before} and {client} hold split {place} of {id}"));
            }
            self.journal.change(lsn, Change::Held(id, *place, client));
        }
        Ok(())
    }

    /// Records of a split that are acknowledged, and whether those are all.
    fn known(&self, id: IterationId, place: u64) -> (u64, bool) {
        let places = self.journal.now().acknowledged.get(&id);
        places.and_then(|places| places.get(&place)).copied().unwrap_or_default()
    }

    fn saved(&self, name: &Arc<str>, job: &Arc<str>, shadow: &Shadow) -> Change {
        let state = shadow.state();
        let mut iterations = state.job_named(job).into_iter().flat_map(|job| {
            let newest = state.newest_iterations_of(job.id);
            newest.filter(|of| of.repetition == 0 && !of.collected)
        });
        let now = self.journal.now();
        let places = match iterations.next() {
            Some(of) => now.acknowledged.get(&of.id).cloned(),
            None => now.restored.get(job).cloned(),
        };
        Change::Saved(name.clone(), places.unwrap_or_default())
    }

    /// A stranger got a split, or ended a task, since by the number it meant another one: no reader gets
    /// what it has taken, nor is owed it, nor where a position goes on that is saved from now on.
    fn stray(
        &mut self,
        lsn: Lsn,
        record: &dispatcher::Record,
        during: Option<CallId>,
        shadow: &Shadow,
    ) {
        use dispatcher::Record as R;
        let iteration = match record {
            R::ProduceSplit { iteration, .. }
            | R::RepeatSplit { iteration, .. }
            | R::HandOutWaiting { iteration, .. } => Some(*iteration),
            R::FinishTask { id } => shadow.state().tasks().get(id).map(|task| task.iteration),
            _ => None,
        };
        let is_strangers = during.is_some_and(|call| self.strangers.contains(&call));
        if let Some(iteration) = iteration.filter(|_| is_strangers) {
            let strayed = SplitProgress { place: STRAYED, records: 0, finished: false };
            self.journal.change(lsn, Change::Read(iteration, strayed));
        }
    }

    /// A reader says how far it has come: no further than it was handed records.
    fn taken(&mut self, call: CallId, request: &HoldSplits) -> Verdict {
        self.asking.insert(call, request.clone());
        let Some(life) = self.lives.get(&request.client) else {
            return Ok(());
        };
        let next = |place| life.next.get(place).or_else(|| life.told.get(place)).copied();
        let ahead = request.progress.iter().find(|told| next(&told.place) < Some(told.records));
        match ahead {
            Some(told) => {
                let client = request.client;
                Err(format!("client {client} acknowledges what it was never handed: {told:?}"))
            }
            None => Ok(()),
        }
    }

    fn answered(&mut self, asked: &HoldSplits, held: &SplitsHeld) -> Verdict {
        let client = asked.client;
        let now = self.journal.now();
        let Some(id) = now.of.get(&client).copied() else {
            return Ok(());
        };
        let acknowledged = now.acknowledged.get(&id);
        let known = |place: &u64| {
            acknowledged.and_then(|places| places.get(place)).copied().unwrap_or_default()
        };
        let life = self.lives.entry(client).or_default();
        let promised = self.promised.entry(id).or_default();
        for told in asked.progress.iter().filter(|told| life.told.contains_key(&told.place)) {
            let (records, finished) = known(&told.place);
            if records < told.records || told.finished && !finished {
                return Err(format!("{told:?} of {client} was taken, and {records} are known"));
            }
            let (least, over) = promised.entry(told.place).or_default();
            (*least, *over) = ((*least).max(told.records), *over || told.finished);
        }
        for split in &held.splits {
            reached(Check::ReadingGiven);
            let (records, _) = known(&split.place);
            let began = now.began.get(&id).and_then(|began| began.get(&split.place));
            let (promised, _) = promised.get(&split.place).copied().unwrap_or_default();
            let least = began.map_or(promised, |(records, _)| promised.max(*records));
            let new = !life.told.contains_key(&split.place);
            if split.records > records || new && split.records < least {
                return Err(format!(
                    "{split:?} of client {client}, of which {least} to {records} are acknowledged"
                ));
            }
            life.told.entry(split.place).or_insert(split.records);
        }
        if held.finished { self.all_read(id) } else { Ok(()) }
    }

    /// Somebody was told that all of an iteration was read.
    fn all_read(&self, id: IterationId) -> Verdict {
        let places = self.journal.now().acknowledged.get(&id);
        if self.has_strayed(id) || self.journal.now().known_finished.contains_key(&id) {
            return Ok(());
        }
        reached(Check::ReadingAll);
        let is_read = |place: &u64| {
            let read = places.and_then(|places| places.get(place));
            read.is_some_and(|(records, over)| *over && *records == self.records_of(*place))
        };
        let all = self.shape.map_or(0, |shape| shape.places());
        for place in (0..all).filter(|place| !is_read(place)) {
            if !self.is_workers(id, place)? {
                return Err(format!("iteration {id} is over, and split {place} was not read"));
            }
        }
        Ok(())
    }

    fn delivered(&mut self, what: &Delivered, shadow: &Shadow) -> Verdict {
        reached(Check::ReadingDelivered);
        let Delivered { client, place, first, count } = *what;
        let all = self.records_of(place);
        let end = first.saturating_add(count);
        let life = self.lives.entry(client).or_default();
        let Some(begins) = life.told.get(&place).copied() else {
            return Err(format!("client {client} delivers {what:?}, which it was not given"));
        };
        if let Some(current) = life.current.replace(place).filter(|current| *current != place) {
            let next = life.next.get(&current).copied().unwrap_or_default();
            if next < self.shape.map_or(0, |shape| shape.records_of(current)) {
                return Err(format!("{what:?}, with split {current} at record {next}"));
            }
        }
        let next = life.next.entry(place).or_insert(begins);
        if *next != first || end > all || count == 0 {
            return Err(format!("{what:?}, where record {next} of {all} was next"));
        }
        *next = end;
        // Whoever was given up without knowing it delivers for nobody.
        let holds = shadow.state().clients().get(&client);
        let holds = holds.is_some_and(|client| client.splits.contains_key(&place));
        let of = self.journal.now().of.get(&client).copied();
        let (records, _) = of.map(|id| self.known(id, place)).unwrap_or_default();
        if holds && first < records {
            return Err(format!("{what:?}, of which {records} records were acknowledged"));
        }
        Ok(())
    }

    fn ended(&self, client: Option<ClientId>, result: &Result<(), Status>) -> Verdict {
        let id = client.and_then(|client| self.journal.now().of.get(&client)).copied();
        match (result, id) {
            (Ok(()), Some(id)) => self.all_read(id),
            (Err(status), _)
                if matches!(
                    status.code,
                    Code::DataLoss | Code::Internal | Code::InvalidArgument | Code::Unknown
                ) && !status.message.contains(PROXY_ANSWERS)
                    && !self.groups.may_end(client, status) =>
            {
                Err(format!("client {client:?} was told {status}"))
            }
            _ => Ok(()),
        }
    }

    /// What was not kept was never so.
    fn recovered(&mut self, state: &Recovered, disk_lied: bool) {
        self.asking.clear();
        self.groups.recovered();
        self.journal.recovered(state.applied);
        if disk_lied {
            // What was acknowledged may be gone, and nobody knows what.
            self.shape = None;
        }
    }
}

impl Oracle for Reading {
    fn name(&self) -> &'static str {
        "reading"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Durable,
            SeenKind::Answered,
            SeenKind::GivenUp,
            SeenKind::Recovered,
            SeenKind::Elements,
            SeenKind::Delivered,
            SeenKind::ReadEnded,
            SeenKind::DispatcherRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        if self.shape.is_none() {
            return Ok(());
        }
        if let Seen::Taken { request, .. } = seen {
            self.groups.taken(request, shadow);
        }
        match seen {
            Seen::Taken { by, request: Request::HoldSplits(request), .. } if !by.honest => {
                // If another has its number on this disk, it has spoken for that one.
                if shadow.state().clients().contains_key(&request.client) {
                    self.shape = None;
                }
                Ok(())
            }
            Seen::Taken { call, request: Request::HoldSplits(request), .. } => {
                self.taken(*call, request)
            }
            Seen::Taken {
                call,
                by,
                request: Request::GetSplit { .. } | Request::WorkerUpdate { .. },
                ..
            } if !by.honest => {
                self.strangers.insert(*call);
                Ok(())
            }
            Seen::Recorded { lsn, record: Record::Dispatcher(record), during } => {
                self.stray(*lsn, record, *during, shadow);
                self.of_workers(*lsn, record, shadow)?;
                self.record(*lsn, record, shadow)
            }
            Seen::Answered { call, .. } | Seen::GivenUp { call } if self.strangers.remove(call) => {
                Ok(())
            }
            Seen::Answered { call, answer, .. } => match (self.asking.remove(call), answer) {
                (Some(asked), Ok(Reply::SplitsHeld(held))) => self.answered(&asked, held),
                (Some(asked), Err(why)) => self.groups.refused(&asked, why),
                _ => Ok(()),
            },
            Seen::GivenUp { call } => {
                self.asking.remove(call);
                Ok(())
            }
            Seen::Durable(upto) => {
                self.journal.durable(*upto);
                Ok(())
            }
            Seen::Delivered(what) => self.delivered(what, shadow),
            Seen::Elements(OfElements::ReadEnded(_, client, result @ Ok(()))) => {
                self.ended(*client, result)
            }
            Seen::ReadEnded { client, result } => self.ended(*client, result),
            Seen::Recovered { state, disk_lied } => {
                self.recovered(state, *disk_lied);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
