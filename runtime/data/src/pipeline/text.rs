//! Pipelines as YAML and JSON.

use serde::Deserialize;

use super::{PIPELINE_VERSION, Pipeline};
use crate::error::DataError;

/// All that is looked at before the version is known.
#[derive(Deserialize)]
struct Versioned {
    version: Option<u64>,
}

impl Pipeline {
    /// Reads a pipeline from YAML.
    ///
    /// # Errors
    /// When it is no YAML, of a newer version, or no pipeline: the text says where.
    pub fn from_yaml(text: &str) -> Result<Self, DataError> {
        Self::from_yaml_of(text, "pipeline")
    }

    /// As [`Pipeline::from_yaml`]; the text of an error calls the document by this name, such as its file's.
    ///
    /// # Errors
    /// As [`Pipeline::from_yaml`].
    pub fn from_yaml_of(text: &str, name: &str) -> Result<Self, DataError> {
        let versioned = serde_saphyr::from_str::<Versioned>(text);
        known_version(versioned.ok().and_then(|it| it.version))?;
        crate::from_yaml(text, name).map_err(DataError::pipeline)
    }

    /// Reads a pipeline from JSON.
    ///
    /// # Errors
    /// When it is no JSON, of a newer version, or no pipeline: the text says where.
    pub fn from_json(text: &str) -> Result<Self, DataError> {
        let versioned = serde_json::from_str::<Versioned>(text);
        known_version(versioned.ok().and_then(|it| it.version))?;
        serde_json::from_str(text).map_err(|error| DataError::pipeline(error.to_string()))
    }

    /// The pipeline as JSON.
    ///
    /// # Errors
    /// When a number in it cannot be written, as infinity cannot.
    pub fn to_json(&self) -> Result<String, DataError> {
        serde_json::to_string(self).map_err(|error| DataError::pipeline(error.to_string()))
    }
}

fn known_version(version: Option<u64>) -> Result<(), DataError> {
    let known = PIPELINE_VERSION;
    match version {
        Some(found) if found > u64::from(known) => {
            Err(DataError::Newer { what: "pipeline", found, known })
        }
        _ => Ok(()),
    }
}
