//! Datasets: registration, metadata, definitions, the runtime compression switch.

use alloc::format;
use alloc::string::{String, ToString};

use super::freeing::is_worth_noting;
use super::machine::{Answer, Dispatcher, Turn};
use super::record::Record;
use super::refusal::Refusal;
use super::reply::Reply;
use super::request::RegisterDataset;
use super::state::Dataset;
use super::types::{Compression, DatasetMetadata};
use crate::ids::DatasetId;

impl Dispatcher {
    pub(super) fn register_dataset(
        &mut self,
        turn: &mut Turn<'_>,
        request: RegisterDataset,
        entropy: u64,
    ) -> Answer {
        let taken = request.wished.as_ref().and_then(|id| self.state.newest(id));
        if let Some(dataset) = taken {
            let id = dataset.id.clone();
            if request.replaces {
                return self.replace_dataset(turn, &id, request);
            }
            if request.own && dataset.definition.digest != request.definition.digest {
                return Err(Refusal::OtherDefinition(id));
            }
            check_same_structure(dataset, &request.metadata)?;
            return self.use_dataset_again(turn, &id);
        }
        self.check_room_for_dataset()?;
        let RegisterDataset { wished, definition, plan, metadata, own: _, replaces: _ } = request;
        self.begin_ids(turn, entropy)?;
        let next = || DatasetId::new(self.state.counters().dataset.to_string());
        let id = wished.unwrap_or_else(next);
        let record =
            Record::RegisterDataset { id: id.clone(), definition, plan, metadata, at: turn.now };
        let lsn = self.commit(turn, [record])?;
        Ok((Reply::Dataset(id), lsn))
    }

    /// Answers with a dataset that is there, and notes that somebody has use for it.
    pub(super) fn use_dataset_again(&mut self, turn: &mut Turn<'_>, id: &DatasetId) -> Answer {
        let dataset = self.newest_dataset(id)?;
        let (id, used, changed) = (dataset.id.clone(), dataset.used, dataset.changed);
        let after = match is_worth_noting(used, turn.now) {
            true => {
                let (id, at) = (id.clone(), turn.now);
                self.commit(turn, [Record::UseDataset { id, at }])?
            }
            false => changed,
        };
        Ok((Reply::Dataset(id), after))
    }

    pub(super) fn check_room_for_dataset(&self) -> Result<(), Refusal> {
        let bound = self.config.bounds.datasets;
        match self.state.datasets().len() >= bound {
            true => Err(Refusal::TooMany { what: "datasets", bound }),
            false => Ok(()),
        }
    }

    pub(super) fn metadata(&self, id: &DatasetId) -> Answer {
        let dataset = self.newest_dataset(id)?;
        Ok((Reply::Metadata(dataset.metadata.encoded.clone()), dataset.changed))
    }

    /// The definition of a dataset, for a worker that has a task of it: of exactly this version.
    pub(super) fn definition(&self, id: DatasetId) -> Answer {
        let dataset = self.dataset(id)?;
        Ok((Reply::Definition(dataset.definition.clone()), dataset.changed))
    }

    /// The first wish decides, for client and workers alike: if they differed, elements could not
    /// be decoded. A client may name the dataset and a worker its version, so all versions have one
    /// decision, kept with the newest.
    pub(super) fn disable_compression(
        &mut self,
        turn: &mut Turn<'_>,
        id: DatasetId,
        disable: bool,
    ) -> Answer {
        let newest = self.state.newest_of(&id);
        let dataset = newest.ok_or(Refusal::UnknownDataset(id))?;
        if dataset.metadata.compression == Compression::Off {
            return Ok((Reply::Compression(None), dataset.changed));
        }
        if let Some(disabled) = dataset.compression_disabled {
            return Ok((Reply::Compression(Some(disabled)), dataset.changed));
        }
        let id = dataset.id.clone();
        let lsn = self.commit(turn, [Record::DecideCompression { id, disabled: disable }])?;
        Ok((Reply::Compression(Some(disable)), lsn))
    }

    pub(super) fn dataset(&self, id: DatasetId) -> Result<&Dataset, Refusal> {
        self.state.dataset(&id).ok_or(Refusal::UnknownDataset(id))
    }
}

/// The versions of a dataset must agree on compression: a reader that names the dataset cannot know which
/// version its job has.
pub(super) fn check_same_compression(
    dataset: &Dataset,
    other: &DatasetMetadata,
) -> Result<(), Refusal> {
    let own = &dataset.metadata;
    match own.compression == other.compression {
        true => Ok(()),
        false => Err(Refusal::OtherStructure {
            id: dataset.id.clone(),
            difference: format!("compression {:?}, not {:?}", own.compression, other.compression),
        }),
    }
}

/// Two registrations of one id must agree on everything a reader can see.
fn check_same_structure(dataset: &Dataset, other: &DatasetMetadata) -> Result<(), Refusal> {
    let own = &dataset.metadata;
    let difference: String = if own.structure != other.structure {
        "different element_spec".into()
    } else if own.compression != other.compression {
        format!("compression {:?}, not {:?}", own.compression, other.compression)
    } else if own.cardinality != other.cardinality {
        format!("cardinality {}, not {}", own.cardinality, other.cardinality)
    } else {
        return Ok(());
    };
    Err(Refusal::OtherStructure { id: dataset.id.clone(), difference })
}
