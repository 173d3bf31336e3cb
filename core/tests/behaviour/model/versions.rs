//! Versions of datasets.

use std::collections::BTreeSet;

use rondo_core::dispatcher::{GetOrCreateJob, RegisterDataset, Reply};
use rondo_core::ids::{DatasetId, Digest};
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::Heard;
use super::kept::{Dataset, Kept};

/// The versions of a dataset after the first. New jobs read the current one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Versions {
    current: DatasetId,
    later: BTreeSet<DatasetId>,
}

/// The dataset that a job reads or read, or that a position was saved of. The dispatcher may have freed it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Read {
    pub(super) id: DatasetId,
    digest: Option<Digest>,
}

impl Kept {
    /// The id of the dataset that new jobs read under a name.
    pub(super) fn current(&self, name: &DatasetId) -> Option<DatasetId> {
        let current = self.versions.get(name).map_or(name, |versions| &versions.current);
        self.datasets.contains_key(current).then(|| current.clone())
    }

    /// The current version of the dataset that one is a version of.
    pub(super) fn current_beside(&self, id: &DatasetId) -> DatasetId {
        let name = self.name_of(id).unwrap_or(id);
        self.versions.get(name).map_or(id, |versions| &versions.current).clone()
    }

    /// How many datasets are versions after a first.
    pub(crate) fn later_versions(&self) -> usize {
        self.versions.values().map(|versions| versions.later.len()).sum()
    }

    fn name_of(&self, id: &DatasetId) -> Option<&DatasetId> {
        let mut of = self.versions.iter();
        let of = of.find(|(_, versions)| versions.later.contains(id));
        of.map(|(name, _)| name).or_else(|| self.versions.get_key_value(id).map(|(name, _)| name))
    }

    /// The name that would mean another version if this one went.
    pub(super) fn needed_by(&self, id: &DatasetId) -> Option<&DatasetId> {
        let name = self.name_of(id)?;
        let versions = &self.versions[name];
        let others = versions.later.len() > 1 || self.datasets.contains_key(name);
        (versions.current == *id && others).then_some(name)
    }

    /// The datasets that the dispatcher deletes with one.
    pub(super) fn versions_to_delete(&self, id: &DatasetId) -> BTreeSet<DatasetId> {
        let later = self.versions.get(id).into_iter().flat_map(|versions| &versions.later);
        let first = self.datasets.contains_key(id).then_some(id);
        first.into_iter().chain(later).cloned().collect()
    }

    pub(super) fn remove_dataset(&mut self, id: &DatasetId) {
        self.datasets.remove(id);
        self.versions.values_mut().for_each(|versions| {
            versions.later.remove(id);
        });
        self.versions.retain(|_, versions| !versions.later.is_empty());
    }

    pub(super) fn replace(&mut self, now: Time, former: &DatasetId, by: &RegisterDataset) -> Heard {
        let name = self.name_of(former).unwrap_or(former).clone();
        let digits: String = by.definition.digest.to_string().chars().take(16).collect();
        let is_first = self.is_pipeline(&name, by);
        let id = if is_first { name.clone() } else { DatasetId::new(format!("{name}@{digits}")) };
        if let Some(known) = self.datasets.get_mut(&id) {
            let (own, other) = (&known.registered.metadata, &by.metadata);
            if own.structure != other.structure
                || own.compression != other.compression
                || own.cardinality != other.cardinality
            {
                return Err(Code::InvalidArgument);
            }
            known.used = known.used.max(now);
        } else {
            let dataset = Dataset { registered: by.clone(), decided: None, used: now };
            self.datasets.insert(id.clone(), dataset);
        }
        let former = self.current_beside(former);
        if let Some(former) = self.datasets.get_mut(&former) {
            former.used = former.used.max(now);
        }
        let first = || Versions { current: id.clone(), later: BTreeSet::new() };
        let versions = self.versions.entry(name).or_insert_with(first);
        versions.current = id.clone();
        if !is_first {
            versions.later.insert(id.clone());
        }
        Ok(Reply::Dataset(id))
    }

    /// Whether a dataset is the one that somebody registers, elements included.
    pub(super) fn is_pipeline(&self, id: &DatasetId, request: &RegisterDataset) -> bool {
        self.datasets.get(id).is_some_and(|known| {
            known.registered.definition.digest == request.definition.digest
                && known.registered.metadata == request.metadata
        })
    }

    pub(super) fn digest(&self, id: &DatasetId) -> Option<Digest> {
        self.datasets.get(id).map(|dataset| dataset.registered.definition.digest)
    }

    /// A dataset that is there, as something that is read.
    pub(super) fn read(&self, id: &DatasetId) -> Read {
        Read { id: id.clone(), digest: self.digest(id) }
    }

    /// The dataset that a job reads, or read before the dispatcher freed the job.
    pub(super) fn read_by(&self, name: &str) -> Option<Read> {
        let there = self.job_named(name).map(|job| self.read(&job.request.dataset));
        there.or_else(|| self.retired.get(name).map(|freed| freed.read.clone()))
    }

    /// Whether a request may have a job that reads this dataset.
    pub(super) fn agrees(&self, read: &Read, request: &GetOrCreateJob) -> bool {
        !request.same_dataset || self.is(read, &request.dataset)
    }

    /// Whether a dataset is what is read. Without a digest, which this model always has, the id says so.
    fn is(&self, read: &Read, id: &DatasetId) -> bool {
        match self.digest(id) {
            Some(digest) => read.digest == Some(digest),
            None => read.id == *id,
        }
    }

    /// The version that a reader is to read.
    pub(super) fn version_to_read(
        &self,
        id: &DatasetId,
        job: Option<&str>,
        position: Option<&str>,
    ) -> Heard {
        let current = self.current(id).ok_or(Code::NotFound)?;
        let of_job = job.and_then(|job| self.read_by(job));
        let of_position = position.and_then(|name| self.positions.get(name));
        let waits = job.and_then(|job| self.waits.get(job));
        let read = of_job
            .or_else(|| of_position.map(|position| position.read.clone()))
            .or_else(|| waits.map(|waits| waits.read.clone()));
        let Some(read) = read else {
            return Ok(Reply::Dataset(current));
        };
        let fit: Vec<_> = self.versions_to_delete(id).into_iter().collect();
        let fit: Vec<_> = fit.into_iter().filter(|id| self.is(&read, id)).collect();
        let same = fit.iter().find(|id| **id == read.id);
        let same = same.or_else(|| fit.iter().find(|id| **id == current));
        same.or(fit.first()).cloned().map(Reply::Dataset).ok_or(Code::FailedPrecondition)
    }
}
