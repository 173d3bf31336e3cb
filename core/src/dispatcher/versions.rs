//! Versions of a dataset. Replacing a dataset (`rondo dataset register --replace`) registers another
//! pipeline under its name; jobs that are there keep the version they have.
//!
//! An id stands for one dataset for ever. The first version has the name itself for its id, a later one the
//! name, `@` and the beginning of its definition's hash, so that the same pipeline is the same version.
//! Rondo's readers ask which version they are to read, and name that one from then on. All others mean the
//! dataset of exactly the id that they name.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::iter;

use super::datasets::check_same_structure;
use super::machine::{Answer, Dispatcher, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Reply;
use super::request::RegisterDataset;
use super::state::{Dataset, State};
use crate::ids::{DatasetId, Digest};

/// How many digits of a definition's hash an id of a version has.
const DIGITS: usize = 16;

/// The versions of a dataset that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetVersions {
    /// The name, which is the id of the first version.
    pub name: DatasetId,
    /// The id of the version that new jobs read.
    pub current: DatasetId,
    /// The ids of all versions after the first that are there; never empty.
    pub later: BTreeSet<DatasetId>,
}

/// The id of the version after the first that has this definition.
fn id_of_version(name: &DatasetId, digest: Digest) -> DatasetId {
    let digits = digest.to_string();
    DatasetId::new(format!("{name}@{}", digits.get(..DIGITS).unwrap_or(&digits)))
}

impl State {
    /// The dataset that new jobs are to read under a name.
    pub fn current(&self, name: &DatasetId) -> Option<&Dataset> {
        let current = self.versions.get(name).map_or(name, |versions| &versions.current);
        self.datasets.get(current)
    }

    /// The versions that a dataset is one of, the first one or a later one.
    pub fn versions_with(&self, id: &DatasetId) -> Option<&DatasetVersions> {
        let named = id.as_str().rsplit_once('@').map(|(name, _)| DatasetId::new(name));
        let named = named.and_then(|name| self.versions.get(&name));
        named.filter(|versions| versions.later.contains(id)).or_else(|| self.versions.get(id))
    }

    /// The versions that need a dataset: it is the current one, and others are there. If the dispatcher freed
    /// it, the name would lead to one of the others.
    pub(super) fn needed_by(&self, id: &DatasetId) -> Option<&DatasetVersions> {
        let versions = self.versions_with(id).filter(|versions| versions.current == *id);
        let first = |of: &&DatasetVersions| self.datasets.contains_key(&of.name);
        versions.filter(|of| of.later.len() > 1 || first(of))
    }

    /// Forgets a version that is gone.
    pub(super) fn forget_version(&mut self, id: &DatasetId) {
        let Some(name) = self.versions_with(id).map(|versions| versions.name.clone()) else {
            return;
        };
        if let Some(versions) = self.versions.get_mut(&name) {
            versions.later.remove(id);
            if versions.later.is_empty() {
                self.versions.remove(&name);
            }
        }
    }
}

impl Dispatcher {
    /// Registers another pipeline under a name, unless the current version is the same. One that was there
    /// before becomes the current version again.
    pub(super) fn replace_dataset(
        &mut self,
        turn: &mut Turn<'_>,
        named: &DatasetId,
        request: RegisterDataset,
    ) -> Answer {
        let RegisterDataset { definition, plan, metadata, .. } = request;
        let is_same = |dataset: &Dataset| {
            dataset.definition.digest == definition.digest && dataset.metadata == metadata
        };
        let versions = self.state.versions_with(named);
        let (name, current) = versions.map_or((named, named), |of| (&of.name, &of.current));
        let (name, current) = (name.clone(), current.clone());
        if self.state.datasets().get(&current).is_some_and(is_same) {
            return self.use_dataset_again(turn, &current);
        }
        let first = self.state.datasets().get(&name).filter(|dataset| is_same(dataset));
        let id = first.map_or_else(|| id_of_version(&name, definition.digest), |it| it.id.clone());
        match self.state.datasets().get(&id) {
            None => self.check_room_for_dataset()?,
            Some(known) if known.definition.digest != definition.digest => {
                return Err(Refusal::OtherDefinition(id));
            }
            Some(known) => check_same_structure(known, &metadata)?,
        }
        let (at, version) = (turn.now, id.clone());
        let record = Record::ReplaceDataset { name, id: version, at, definition, plan, metadata };
        let lsn = self.commit(turn, [record])?;
        Ok((Reply::Dataset(id), lsn))
    }

    /// The version that a reader of a dataset is to read: that of the job if there is or was one of this
    /// name, else that of the position at which the reader or the job begins, else the current one.
    pub(super) fn version_to_read(
        &self,
        turn: &Turn<'_>,
        id: &DatasetId,
        job: Option<&str>,
        position: Option<&str>,
    ) -> Answer {
        let position = position.filter(|name| self.state.positions().contains_key(*name));
        let beginning = || match position {
            Some(position) => self.state.dataset_of_position(position),
            None => self.state.dataset_of_restoration(job?),
        };
        let of_job = job.and_then(|job| self.state.dataset_of_job(job));
        let kept = of_job.or_else(beginning);
        let current = self.state.current(id);
        let current = current.ok_or_else(|| Refusal::UnknownDataset(id.clone()))?;
        let version = match kept {
            None => &current.id,
            Some(kept) => {
                let found = self.versions_of(id).filter(|dataset| kept.is(dataset));
                let order = |dataset: &&Dataset| (dataset.id != *kept.id, dataset.id != current.id);
                let found = found.min_by_key(order);
                &found.ok_or_else(|| kept.refuse(&current.id))?.id
            }
        };
        // The answer also says what is not there: that there is no such job, for one.
        Ok((Reply::Dataset(version.clone()), turn.log.last()))
    }

    /// All versions of a dataset, or the one version that has this id.
    fn versions_of<'a>(&'a self, id: &'a DatasetId) -> impl Iterator<Item = &'a Dataset> {
        let later = self.state.versions.get(id).into_iter().flat_map(|versions| &versions.later);
        iter::once(id).chain(later).filter_map(|id| self.state.datasets().get(id))
    }

    /// The datasets that the dispatcher deletes with one: all its versions, the current one last.
    pub(super) fn versions_to_delete(&self, id: &DatasetId) -> Vec<DatasetId> {
        let current = self.state.versions.get(id).map_or(id, |versions| &versions.current);
        let mut ids: Vec<_> = self.versions_of(id).map(|dataset| dataset.id.clone()).collect();
        ids.sort_by_key(|id| id == current);
        ids
    }
}
