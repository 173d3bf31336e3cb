//! Versions of datasets.

use std::collections::BTreeSet;

use rondo_core::dispatcher::{RegisterDataset, Reply};
use rondo_core::ids::DatasetId;
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

impl Kept {
    /// The id of the dataset that new jobs read under a name.
    pub(super) fn current(&self, name: &DatasetId) -> Option<DatasetId> {
        let current = self.versions.get(name).map_or(name, |versions| &versions.current);
        self.datasets.contains_key(current).then(|| current.clone())
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
        let id = DatasetId::new(format!("{name}@{digits}"));
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
        let versions = self.versions.entry(name);
        let versions =
            versions.or_insert_with(|| Versions { current: id.clone(), later: BTreeSet::new() });
        versions.current = id.clone();
        versions.later.insert(id.clone());
        Ok(Reply::Dataset(id))
    }

    /// The version that a reader is to read.
    pub(super) fn version_to_read(&self, id: &DatasetId, job: Option<&str>) -> Heard {
        let mut jobs = self.jobs.iter();
        let there = jobs.find(|known| job.is_some() && known.request.name.as_deref() == job);
        let freed = job.and_then(|job| self.retired.get(job)).map(|job| &job.request);
        if let Some(request) = there.map(|job| &job.request).or(freed) {
            let has = &request.dataset;
            if id != has && self.name_of(has) != Some(id) {
                return Err(Code::FailedPrecondition);
            }
            if self.datasets.contains_key(has) {
                return Ok(Reply::Dataset(has.clone()));
            }
        }
        self.current(id).map(Reply::Dataset).ok_or(Code::NotFound)
    }
}
