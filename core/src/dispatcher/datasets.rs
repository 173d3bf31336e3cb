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
use crate::ids::{DatasetId, Lsn};

impl Dispatcher {
    pub(super) fn register_dataset(
        &mut self,
        turn: &mut Turn<'_>,
        request: RegisterDataset,
        entropy: u64,
    ) -> Answer {
        if let Some(current) = request.wished.as_ref().and_then(|id| self.taken_by(id, request.own))
        {
            let id = current.id.clone();
            let is_other = current.definition.digest != request.definition.digest;
            if request.own && request.replaces {
                return self.replace_dataset(turn, &id, request);
            }
            if request.own && is_other {
                return Err(Refusal::OtherDefinition(id));
            }
            return self.get_registered(turn, &id, &request.metadata);
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

    /// Answers with the dataset that has the id a client wishes, as its registration with a TensorFlow graph
    /// would be answered, but without the graph. The answer that there is none promises nothing: the
    /// registration that follows decides anew, whatever happened between the two.
    pub(super) fn get_registered(
        &mut self,
        turn: &mut Turn<'_>,
        id: &DatasetId,
        metadata: &DatasetMetadata,
    ) -> Answer {
        let Some(current) = self.state.datasets().get(id) else {
            return Ok((Reply::NotRegistered, Lsn::NONE));
        };
        check_same_structure(current, metadata)?;
        self.use_dataset_again(turn, id)
    }

    /// The dataset that has the id that a client wishes. For a pipeline of Rondo's own it is the current
    /// version under that name.
    fn taken_by(&self, id: &DatasetId, own: bool) -> Option<&Dataset> {
        match own {
            true => self.state.current(id),
            false => self.state.datasets().get(id),
        }
    }

    /// Answers with a dataset that is there, and notes that somebody has use for it.
    pub(super) fn use_dataset_again(&mut self, turn: &mut Turn<'_>, id: &DatasetId) -> Answer {
        let dataset = self.dataset(id)?;
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
        self.check_room("datasets", self.state.datasets().len(), self.config.bounds.datasets)
    }

    pub(super) fn metadata(&self, id: &DatasetId) -> Answer {
        let dataset = self.dataset(id)?;
        Ok((Reply::Metadata(dataset.metadata.encoded.clone()), dataset.changed))
    }

    pub(super) fn definition(&self, id: &DatasetId) -> Answer {
        let dataset = self.dataset(id)?;
        Ok((Reply::Definition(dataset.definition.clone()), dataset.changed))
    }

    /// The first wish decides, for client and workers alike: if they differed, elements could not
    /// be decoded.
    pub(super) fn disable_compression(
        &mut self,
        turn: &mut Turn<'_>,
        id: DatasetId,
        disable: bool,
    ) -> Answer {
        let dataset = self.dataset(&id)?;
        if dataset.metadata.compression == Compression::Off {
            return Ok((Reply::Compression(None), dataset.changed));
        }
        if let Some(disabled) = dataset.compression_disabled {
            return Ok((Reply::Compression(Some(disabled)), dataset.changed));
        }
        let lsn = self.commit(turn, [Record::DecideCompression { id, disabled: disable }])?;
        Ok((Reply::Compression(Some(disable)), lsn))
    }

    pub(super) fn dataset(&self, id: &DatasetId) -> Result<&Dataset, Refusal> {
        self.state.datasets().get(id).ok_or_else(|| Refusal::UnknownDataset(id.clone()))
    }
}

/// Two registrations of one id must agree on everything a reader can see.
pub(super) fn check_same_structure(
    dataset: &Dataset,
    other: &DatasetMetadata,
) -> Result<(), Refusal> {
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
