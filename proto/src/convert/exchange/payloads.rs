//! Tensors of messages: their descriptions, and their memory once it is there.

use rondo_core::exchange::message::{Answer, Request, Tensor, ToServer, ToWorker};

/// The tensors whose bytes are in the body of the message's frame, in their order.
pub fn tensors_to_server<T>(message: &ToServer<T>) -> &[Tensor<T>] {
    match message {
        ToServer::Request(request) => &request.pushes,
        ToServer::Hello(_) | ToServer::Acknowledge { .. } => &[],
    }
}

/// The tensors whose bytes are in the body of the message's frame, in their order.
pub fn tensors_to_worker<T>(message: &ToWorker<T>) -> &[Tensor<T>] {
    match message {
        ToWorker::Answer(answer) => &answer.tensors,
        _ => &[],
    }
}

/// The message with its tensors' memory, one for each of [`tensors_to_server`]. Nothing if there are more
/// or fewer.
pub fn attach_to_server<T>(
    message: ToServer<()>,
    payloads: impl IntoIterator<Item = T>,
) -> Option<ToServer<T>> {
    Some(match message {
        ToServer::Hello(hello) => ToServer::Hello(hello),
        ToServer::Request(request) => ToServer::Request(Request {
            number: request.number,
            acknowledged: request.acknowledged,
            pushes: attach(request.pushes, payloads)?,
            pulls: request.pulls,
            stamps: request.stamps,
        }),
        ToServer::Acknowledge { numbers } => ToServer::Acknowledge { numbers },
    })
}

/// The message with its tensors' memory, one for each of [`tensors_to_worker`]. Nothing if there are more
/// or fewer.
pub fn attach_to_worker<T>(
    message: ToWorker<()>,
    payloads: impl IntoIterator<Item = T>,
) -> Option<ToWorker<T>> {
    Some(match message {
        ToWorker::Welcome(welcome) => ToWorker::Welcome(welcome),
        ToWorker::Rejected(status) => ToWorker::Rejected(status),
        ToWorker::Pushed { number, stamps } => ToWorker::Pushed { number, stamps },
        ToWorker::Answer(Answer { number, tensors, stamps }) => {
            ToWorker::Answer(Answer { number, tensors: attach(tensors, payloads)?, stamps })
        }
        ToWorker::Refused { number, status } => ToWorker::Refused { number, status },
        ToWorker::Released { number } => ToWorker::Released { number },
    })
}

fn attach<T>(
    tensors: Vec<Tensor<()>>,
    payloads: impl IntoIterator<Item = T>,
) -> Option<Vec<Tensor<T>>> {
    let mut payloads = payloads.into_iter();
    let attached = tensors.into_iter().map(|Tensor { key, info, payload: () }| {
        Some(Tensor { key, info, payload: payloads.next()? })
    });
    let attached = attached.collect::<Option<Vec<_>>>()?;
    payloads.next().is_none().then_some(attached)
}
