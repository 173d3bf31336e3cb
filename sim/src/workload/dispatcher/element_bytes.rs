//! Reading by element as bytes: the elements, what readers ask workers, and what workers ask the
//! dispatcher.

use bytes::Bytes;
use rondo_core::dispatcher::{Compression, DatasetMetadata, RegisterDataset, Reply, Request};
use rondo_core::element::{Dtype, Element, Shape, Tensor, Values};
use rondo_core::ids::{DatasetId, TaskId};
use rondo_core::reader::Fetched;
use rondo_core::status::{Code, Status};
use rondo_core::worker::{self, Ask, ElementAsk};
use rondo_proto::convert::{
    self, Decoded, ElementAnswer, Encoded, Method, PROTOCOL_VERSION, WorkerIdentity, WorkerMethod,
    WorkerRequest,
};
use rondo_proto::{admin, dataset, element, graph};

use super::dataset::digest_of;
use crate::swarm::ElementsShape;
use crate::workload::elements::{ElementId, MadeBy, WorkerLife};

/// The dataset that is read by element.
pub(super) const READ_BY_ELEMENT: &str = "read-by-element";
/// What the jobs are called in which others read the same by split.
pub(super) const READ_BOTH_WAYS: &str = "read-both-ways";

/// The registration of the dataset, planned from its bytes.
pub(super) fn registration(shape: &ElementsShape) -> Option<RegisterDataset> {
    let told =
        admin::Dataset { version: 1, splits: shape.splits, passes: 1, ..admin::Dataset::default() };
    let prepared = graph::prepare(&dataset::encode_definition(&told)).ok()?;
    let digest = digest_of(&prepared.cleaned);
    Some(RegisterDataset {
        wished: Some(DatasetId::new(READ_BY_ELEMENT)),
        definition: convert::definition_of(digest, &prepared.cleaned),
        own: true,
        replaces: false,
        plan: prepared.plan,
        metadata: DatasetMetadata {
            encoded: Bytes::from_static(b"elements"),
            structure: digest,
            compression: match shape.compressed {
                true => Compression::Snappy,
                false => Compression::Off,
            },
            cardinality: cardinality(shape),
        },
    })
}

/// Coordinated reads never end; how many elements there are else nobody says.
pub(super) const fn cardinality(shape: &ElementsShape) -> i64 {
    if shape.rounds { -1 } else { -2 }
}

/// A worker's request as the dispatcher reads it from its bytes.
pub(super) fn received(who: &WorkerIdentity, request: &worker::Request) -> Option<Request> {
    let (path, message) = convert::encode_request_to_dispatcher(who, request);
    match convert::decode_request(Method::from_path(path)?, &message).ok()? {
        Decoded::Request(Request::GetSplit { iteration, repetition, source, .. }) => {
            let asker = Some(who.address.as_str().into());
            Some(Request::GetSplit { iteration, repetition, source, asker })
        }
        Decoded::Request(request) => Some(request),
        // The runtime answers this by itself: something else stands for it that changes nothing.
        Decoded::Version => Some(Request::GetConfig),
        Decoded::Register(_) => None,
    }
}

/// The dispatcher's answer as the worker reads it from its bytes.
pub(super) fn told(request: &worker::Request, reply: Reply) -> Result<worker::Reply, Status> {
    let bytes = match (request, convert::encode_reply(reply)) {
        (worker::Request::Version, _) => convert::encode_version(PROTOCOL_VERSION),
        (_, Encoded::Message(bytes)) => bytes,
        _ => return Err(Status::new(Code::Internal, "an answer to something else")),
    };
    convert::decode_reply_of_dispatcher(request, &bytes, &mut Vec::new())
}

/// What a reader asks a worker, as the worker reads it from its bytes.
pub(super) fn asked(message: &Bytes) -> Result<Ask, Status> {
    match convert::decode_worker_request(WorkerMethod::GetElement, message)? {
        WorkerRequest::GetElement(request) => Ok(Ask::Element(ElementAsk {
            task: request.task,
            round: request.round.map(|at| (at.consumer, at.round)),
            skipped_previous_round: request.skipped_previous_round,
            allow_skip: request.allow_skip,
            trainer: request.trainer,
        })),
        _ => Err(Status::new(Code::Internal, "a request for something else")),
    }
}

/// A task that the dispatcher tells a worker of, as the worker reads it from its bytes.
pub(super) fn pushed(task: &rondo_core::dispatcher::TaskDef) -> Option<Ask> {
    let message = convert::encode_process_task(task);
    match convert::decode_worker_request(WorkerMethod::ProcessTask, &message).ok()? {
        WorkerRequest::ProcessTask(task) => Some(Ask::Process(task.into())),
        _ => None,
    }
}

/// An element's bytes, as they go to consumers.
pub(super) fn encoded(id: &ElementId, compressed: bool) -> Option<Bytes> {
    let numbers = [
        u64::from(id.made.by.worker),
        u64::from(id.made.by.life),
        id.made.run,
        id.place,
        id.task.get().cast_unsigned(),
        id.split,
        id.offset,
    ];
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let shape = Shape::list(numbers.len() as u64).ok()?;
    let tensor = Tensor::fixed(Dtype::Int64, shape, bytes.into()).ok()?;
    let made = Element { components: vec![tensor] };
    match compressed {
        true => element::encode_compressed(&made).ok(),
        false => element::encode_uncompressed(&made).ok(),
    }
}

/// Who an element is that a reader was handed.
pub(super) fn identified(element: &Element) -> Option<ElementId> {
    let Values::Fixed(bytes) = element.components.first()?.values() else {
        return None;
    };
    let mut numbers = bytes.chunks_exact(8).map(|chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let mut next = || numbers.next();
    Some(ElementId {
        made: MadeBy {
            by: WorkerLife {
                worker: u32::try_from(next()?).ok()?,
                life: u32::try_from(next()?).ok()?,
            },
            run: next()?,
        },
        place: next()?,
        task: TaskId::new(next()?.cast_signed()),
        split: next()?,
        offset: next()?,
    })
}

/// What a worker has answered, as a reader reads it from its bytes.
pub(super) fn fetched(bytes: &Bytes) -> Result<Fetched, Status> {
    Ok(match convert::decode_element_answer(bytes, 1 << 20)? {
        ElementAnswer::Element(element) => Fetched::Element(element),
        ElementAnswer::End => Fetched::End,
        ElementAnswer::Skip => Fetched::Skip,
    })
}
