//! Watched keys as a stream: a chain of calls, each of which goes on where the last one's answer
//! ends, and is answered when there is something to tell.

use std::future::Future;

use bytes::Bytes;
use rondo_core::status::Status;
use rondo_proto::convert;

use crate::transport::MessageWriter;

/// Writes the answers to a watch's calls, until one is refused. The next call is made when an answer
/// is wanted: what changes before waits in the server's history.
///
/// # Errors
/// Why the watch ends.
pub(crate) async fn watch<F>(
    mut request: Bytes,
    mut answers: MessageWriter,
    call: impl Fn(Bytes) -> F,
) -> Result<(), Status>
where
    F: Future<Output = Result<Bytes, Status>>,
{
    loop {
        let answer = call(request.clone()).await?;
        request = convert::encode_next_watch(&request, &answer)?;
        answers.write(answer).await;
    }
}
