//! Pipelines as YAML and JSON.

use serde::Deserialize;
use serde_json::Value as Json;

use super::{PIPELINE_VERSION, Pipeline};
use crate::error::DataError;

/// Characters at which a number of YAML or JSON ends, beside blanks.
const ENDS: &[char] = &[',', ':', '[', ']', '{', '}', '"', '\'', '#'];

/// The part of a document that is read before its version is known.
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
        let pipeline = crate::from_yaml(text, name).map_err(DataError::pipeline)?;
        check_integers(text, &pipeline)?;
        Ok(pipeline)
    }

    /// Reads a pipeline from JSON.
    ///
    /// # Errors
    /// When it is no JSON, of a newer version, or no pipeline: the text says where.
    pub fn from_json(text: &str) -> Result<Self, DataError> {
        let versioned = serde_json::from_str::<Versioned>(text);
        known_version(versioned.ok().and_then(|it| it.version))?;
        let pipeline = serde_json::from_str(text);
        let pipeline = pipeline.map_err(|error| DataError::pipeline(error.to_string()))?;
        check_integers(text, &pipeline)?;
        Ok(pipeline)
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

/// Refuses a document with an integer of more than 64 bits that became a number of its pipeline: the parsers
/// round such an integer.
fn check_integers(text: &str, pipeline: &Pipeline) -> Result<(), DataError> {
    let numbers = serde_json::to_value(pipeline);
    let numbers = numbers.map_err(|error| DataError::internal(error.to_string()))?;
    for (above, line) in text.lines().enumerate() {
        let mut column = 1_usize;
        for token in line.split(|it: char| it.is_whitespace() || ENDS.contains(&it)) {
            if long_integer(token).is_some_and(|rounded| has_number(&numbers, rounded)) {
                let line = above.saturating_add(1);
                return Err(DataError::pipeline(format!(
                    "line {line} column {column}: the integer {token} would be rounded: an integer is at \
                     least -2^63 and at most 2^64 - 1; for the nearest floating-point number, write a \
                     point behind it ({token}.0)"
                )));
            }
            column = column.saturating_add(token.chars().count()).saturating_add(1);
        }
    }
    Ok(())
}

/// The number that a parser makes of an integer of more than 64 bits. None for all other texts.
fn long_integer(token: &str) -> Option<f64> {
    let digits = token.strip_prefix(['-', '+']).unwrap_or(token);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_long = token.parse::<i64>().is_err() && token.parse::<u64>().is_err();
    if is_integer && is_long { token.parse().ok() } else { None }
}

/// Whether a floating-point number stands anywhere in a document.
fn has_number(document: &Json, wanted: f64) -> bool {
    match document {
        Json::Number(number) => number.is_f64() && number.as_f64() == Some(wanted),
        Json::Array(items) => items.iter().any(|item| has_number(item, wanted)),
        Json::Object(members) => members.values().any(|member| has_number(member, wanted)),
        _ => false,
    }
}
