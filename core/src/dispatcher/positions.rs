//! Named positions: remembering how far a job has been read, and going back there.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::by_split::SavedSplit;
use super::machine::{Answer, Dispatcher, Turn};
use super::position::{Position, SavedRepetition, SavedSource};
use super::record::Record;
use super::refusal::Refusal;
use super::repetitions::Repetitions;
use super::reply::Reply;
use super::request::GetOrCreateJob;
use super::state::{Client, Iteration, Job, SourcePosition};
use super::types::{ShardingPolicy, SplitPlan, SplitSource};
use crate::ids::{DatasetId, JobId};

/// Where the sources of an iteration begin, and splits to be read before.
pub(super) type Beginning = (Vec<SourcePosition>, Vec<SavedSplit>);

impl Dispatcher {
    pub(super) fn save_position(
        &mut self,
        turn: &mut Turn<'_>,
        name: &str,
        job_name: &str,
    ) -> Answer {
        let job = self.state.job_named(job_name);
        let job = job.ok_or_else(|| Refusal::UnknownJobName(job_name.into()))?;
        check_dynamic(&job.name, job.sharding)?;
        if !self.state.positions().contains_key(name) {
            let there = self.state.positions().len();
            self.check_room("positions", there, self.config.bounds.positions)?;
        }
        let (finished, reading) = self.progress_of(job)?;
        let abandoned = job.abandoned.clone();
        let record = Record::SavePosition {
            name: name.into(),
            job: job.name.clone(),
            at: turn.now,
            finished,
            abandoned,
            reading,
        };
        let lsn = self.commit(turn, [record])?;
        self.position(name).map(|reply| (reply, lsn))
    }

    /// What of a job is finished, and where the rest stands.
    fn progress_of(&self, job: &Job) -> Result<(Repetitions, Vec<SavedRepetition>), Refusal> {
        let mut finished = job.finished.clone();
        let restored = self.state.restorations().get(&job.name);
        let mut reading: Vec<SavedRepetition> =
            restored.map_or_else(Vec::new, |waits| waits.waiting.clone());
        for iteration in self.state.newest_iterations_of(job.id) {
            match (iteration.collected, iteration.finished) {
                (true, _) => {}
                (false, true) => finished.insert(iteration.repetition),
                (false, false) => reading.push(self.saved(iteration)),
            }
        }
        reading.sort_by_key(|saved| saved.repetition);
        let kept =
            reading.iter().map(|saved| saved.sources.len().saturating_add(saved.splits.len()));
        let bound = self.config.bounds.position_sources;
        if kept.fold(0, usize::saturating_add) > bound {
            let what = "sources of splits, and splits being read, in one position";
            return Err(Refusal::TooMany { what, bound });
        }
        Ok((finished, reading))
    }

    pub(super) fn restore_position(
        &mut self,
        turn: &mut Turn<'_>,
        name: &str,
        job_name: &str,
        wanted: Option<&GetOrCreateJob>,
    ) -> Answer {
        let position = self.state.positions().get(name);
        let position = position.ok_or_else(|| Refusal::UnknownPosition(name.into()))?;
        let name = position.name.clone();
        let waits = self.state.restorations();
        if !waits.contains_key(job_name) {
            let what = "jobs that wait at a position";
            self.check_room(what, waits.len(), self.config.bounds.positions)?;
        }
        let job = self.state.job_named(job_name);
        self.check_restoration(position, job_name, wanted)?;
        let ended: Vec<_> = job.map_or_else(Vec::new, |job| {
            let newest = self.state.newest_iterations_of(job.id);
            newest.map(|iteration| iteration.id).collect()
        });
        let job = job.map_or_else(|| job_name.into(), |job| job.name.clone());
        let record = Record::RestorePosition { name: name.clone(), job, at: turn.now };
        let lsn = self.commit(turn, [record])?;
        for id in ended {
            self.forget_if_collected(id);
        }
        self.position(&name).map(|reply| (reply, lsn))
    }

    /// Refuses a position that does not go with its job, or with the job that a reader wants.
    fn check_restoration(
        &self,
        position: &Position,
        job_name: &str,
        wanted: Option<&GetOrCreateJob>,
    ) -> Result<(), Refusal> {
        if let Some(wanted) = wanted {
            self.check_job(wanted)?;
            self.check_kept_dataset(self.state.dataset_of_position(&position.name), wanted)?;
        }
        let job = self.state.job_named(job_name);
        let reads = job.map(|job| (&job.dataset, job.sharding));
        let reads = reads.or_else(|| wanted.map(|wanted| (&wanted.dataset, wanted.sharding)));
        let Some((dataset, sharding)) = reads else {
            return Ok(());
        };
        check_dynamic(job_name, sharding)?;
        let goes = Going { position: &position.name, job: job_name, dataset };
        let sources = self.split_sources(dataset);
        let mut saved = position.reading.iter();
        saved.try_for_each(|saved| goes.check_sources(&sources, saved))
    }

    fn forget_if_collected(&mut self, id: crate::ids::IterationId) {
        let iteration = self.state.iterations().get(&id);
        if iteration.is_some_and(|iteration| iteration.collected) {
            self.forget_of_iteration(id);
        }
    }

