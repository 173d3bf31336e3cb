//! Named positions of jobs, without a reader.

use std::time::Duration;

use prost::Message;
use pyo3::prelude::*;
use rondo::transport::{Client, Transport};
use rondo_proto::admin::{DeletePositionRequest, RestorePositionRequest, SavePositionRequest};
use rondo_proto::convert::{DELETE_POSITION_PATH, RESTORE_POSITION_PATH, SAVE_POSITION_PATH};

use crate::waiting::wait_for;

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn ask(py: Python<'_>, server: &str, path: &'static str, request: Vec<u8>) -> PyResult<()> {
    wait_for(py, async {
        Client::new().unary(server, path, request.into(), PATIENCE).await.map(drop)
    })
}

/// Remembers, under this name, how far the job has been read, as far as the server knows.
#[pyfunction]
pub(super) fn save_position(py: Python<'_>, server: &str, name: &str, job: &str) -> PyResult<()> {
    let request = SavePositionRequest { name: name.to_owned(), job: job.to_owned() };
    ask(py, server, SAVE_POSITION_PATH, request.encode_to_vec())
}

/// Takes the job back to where this position says. It ends what its readers read now.
#[pyfunction]
pub(super) fn restore_position(
    py: Python<'_>,
    server: &str,
    name: &str,
    job: &str,
) -> PyResult<()> {
    let request =
        RestorePositionRequest { name: name.to_owned(), job: job.to_owned(), wanted: None };
    ask(py, server, RESTORE_POSITION_PATH, request.encode_to_vec())
}

/// Forgets a position.
#[pyfunction]
pub(super) fn delete_position(py: Python<'_>, server: &str, name: &str) -> PyResult<()> {
    let request = DeletePositionRequest { name: name.to_owned() };
    ask(py, server, DELETE_POSITION_PATH, request.encode_to_vec())
}
