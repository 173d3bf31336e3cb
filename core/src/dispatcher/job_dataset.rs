//! Which dataset a job reads, or read before it was freed, and whether a reader asks for that one. An id may
//! be free again and stand for another pipeline later, so definitions are compared.

use alloc::sync::Arc;

use super::machine::Dispatcher;
use super::refusal::Refusal;
use super::request::GetOrCreateJob;
use super::state::{Dataset, State};
use crate::ids::{DatasetId, Digest};

/// Who keeps a dataset for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper<'a> {
    /// A job that is there, was freed, or waits at a position, by name.
    Job(&'a Arc<str>),
    /// A position, by name.
    Position(&'a Arc<str>),
}

/// The dataset that a reader of a job, or of a position, must read.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptDataset<'a> {
    pub keeper: Keeper<'a>,
    pub id: &'a DatasetId,
    /// `None` when a journal from before it was kept does not say.
    pub definition: Option<Digest>,
}

impl KeptDataset<'_> {
    /// Whether a dataset is this one, under this id or another.
    pub(super) fn is(&self, dataset: &Dataset) -> bool {
        match self.definition {
            Some(definition) => definition == dataset.definition.digest,
            None => *self.id == dataset.id,
        }
    }

    /// A reader asked for another dataset.
    pub(super) fn refuse(&self, asked: &DatasetId) -> Refusal {
        let (has, asked) = (self.id.clone(), asked.clone());
        match self.keeper {
            Keeper::Job(name) => Refusal::OtherDataset { name: name.clone(), has, asked },
            Keeper::Position(position) => {
                Refusal::DatasetOfPosition { position: position.clone(), has, asked }
            }
        }
    }
}

impl State {
    /// The digest of a dataset's definition.
    pub(super) fn definition_of(&self, id: &DatasetId) -> Option<Digest> {
        self.datasets.get(id).map(|dataset| dataset.definition.digest)
    }

    /// The dataset of a job that is there or was freed.
    pub(super) fn dataset_of_job(&self, name: &str) -> Option<KeptDataset<'_>> {
        if let Some(job) = self.job_named(name) {
            return Some(KeptDataset {
                keeper: Keeper::Job(&job.name),
                id: &job.dataset,
                definition: self.definition_of(&job.dataset),
            });
        }
        let job = self.retired.get(name)?;
        Some(KeptDataset {
            keeper: Keeper::Job(&job.name),
            id: job.dataset.as_ref()?,
            definition: job.definition,
        })
    }

    /// The dataset of a job that is to begin at a position.
    pub(super) fn dataset_of_restoration(&self, name: &str) -> Option<KeptDataset<'_>> {
        let waits = self.restorations.get(name)?;
        Some(KeptDataset {
            keeper: Keeper::Job(&waits.job),
            id: waits.dataset.as_ref()?,
            definition: waits.definition,
        })
    }

    /// The dataset that a position was saved of.
    pub(super) fn dataset_of_position(&self, name: &str) -> Option<KeptDataset<'_>> {
        let position = self.positions.get(name)?;
        Some(KeptDataset {
            keeper: Keeper::Position(&position.name),
            id: position.dataset.as_ref()?,
            definition: position.definition,
        })
    }
}

impl Dispatcher {
    /// A reader that asks for one dataset is not given the records of another, nor another's position.
    pub(super) fn check_kept_dataset(
        &self,
        kept: Option<KeptDataset<'_>>,
        request: &GetOrCreateJob,
    ) -> Result<(), Refusal> {
        let Some(kept) = kept.filter(|_| request.same_dataset) else {
            return Ok(());
        };
        let dataset = self.state.datasets().get(&request.dataset);
        let is_it = dataset.map_or(*kept.id == request.dataset, |dataset| kept.is(dataset));
        if is_it { Ok(()) } else { Err(kept.refuse(&request.dataset)) }
    }
}
