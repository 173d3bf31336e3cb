//! Asking the dispatcher how far a reader came that died.

use std::time::{Duration, Instant};

use rondo_core::dispatcher::DepartedReader;
use rondo_core::ids::ClientId;
use rondo_core::status::Code;
use rondo_proto::convert::{END_READER_PATH, decode_ended, encode_end_reader};

use super::super::ask::{noticed, said_by};
use super::super::exit::{Failure, of_status};
use crate::transport::{Client, Transport};

/// How long a dispatcher that is away is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before it is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Ends a reader of a job, if it is still there, and returns how far it came. It acknowledges nothing more.
///
/// # Errors
/// When the dispatcher cannot be reached, or does not know the reader.
pub(super) async fn end_reader(
    dispatcher: &str,
    reader: i64,
    job: &str,
) -> Result<DepartedReader, Failure> {
    noticed(dispatcher, PATIENCE, end(dispatcher, reader, job)).await
}

async fn end(dispatcher: &str, reader: i64, job: &str) -> Result<DepartedReader, Failure> {
    let (client, until) = (Client::new(), Instant::now() + PATIENCE);
    let request = encode_end_reader(ClientId::new(reader), job);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let answer = client.unary(dispatcher, END_READER_PATH, request.clone(), left).await;
        match answer.and_then(|answer| decode_ended(&answer)) {
            Ok(ended) => return Ok(ended),
            Err(status) if status.code == Code::Unavailable && !left.is_zero() => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(status) => {
                let text = said_by(dispatcher, &status.message);
                return Err(Failure::new(of_status(&status), text));
            }
        }
    }
}