    pub(super) fn delete_position(&mut self, turn: &mut Turn<'_>, name: &str) -> Answer {
        let position = self.state.positions().get(name);
        let position = position.ok_or_else(|| Refusal::UnknownPosition(name.into()))?;
        let name = position.name.clone();
        let lsn = self.commit(turn, [Record::DeletePosition { name }])?;
        Ok((Reply::PositionDeleted, lsn))
    }

    pub(super) fn list_positions(&self, turn: &Turn<'_>) -> (Reply, crate::ids::Lsn) {
        let positions = self.state.positions().values();
        let reports = positions.map(|position| self.position_report(position));
        (Reply::Positions(reports.collect()), turn.log.last())
    }

    fn position(&self, name: &str) -> Result<Reply, Refusal> {
        let position = self.state.positions().get(name);
        let position = position.ok_or_else(|| Refusal::UnknownPosition(name.into()))?;
        Ok(Reply::Position(self.position_report(position)))
    }

    /// Where an iteration that is not finished stands. What clients hold would have to be read again
    /// from where they are.
    fn saved(&self, iteration: &Iteration) -> SavedRepetition {
        let at = |source: &SourcePosition| SavedSource {
            repetition: source.repetition,
            index: source.index,
        };
        let mut splits: Vec<SavedSplit> = iteration.by_split.waiting_splits().collect();
        splits.extend(self.splits_again(iteration));
        if iteration.by_split.held > 0 {
            let clients = iteration.clients.iter();
            let clients = clients.filter_map(|id| self.state.clients().get(id));
            splits.extend(clients.flat_map(Client::held_splits));
        }
        splits.sort_unstable_by_key(|split| split.place);
        SavedRepetition {
            repetition: iteration.repetition,
            sources: iteration.sources.iter().map(at).collect(),
            splits,
        }
    }

    /// Splits that clients read by themselves and that were with workers that were lost, or whose
    /// consumers are gone: they wait to be handed out again. No more than do not fit into a position.
    fn splits_again(&self, of: &Iteration) -> impl Iterator<Item = SavedSplit> {
        let mut clients = of.clients.iter();
        let is_by_split = of.by_split.group_size.is_some()
            || clients.any(|client| self.leases.reads_by_split(*client));
        let most = self.config.bounds.position_sources.saturating_add(1);
        let places = of.splits.again.places_of(0, 0).take(if is_by_split { most } else { 0 });
        places.map(|place| SavedSplit { place, records: 0 })
    }

    /// Where a repetition of a job should begin, if its job waits at a position.
    pub(super) fn restored_sources(
        &self,
        job: JobId,
        repetition: i64,
    ) -> Result<Option<Beginning>, Refusal> {
        let Some(job) = self.state.jobs().get(&job) else {
            return Ok(None);
        };
        let waits = self.state.restorations().get(&job.name);
        let Some((waits, saved)) = waits.and_then(|w| Some((w, w.start_of(repetition)?))) else {
            return Ok(None);
        };
        check_dynamic(&job.name, job.sharding)?;
        let sources = self.split_sources(&job.dataset);
        let goes = Going { position: &waits.position, job: &job.name, dataset: &job.dataset };
        goes.check_sources(&sources, saved)?;
        let resumed = sources.iter().zip(&saved.sources).map(resumed);
        // Of a source that has become shorter, what is left.
        let end = sources.first().map_or(0, SplitSource::len);
        let waiting = saved.splits.iter().copied().filter(|split| split.place < end);
        Ok(Some((resumed.collect(), waiting.collect())))
    }

    /// The sources of splits of a dataset, as far as there is one.
    fn split_sources(&self, dataset: &DatasetId) -> Vec<SplitSource> {
        match self.state.datasets().get(dataset).map(|dataset| &dataset.plan) {
            Some(SplitPlan::Splittable(sources)) => sources.clone(),
            _ => Vec::new(),
        }
    }
}

/// A source that has become shorter is at its end.
fn resumed((source, saved): (&SplitSource, &SavedSource)) -> SourcePosition {
    SourcePosition {
        source: *source,
        repetition: saved.repetition,
        index: saved.index.min(source.len()),
    }
}

fn check_dynamic(job: &str, sharding: ShardingPolicy) -> Result<(), Refusal> {
    match sharding {
        ShardingPolicy::Dynamic => Ok(()),
        policy => Err(Refusal::NoPosition { job: job.into(), policy: policy.name() }),
    }
}

/// A job that goes to a position.
struct Going<'a> {
    position: &'a Arc<str>,
    job: &'a str,
    dataset: &'a DatasetId,
}

impl Going<'_> {
    fn check_sources(
        &self,
        sources: &[SplitSource],
        saved: &SavedRepetition,
    ) -> Result<(), Refusal> {
        if sources.len() == saved.sources.len() {
            return Ok(());
        }
        Err(Refusal::OtherSources {
            position: self.position.clone(),
            saved: saved.sources.len(),
            job: self.job.into(),
            dataset: String::from(self.dataset.as_str()),
            sources: sources.len(),
        })
    }
}
