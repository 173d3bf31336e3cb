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
        let taken = request.wished.as_ref().and_then(|id| self.state.datasets().get(id));
        if let Some(dataset) = taken {
            check_same_structure(dataset, &request.metadata)?;
            if request.own && dataset.definition.digest != request.definition.digest {
                return Err(Refusal::OtherDefinition(dataset.id.clone()));
            }
            let (id, used, changed) = (dataset.id.clone(), dataset.used, dataset.changed);
            let after = match is_worth_noting(used, turn.now) {
                true => {
                    let (id, at) = (id.clone(), turn.now);
                    self.commit(turn, [Record::UseDataset { id, at }])?
                }
                false => changed,
            };
            return Ok((Reply::Dataset(id), after));
        }
        let bound = self.config.bounds.datasets;
        if self.state.datasets().len() >= bound {
            return Err(Refusal::TooMany { what: "datasets", bound });
        }
        let RegisterDataset { wished, definition, plan, metadata, own: _ } = request;
        self.begin_ids(turn, entropy)?;
        let next = || DatasetId::new(self.state.counters().dataset.to_string());
        let id = wished.unwrap_or_else(next);
        let record =
            Record::RegisterDataset { id: id.clone(), definition, plan, metadata, at: turn.now };
        let lsn = self.commit(turn, [record])?;
        Ok((Reply::Dataset(id), lsn))
    }

    pub(super) fn metadata(&self, id: DatasetId) -> Answer {
        let dataset = self.dataset(id)?;
        Ok((Reply::Metadata(dataset.metadata.encoded.clone()), dataset.changed))
    }

    pub(super) fn definition(&self, id: DatasetId) -> Answer {
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
        let dataset = self.dataset(id.clone())?;
        if dataset.metadata.compression == Compression::Off {
            return Ok((Reply::Compression(None), dataset.changed));
        }
        if let Some(disabled) = dataset.compression_disabled {
            return Ok((Reply::Compression(Some(disabled)), dataset.changed));
        }
        let lsn = self.commit(turn, [Record::DecideCompression { id, disabled: disable }])?;
        Ok((Reply::Compression(Some(disable)), lsn))
    }

    pub(super) fn dataset(&self, id: DatasetId) -> Result<&Dataset, Refusal> {
        self.state.datasets().get(&id).ok_or(Refusal::UnknownDataset(id))
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
