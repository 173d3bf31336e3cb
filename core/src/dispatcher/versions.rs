//! Versions of a dataset. Replacing a dataset (`rondo dataset register --replace`) registers another
//! pipeline under its id; jobs that are there keep the version they have.
//!
//! The first version has the id itself, the later ones `ID@2`, `ID@3`, … Whoever names the id means the
//! newest version, and `ID@1` means the first. A task names the version of its job, so a worker that asks
//! for a definition means the dataset of exactly that id.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::datasets::check_same_compression;
use super::machine::{Answer, Dispatcher, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Reply;
use super::request::RegisterDataset;
use super::state::{Dataset, State};
use crate::ids::DatasetId;

/// How the first version of a dataset is named once there are others.
const FIRST: &str = "@1";

/// Which version of which dataset this is. The first version has none: it has the id itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The id of the dataset that was replaced.
    pub of: DatasetId,
    /// The number of this version, from 2 on.
    pub number: u64,
}

impl Version {
    /// The id of the dataset that is this version.
    pub fn id(&self) -> DatasetId {
        DatasetId::new(format!("{}@{}", self.of, self.number))
    }
}

impl State {
    /// The dataset of exactly this id. `ID@1` is the first version of `ID`.
    pub fn dataset(&self, id: &DatasetId) -> Option<&Dataset> {
        let first = || self.datasets.get(&DatasetId::new(id.as_str().strip_suffix(FIRST)?));
        self.datasets.get(id).or_else(first)
    }

    /// The dataset that a reader means by an id: the newest version, if there are several.
    pub fn newest(&self, id: &DatasetId) -> Option<&Dataset> {
        match self.index.newest_version.get(id) {
            Some(number) => self.datasets.get(&Version { of: id.clone(), number: *number }.id()),
            None => self.dataset(id),
        }
    }

    /// The newest version of the dataset that this one is a version of.
    pub(super) fn newest_of(&self, id: &DatasetId) -> Option<&Dataset> {
        let dataset = self.newest(id)?;
        self.newest(dataset.version.as_ref().map_or(&dataset.id, |version| &version.of))
    }

    /// What names a dataset alone: its id, or `ID@1` if the id means a newer version by now.
    pub fn exact_name(&self, id: &DatasetId) -> String {
        match self.index.newest_version.contains_key(id) {
            true => format!("{id}{FIRST}"),
            false => id.to_string(),
        }
    }

    /// What names a dataset alone, now and after it is replaced: `ID@1` even for the only version.
    fn lasting_name(&self, dataset: &Dataset) -> DatasetId {
        let first = DatasetId::new(format!("{}{FIRST}", dataset.id));
        match dataset.version.is_some() || self.datasets.contains_key(&first) {
            true => dataset.id.clone(),
            false => first,
        }
    }

    /// The later versions of a dataset.
    pub(super) fn later_versions(&self, of: &DatasetId) -> impl Iterator<Item = &Dataset> {
        let after = DatasetId::new(format!("{of}@"));
        let named = self.datasets.range(after..).map(|(_, dataset)| dataset);
        let named = named.take_while(move |it| it.id.as_str().starts_with(of.as_str()));
        named.filter(move |it| it.version.as_ref().is_some_and(|version| version.of == *of))
    }

    /// Whether a dataset is the newest of several versions. It must stay while the others are there, or its
    /// id would mean one of them.
    pub(super) fn is_newest_of_several(&self, dataset: &Dataset) -> bool {
        dataset.version.as_ref().is_some_and(|version| {
            self.index.newest_version.get(&version.of) == Some(&version.number)
                && (self.datasets.contains_key(&version.of)
                    || self.later_versions(&version.of).nth(1).is_some())
        })
    }
}

impl Dispatcher {
    /// Registers another pipeline under the id of a dataset, unless the newest version is the same.
    pub(super) fn replace_dataset(
        &mut self,
        turn: &mut Turn<'_>,
        former: &DatasetId,
        request: RegisterDataset,
    ) -> Answer {
        let newest = self.newest_dataset(former)?;
        if newest.definition.digest == request.definition.digest
            && newest.metadata == request.metadata
        {
            return self.use_dataset_again(turn, &newest.id.clone());
        }
        let bound = usize::MAX;
        check_same_compression(newest, &request.metadata)?;
        let version = self.next_version(newest);
        let version = version.ok_or(Refusal::TooMany { what: "versions", bound })?;
        let id = version.id();
        self.check_room_for_dataset()?;
        let RegisterDataset { definition, plan, metadata, .. } = request;
        let (Version { of, number }, at) = (version, turn.now);
        let record = Record::ReplaceDataset { of, number, at, definition, plan, metadata };
        let lsn = self.commit(turn, [record])?;
        Ok((Reply::Dataset(id), lsn))
    }

    /// The version that comes after the newest one. An id that somebody has chosen is passed over.
    fn next_version(&self, newest: &Dataset) -> Option<Version> {
        let (of, number) = match &newest.version {
            Some(version) => (version.of.clone(), version.number),
            None => (newest.id.clone(), 1),
        };
        let numbers = number.checked_add(1)?..=u64::MAX;
        let mut versions = numbers.map(|number| Version { of: of.clone(), number });
        versions.find(|version| !self.state.datasets().contains_key(&version.id()))
    }

    /// The version that a reader of a dataset is to read: that of the job if there is one of this name,
    /// else the newest. It is named so that it stays the same if the dataset is replaced before the reader
    /// asks for its definition and its job.
    pub(super) fn version_to_read(&self, id: &DatasetId, job: Option<&str>) -> Answer {
        let job = job.and_then(|name| self.state.job_named(name));
        let Some(job) = job else {
            let newest = self.newest_dataset(id)?;
            return Ok((Reply::Dataset(self.state.lasting_name(newest)), newest.changed));
        };
        let unknown = || Refusal::UnknownDataset(job.dataset.clone());
        let has = self.state.datasets().get(&job.dataset).ok_or_else(unknown)?;
        let of = has.version.as_ref().map_or(&has.id, |version| &version.of);
        let lasting = self.state.lasting_name(has);
        match *id == has.id || id == of || *id == lasting {
            true => Ok((Reply::Dataset(lasting), job.changed)),
            false => Err(self.job_of_another(&job.name, &job.dataset, id)),
        }
    }

    /// Refuses a reader of one dataset in a job on another.
    pub(super) fn job_of_another(&self, name: &str, has: &DatasetId, asked: &DatasetId) -> Refusal {
        Refusal::OtherDataset {
            name: name.into(),
            has: self.state.exact_name(has),
            asked: asked.to_string(),
        }
    }

    pub(super) fn newest_dataset(&self, id: &DatasetId) -> Result<&Dataset, Refusal> {
        self.state.newest(id).ok_or_else(|| Refusal::UnknownDataset(id.clone()))
    }

    /// What goes with a dataset that is deleted: all its versions, the newest last.
    pub(super) fn versions_of(&self, id: &DatasetId) -> Vec<DatasetId> {
        let own = self.state.dataset(id).map(|dataset| dataset.id.clone());
        if !self.state.index.newest_version.contains_key(id) {
            return own.into_iter().collect();
        }
        let mut later: Vec<_> = self.state.later_versions(id).collect();
        later.sort_by_key(|dataset| dataset.version.as_ref().map(|version| version.number));
        own.into_iter().chain(later.into_iter().map(|dataset| dataset.id.clone())).collect()
    }
}
