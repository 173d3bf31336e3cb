//! Records about datasets and jobs, applied.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;

use super::record::Record;
use super::repetitions::Repetitions;
use super::state::{Dataset, Job, State};
use super::types::{DatasetMetadata, Definition, SplitPlan};
use super::versions::DatasetVersions;
use crate::ids::{DatasetId, JobId, Lsn};
use crate::log::{ApplyError, exists, missing};
use crate::time::Time;

impl State {
    pub(super) fn apply_dataset(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        match record {
            Record::RegisterDataset { id, definition, plan, metadata, at } => {
                let id = id.clone();
                self.add_dataset(made(lsn, (id, *at), definition, plan, metadata))
            }
            Record::ReplaceDataset { name, id, at, definition, plan, metadata } => {
                self.check_version(name, id)?;
                match self.datasets.get_mut(id) {
                    Some(known) if known.definition.digest == definition.digest => {
                        known.changed = lsn;
                        self.use_dataset(id, *at);
                    }
                    _ => {
                        let id = id.clone();
                        self.add_dataset(made(lsn, (id, *at), definition, plan, metadata))?;
                    }
                }
                self.make_current(name, id, *at);
                Ok(())
            }
            Record::DecideCompression { id, disabled } => {
                let dataset = self.datasets.get_mut(id).ok_or_else(|| missing("dataset", id))?;
                dataset.compression_disabled = Some(*disabled);
                dataset.changed = lsn;
                Ok(())
            }
            _ => Err(ApplyError("the record is of no kind that datasets have".to_string())),
        }
    }

    /// Refuses a version whose id does not begin with its dataset's name. The first version has the name, and
    /// is there.
    fn check_version(&self, name: &DatasetId, id: &DatasetId) -> Result<(), ApplyError> {
        match id.as_str().rsplit_once('@') {
            _ if id == name && self.datasets.contains_key(name) => Ok(()),
            Some((of, _)) if of == name.as_str() => Ok(()),
            _ => Err(ApplyError(format!("{id} is no version of dataset {name}"))),
        }
    }

    fn add_dataset(&mut self, mut dataset: Dataset) -> Result<(), ApplyError> {
        if self.datasets.contains_key(&dataset.id) {
            return Err(exists("dataset", &dataset.id));
        }
        dataset.definition = self.index.share_definition(&dataset.definition);
        self.index.idle.dataset_added(&dataset);
        self.datasets.insert(dataset.id.clone(), dataset);
        self.skip_taken_dataset_ids();
        Ok(())
    }

    /// The version that was current was in use until now.
    fn make_current(&mut self, name: &DatasetId, id: &DatasetId, at: Time) {
        let former = self.versions.get(name).map_or(name, |versions| &versions.current).clone();
        self.use_dataset(&former, at);
        if id == name {
            if let Some(versions) = self.versions.get_mut(name) {
                versions.current = id.clone();
            }
            return;
        }
        let versions = self.versions.entry(name.clone()).or_insert_with(|| DatasetVersions {
            name: name.clone(),
            current: id.clone(),
            later: BTreeSet::new(),
        });
        versions.current = id.clone();
        versions.later.insert(id.clone());
    }

    pub(super) fn skip_taken_dataset_ids(&mut self) {
        while self.datasets.contains_key(&DatasetId::new(self.counters.dataset.to_string())) {
            self.counters.dataset = self.counters.dataset.saturating_add(1);
        }
    }

    pub(super) fn apply_job(&mut self, lsn: Lsn, record: &Record) -> Result<(), ApplyError> {
        let Record::CreateJob {
            id,
            name,
            dataset,
            sharding,
            consumers,
            use_cross_trainer_cache,
            target_workers,
            anonymous,
            at,
        } = record
        else {
            return Err(ApplyError("the record is of no kind that jobs have".to_string()));
        };
        self.check_new_job(*id, name)?;
        let (first_id, finished, abandoned) = self.take_former(*id, name);
        let job = Job {
            id: *id,
            first_id,
            name: name.clone(),
            dataset: dataset.clone(),
            sharding: *sharding,
            consumers: *consumers,
            use_cross_trainer_cache: *use_cross_trainer_cache,
            target_workers: *target_workers,
            anonymous: *anonymous,
            asked: *at,
            idle_since: *at,
            departed: BTreeMap::new(),
            finished,
            abandoned,
            changed: lsn,
        };
        self.use_dataset(dataset, *at);
        self.counters.job = self.counters.job.max(id.next());
        self.add_job(job);
        Ok(())
    }

    /// Takes what a freed job of this name left to the job that continues it: the first job of them all, and
    /// the repetitions that were finished and given up.
    fn take_former(
        &mut self,
        id: JobId,
        name: &Arc<str>,
    ) -> (Option<JobId>, Repetitions, Repetitions) {
        if let Some(retired) = self.retired.remove(name) {
            return (retired.first_id, retired.finished, retired.abandoned);
        }
        let (finished, abandoned) = self.take_beginning(name);
        // A job that begins at a position continues those that were read before it was saved.
        let is_new = finished.ranges().is_empty() && abandoned.ranges().is_empty();
        (is_new.then_some(id), finished, abandoned)
    }

    /// Refuses a job whose number or name is taken.
    fn check_new_job(&self, id: JobId, name: &str) -> Result<(), ApplyError> {
        if self.jobs.contains_key(&id) {
            return Err(exists("job", id));
        }
        if self.index.job_by_name.contains_key(name) {
            return Err(exists("job with name", name));
        }
        Ok(())
    }

    pub(super) fn add_job(&mut self, job: Job) {
        let dataset = self.datasets.get(&job.dataset);
        self.index.idle.job_added(&job, dataset);
        self.index.job_by_name.insert(job.name.clone(), job.id);
        self.jobs.insert(job.id, job);
    }
}

/// A dataset that a record makes.
fn made(
    lsn: Lsn,
    (id, used): (DatasetId, Time),
    definition: &Definition,
    plan: &SplitPlan,
    metadata: &DatasetMetadata,
) -> Dataset {
    Dataset {
        id,
        definition: definition.clone(),
        plan: plan.clone(),
        metadata: metadata.clone(),
        compression_disabled: None,
        used,
        changed: lsn,
    }
}
