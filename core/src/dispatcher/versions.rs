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
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::datasets::check_same_structure;
use super::machine::{Answer, Dispatcher, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Reply;
use super::request::RegisterDataset;
use super::state::{Dataset, State};
use crate::ids::{DatasetId, Digest, Lsn};

/// How many digits of a definition's hash an id of a version has.
const DIGITS: usize = 16;

/// The versions of a dataset that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetVersions {
    /// The name, which is the id of the first version.
    pub name: DatasetId,
    /// The id of the version that new jobs read.
    pub current: DatasetId,
    /// The ids of all versions after the first that are there.
    pub later: BTreeSet<DatasetId>,
}

/// The id of the version that has this definition.
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
        current: &DatasetId,
        request: RegisterDataset,
    ) -> Answer {
        let RegisterDataset { definition, plan, metadata, .. } = request;
        let is_same = |dataset: &Dataset| {
            dataset.definition.digest == definition.digest && dataset.metadata == metadata
        };
        if self.state.datasets().get(current).is_some_and(is_same) {
            return self.use_dataset_again(turn, current);
        }
        let versions = self.state.versions_with(current);
        let name = versions.map_or(current, |versions| &versions.name).clone();
        let id = id_of_version(&name, definition.digest);
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
    /// name, else the current one.
    pub(super) fn version_to_read(&self, id: &DatasetId, job: Option<&str>) -> Answer {
        if let Some((name, has, changed)) = job.and_then(|name| self.dataset_of_job(name)) {
            let versions = self.state.versions_with(has);
            if id != has && versions.is_none_or(|versions| versions.name != *id) {
                let (name, has, asked) = (name.clone(), has.clone(), id.clone());
                return Err(Refusal::OtherDataset { name, has, asked });
            }
            if self.state.datasets().contains_key(has) {
                return Ok((Reply::Dataset(has.clone()), changed));
            }
        }
        let current = self.state.current(id);
        let current = current.ok_or_else(|| Refusal::UnknownDataset(id.clone()))?;
        // The record that made the version the current one changed the version too.
        Ok((Reply::Dataset(current.id.clone()), current.changed))
    }

    /// The name of a job, the dataset that the job reads or read before it was freed, and the newest record
    /// about the job.
    fn dataset_of_job(&self, name: &str) -> Option<(&Arc<str>, &DatasetId, Lsn)> {
        match self.state.job_named(name) {
            Some(job) => Some((&job.name, &job.dataset, job.changed)),
            None => {
                let job = self.state.retired().get(name)?;
                Some((&job.name, job.dataset.as_ref()?, job.changed))
            }
        }
    }

    /// The datasets that the dispatcher deletes with one: all its versions, the current one last.
    pub(super) fn versions_to_delete(&self, id: &DatasetId) -> Vec<DatasetId> {
        let versions = self.state.versions.get(id);
        let later = versions.into_iter().flat_map(|of| of.later.iter().map(move |it| (of, it)));
        let (last, others): (Vec<_>, Vec<_>) = later.partition(|(of, it)| of.current == **it);
        let first = self.state.datasets().get(id).map(|dataset| &dataset.id);
        let later = others.into_iter().chain(last).map(|(_, id)| id);
        first.into_iter().chain(later).cloned().collect()
    }
}
