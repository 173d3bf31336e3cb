//! Named positions in the model.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::dispatcher::{
    GetOrCreateJob, PositionReport, Reply, SavedRepetitionReport, SavedSourceReport,
    SavedSplitReport, ShardingPolicy, SplitPlan, SplitSource,
};
use rondo_core::ids::{ClientId, IterationId, JobId};
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::holding::Shared;
use super::kept::{Iteration, Job, Kept};
use super::splitting::nth;
use super::versions::Read;
use super::{Heard, Model};

/// Where a repetition stood.
#[derive(Clone, Debug, PartialEq)]
struct Stand {
    /// Pass and splits handed out, of each source.
    sources: Vec<(i64, usize)>,
    /// Splits that clients were reading or were to read, with the records acknowledged.
    splits: BTreeMap<u64, u64>,
}

/// Sources with the pass and the splits handed out.
type Begun = Vec<(SplitSource, i64, usize)>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Position {
    job: String,
    pub(super) read: Read,
    saved: Time,
    finished: BTreeSet<i64>,
    abandoned: BTreeSet<i64>,
    reading: BTreeMap<i64, Stand>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waits {
    position: String,
    pub(super) read: Read,
    finished: BTreeSet<i64>,
    abandoned: BTreeSet<i64>,
    waiting: BTreeMap<i64, Stand>,
}

impl Kept {
    pub(super) fn job_named(&self, name: &str) -> Option<&Job> {
        let mut jobs = self.jobs.iter();
        jobs.find(|job| job.request.name.as_deref() == Some(name))
    }

    /// The one iteration of each repetition that counts.
    fn live(&self, job: JobId) -> Vec<&Iteration> {
        let iterations = self.iterations.iter();
        iterations.filter(|i| i.job == job && !i.collected).collect()
    }

    pub(super) fn save_position(
        &mut self,
        now: Time,
        name: &str,
        job: &str,
        by_split: &BTreeSet<ClientId>,
    ) -> Heard {
        let known = self.job_named(job).ok_or(Code::NotFound)?;
        if known.request.sharding != ShardingPolicy::Dynamic {
            return Err(Code::FailedPrecondition);
        }
        let mut finished = known.finished.clone();
        let mut reading =
            self.waits.get(job).map_or_else(BTreeMap::new, |waits| waits.waiting.clone());
        for iteration in self.live(known.id) {
            if iteration.finished {
                finished.insert(iteration.repetition);
            } else {
                let sources = iteration.sources.iter();
                let sources = sources.map(|(_, pass, given)| (*pass, *given)).collect();
                let mut splits = iteration.shared.waiting.clone();
                let mut clients = self.clients_of(iteration.id).into_iter();
                let asks = clients.any(|client| by_split.contains(&client));
                if asks || iteration.shared.group.is_some() {
                    splits.extend(iteration.given.again_of_first_pass().map(|place| (place, 0)));
                }
                for client in self.clients_of(iteration.id) {
                    splits.extend(self.clients[&client].splits.clone());
                }
                reading.insert(iteration.repetition, Stand { sources, splits });
            }
        }
        let abandoned = known.abandoned.clone();
        let (job, read) = (job.into(), self.read(&known.request.dataset));
        let position = Position { job, read, saved: now, finished, abandoned, reading };
        self.positions.insert(name.into(), position);
        self.positions_changed += 1;
        Ok(Reply::Position(self.position_report(name)))
    }

    pub(super) fn position_report(&self, name: &str) -> PositionReport {
        let position = &self.positions[name];
        let source = |(pass, given): &(i64, usize)| SavedSourceReport {
            repetition: *pass,
            produced: *given as u64,
        };
        let split =
            |(place, records): (&u64, &u64)| SavedSplitReport { place: *place, records: *records };
        let reading = position.reading.iter().map(|(repetition, stand)| {
            let sources = stand.sources.iter().map(source).collect();
            let splits = stand.splits.iter().map(split).collect();
            SavedRepetitionReport { repetition: *repetition, sources, splits }
        });
        let waiting = self.waits.iter().filter(|(_, w)| w.position == name);
        PositionReport {
            name: name.into(),
            job: position.job.clone(),
            dataset: Some(position.read.id.to_string()),
            saved_ms: position.saved.as_nanos() / 1_000_000,
            finished: ranges(&position.finished),
            reading: reading.collect(),
            waiting: waiting.map(|(job, _)| job.clone()).collect(),
        }
    }

    pub(super) fn list_positions(&self) -> Reply {
        Reply::Positions(self.positions.keys().map(|name| self.position_report(name)).collect())
    }

    pub(super) fn delete_position(&mut self, name: &str) -> Heard {
        self.positions.remove(name).ok_or(Code::NotFound)?;
        self.waits.retain(|_, waits| waits.position != name);
        self.positions_changed += 1;
        Ok(Reply::PositionDeleted)
    }

    /// The repetitions that a new job counts as finished, and those that it counts as given up.
    pub(super) fn take_beginning(&mut self, name: &str) -> (BTreeSet<i64>, BTreeSet<i64>) {
        let Some(waits) = self.waits.get(name) else {
            return Default::default();
        };
        let begins = (waits.finished.clone(), waits.abandoned.clone());
        if waits.waiting.is_empty() {
            self.waits.remove(name);
        }
        begins
    }

    /// Where the sources of a new iteration begin.
    pub(super) fn resume(
        &mut self,
        job: JobId,
        repetition: i64,
        sources: &[SplitSource],
    ) -> Result<(Begun, Shared), Code> {
        let job = self.jobs.iter().find(|known| known.id == job).unwrap();
        let dynamic = job.request.sharding == ShardingPolicy::Dynamic;
        let name = job.request.name.clone().unwrap_or_default();
        let waits = self.waits.get_mut(&name);
        let Some(waits) = waits.filter(|waits| waits.waiting.contains_key(&repetition)) else {
            let begun = sources.iter().map(|source| (*source, 0, 0)).collect();
            return Ok((begun, Shared::default()));
        };
        if !dynamic || waits.waiting[&repetition].sources.len() != sources.len() {
            return Err(Code::FailedPrecondition);
        }
        let stand = waits.waiting.remove(&repetition).unwrap();
        if waits.waiting.is_empty() {
            self.waits.remove(&name);
        }
        self.resumed += 1;
        let begun = sources.iter().zip(stand.sources);
        let begun =
            begun.map(|(source, (pass, given))| (*source, pass, given.min(source.len() as usize)));
        let splits = stand.splits.into_iter();
        let left = splits.filter(|(place, _)| nth(&sources[0], *place as usize).is_some());
        let shared = Shared { waiting: left.collect(), ..Shared::default() };
        Ok((begun.collect(), shared))
    }

    /// An iteration of a repetition known to be finished.
    pub(super) fn finished_iteration(&mut self, job: JobId, repetition: i64) -> IterationId {
        let id = IterationId::new(self.above + 2000 + self.iterations_ever);
        self.iterations_ever += 1;
        self.seen_finished += 1;
        self.iterations.push(Iteration {
            id,
            job,
            repetition,
            sources: Vec::new(),
            active: Vec::new(),
            pending: Default::default(),
            released: None,
            finished: true,
            given: Default::default(),
            shared: Shared::default(),
            collected: false,
        });
        id
    }
}

impl Model {
    pub(super) fn restore_position(
        &mut self,
        now: Time,
        name: &str,
        job: &str,
        wanted: Option<&GetOrCreateJob>,
    ) -> Heard {
        let kept = &mut self.kept;
        let position = kept.positions.get(name).ok_or(Code::NotFound)?.clone();
        if let Some(wanted) = wanted {
            kept.check_job(wanted)?;
            if !kept.agrees(&position.read, wanted) {
                return Err(Code::FailedPrecondition);
            }
        }
        let there = kept.job_named(job).map(|known| &known.request);
        if let Some(request) = there.or(wanted) {
            if request.sharding != ShardingPolicy::Dynamic {
                return Err(Code::FailedPrecondition);
            }
            let dataset = kept.datasets.get(&request.dataset);
            let sources = match dataset.map(|dataset| &dataset.registered.plan) {
                Some(SplitPlan::Splittable(sources)) => sources.len(),
                _ => 0,
            };
            if position.reading.values().any(|stand| stand.sources.len() != sources) {
                return Err(Code::FailedPrecondition);
            }
        }
        let waits = Waits {
            position: name.into(),
            read: kept.read_by(job).unwrap_or_else(|| position.read.clone()),
            finished: position.finished.clone(),
            abandoned: position.abandoned.clone(),
            waiting: position.reading,
        };
        kept.waits.insert(job.into(), waits);
        kept.positions_changed += 1;
        if let Some(id) = kept.job_named(job).map(|job| job.id) {
            let (finished, abandoned) = kept.take_beginning(job);
            let wrong = kept.live(id).into_iter();
            let wrong = wrong.filter(|i| !(i.finished && finished.contains(&i.repetition)));
            for id in wrong.map(|i| i.id).collect::<Vec<_>>() {
                kept.collect(now, id);
                self.rounds.remove(&id);
                self.let_go.retain(|_, (of, _)| *of != id);
            }
            kept.departed.retain(|departed| {
                departed.job != id || finished.contains(&departed.reader.repetition)
            });
            let known = kept.jobs.iter_mut().find(|known| known.id == id);
            let known = known.unwrap();
            (known.finished, known.abandoned) = (finished, abandoned);
        } else if kept.retired.contains_key(job) {
            let (finished, abandoned) = kept.take_beginning(job);
            let retired = kept.retired.get_mut(job).unwrap();
            (retired.finished, retired.abandoned) = (finished, abandoned);
        }
        Ok(Reply::Position(self.kept.position_report(name)))
    }
}

fn ranges(set: &BTreeSet<i64>) -> Vec<String> {
    let begins = set.iter().filter(|n| !set.contains(&(*n - 1)));
    let range = |first: &i64| {
        let last = (*first..).take_while(|n| set.contains(n)).last().unwrap();
        match last == *first {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        }
    };
    begins.map(range).collect()
}
