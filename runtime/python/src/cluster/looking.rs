//! How it is looked: within which time, in which environment, below which directory.

use std::collections::HashMap;
use std::path::PathBuf;

use pyo3::prelude::*;
use rondo::resolve::{self, Finder, Settings};
use rondo_core::cluster::{Environment, Error, Json};

use crate::error::{invalid, seconds};

/// What every look takes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Looking {
    timeout: f64,
    request_timeout: f64,
    root: PathBuf,
    environment: Option<HashMap<String, String>>,
}

impl Looking {
    /// A finder for it. The process's own environment is read while nobody else runs who could change it.
    pub(super) fn finder(self, py: Python<'_>) -> PyResult<Finder> {
        let settings = Settings {
            root: self.root,
            timeout: seconds(py, "timeout", self.timeout)?,
            question_timeout: seconds(py, "request_timeout", self.request_timeout)?,
            ..Settings::default()
        };
        let environment: Environment = match self.environment {
            Some(given) => given.into_iter().collect(),
            None => resolve::environment(),
        };
        Ok(Finder::new(environment, settings))
    }
}

/// JSON that the module itself wrote, or its user.
pub(super) fn parsed(py: Python<'_>, what: &str, text: &str) -> PyResult<Json> {
    Json::parse(text).map_err(|fault| invalid(py, format!("{what}: {text:?} is no JSON: {fault}")))
}

/// What an answer is as the module reads it: `{"found": …}`, or `{"fault": …, "why": …}`.
pub(super) fn told(answer: Result<Json, Error>) -> Json {
    let members = match answer {
        Ok(found) => vec![("found".to_owned(), found)],
        Err(error) => vec![
            ("fault".to_owned(), Json::text(error.fault.name())),
            ("why".to_owned(), Json::text(error.to_string())),
        ],
    };
    Json::Map(members)
}

/// Numbers by name.
pub(super) fn counts(counts: &rondo_core::cluster::Accelerators) -> Json {
    let count = |(kind, count): (&String, &u32)| (kind.clone(), Json::number(*count));
    Json::Map(counts.iter().map(count).collect())
}
