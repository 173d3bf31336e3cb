//! Versions of datasets.

use rondo_core::dispatcher::{RegisterDataset, Reply};
use rondo_core::ids::DatasetId;
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::Heard;
use super::freeing::note_use;
use super::kept::{Dataset, Kept};

impl Kept {
    /// The id of the dataset that is meant exactly.
    pub(super) fn exact(&self, id: &DatasetId) -> Option<DatasetId> {
        let first = id.as_str().strip_suffix("@1").map(DatasetId::new);
        [Some(id.clone()), first].into_iter().flatten().find(|id| self.datasets.contains_key(id))
    }

    /// The id of the dataset that a reader means.
    pub(super) fn newest(&self, id: &DatasetId) -> Option<DatasetId> {
        self.later(id).pop().map(|(_, id)| id).or_else(|| self.exact(id))
    }

    /// The id of the newest version of the dataset that is meant.
    pub(super) fn newest_of(&self, id: &DatasetId) -> Option<DatasetId> {
        let id = self.newest(id)?;
        match &self.datasets[&id].version {
            Some((of, _)) => self.newest(of),
            None => self.newest(&id),
        }
    }

    /// How many datasets are versions after a first.
    pub(crate) fn later_versions(&self) -> usize {
        self.datasets.values().filter(|dataset| dataset.version.is_some()).count()
    }

    /// The versions of a dataset after its first, with their numbers, the newest last.
    fn later(&self, of: &DatasetId) -> Vec<(u64, DatasetId)> {
        let versions = self.datasets.iter().filter_map(|(id, dataset)| match &dataset.version {
            Some((other, number)) if other == of => Some((*number, id.clone())),
            _ => None,
        });
        let mut versions: Vec<_> = versions.collect();
        versions.sort_unstable();
        versions
    }

    /// Whether older versions of the dataset are there, of which it is the newest.
    pub(super) fn has_older(&self, id: &DatasetId) -> bool {
        let Some((of, _)) = &self.datasets[id].version else {
            return false;
        };
        let later = self.later(of);
        later.last().is_some_and(|(_, newest)| newest == id)
            && (later.len() > 1 || self.datasets.contains_key(of))
    }

    /// What is deleted with a dataset.
    pub(super) fn versions(&self, id: &DatasetId) -> Vec<DatasetId> {
        let later = self.later(id).into_iter().map(|(_, id)| id);
        self.exact(id).into_iter().chain(later).collect()
    }

    pub(super) fn replace(&mut self, now: Time, newest: &DatasetId, by: &RegisterDataset) -> Heard {
        let known = self.datasets.get_mut(newest).unwrap();
        if known.registered.definition.digest == by.definition.digest
            && known.registered.metadata == by.metadata
        {
            note_use(&mut known.used, now);
            return Ok(Reply::Dataset(newest.clone()));
        }
        if known.registered.metadata.compression != by.metadata.compression {
            return Err(Code::InvalidArgument);
        }
        let decided = known.decided;
        let (of, last) = known.version.clone().unwrap_or_else(|| (newest.clone(), 1));
        let named = |number| DatasetId::new(format!("{of}@{number}"));
        let free = (last + 1..).find(|number| !self.datasets.contains_key(&named(*number)));
        let number = free.unwrap();
        let id = named(number);
        let version = Some((of, number));
        let dataset = Dataset { registered: by.clone(), version, decided, used: now };
        self.datasets.insert(id.clone(), dataset);
        Ok(Reply::Dataset(id))
    }

    /// The version that a reader is to read.
    pub(super) fn version_to_read(&self, id: &DatasetId, job: Option<&str>) -> Heard {
        let mut jobs = self.jobs.iter();
        let job = jobs.find(|known| job.is_some() && known.request.name.as_deref() == job);
        let read = match job {
            None => self.newest(id).ok_or(Code::NotFound)?,
            Some(job) => {
                let has = job.request.dataset.clone();
                let known = self.datasets.get(&has).ok_or(Code::NotFound)?;
                let of = known.version.as_ref().map_or(&has, |(of, _)| of);
                if *id != has && id != of && *id != self.lasting(&has) {
                    return Err(Code::FailedPrecondition);
                }
                has
            }
        };
        Ok(Reply::Dataset(self.lasting(&read)))
    }

    /// What names a dataset whatever replaces it.
    fn lasting(&self, id: &DatasetId) -> DatasetId {
        let first = DatasetId::new(format!("{id}@1"));
        match self.datasets[id].version.is_some() || self.datasets.contains_key(&first) {
            true => id.clone(),
            false => first,
        }
    }
}
