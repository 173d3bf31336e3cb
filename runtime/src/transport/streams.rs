//! Calls that are answered with streams, on connections of any kind.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rondo_core::status::{Detail, Status};

use super::answering::{contain_panic, until_cut, within_deadline};
use super::phase::Phase;
use super::server::Shared;
use super::{Call, MessageStream};

/// Answers a call with messages, which whoever writes them to the connection asks for. A client that
/// leaves drops the stream, and with it the call and the request's memory.
pub(super) fn messages_of<C>(
    shared: &Arc<Shared>,
    path: String,
    deadline: Option<Duration>,
    call: C,
) -> MessageStream
where
    C: Future<Output = Result<Call, Status>> + Send + 'static,
{
    let shared = Arc::clone(shared);
    MessageStream::written(|writer| async move {
        let service = &shared.service;
        let call = pin!(async {
            let call = call.await?;
            let written = pin!(async { service.streaming(call, writer).await });
            contain_panic(&path, written).await
        });
        let call = within_deadline(deadline, call);
        let end = (shared.phase.clone(), Phase::Draining);
        let ended = until_cut(end, call, || service.cut(&path)).await;
        ended.map_err(|status| {
            let encoded = Detail::Encoded(service.details(&path, &status));
            Status { details: vec![encoded], ..status }
        })
    })
}
