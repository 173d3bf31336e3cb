//! Any bytes as a dataset's definition: read alike each time, cleaned as a naive reader would, and
//! split as the table of dataset ops says.

use bytes::Bytes;
use rondo_core::dispatcher::SplitPlan;
use rondo_core::limits::SOURCES_MAX;
use rondo_core::status::{Code, Status};
use rondo_proto::graph::{GraphError, Prepared, prepare, structure_digest};

use crate::graph_cleaning::cleaned;
use crate::graph_drawing::Drawing;
use crate::graph_planning::planned;

/// Longest text of a refusal or warning, in bytes.
const TEXT_BYTES_MAX: usize = 1024;
const WARNINGS_MAX: usize = 16;

/// Checks one input: its first byte says whether the rest is a definition, or draws one. True when
/// something could be split.
pub(crate) fn check(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        Some((kind, rest)) if kind % 2 == 1 => check_drawn(rest),
        Some((_, rest)) => check_definition(&Bytes::copy_from_slice(rest)).is_some_and(splittable),
        None => false,
    }
}

fn splittable(prepared: Prepared) -> bool {
    matches!(prepared.plan, SplitPlan::Splittable(sources) if !sources.is_empty())
}

fn check_definition(definition: &Bytes) -> Option<Prepared> {
    assert_eq!(structure_digest(definition), structure_digest(definition));
    let prepared = prepare(definition);
    assert_eq!(prepare(definition), prepared, "read in two ways");
    let checked = rondo_proto::graph::check(definition).map(|_| ());
    assert_eq!(checked, prepared.as_ref().map(|_| ()).map_err(Clone::clone), "checked otherwise");
    match prepared {
        Err(error) => {
            let newer = matches!(error, GraphError::DatasetVersion { .. });
            let code = if newer { Code::FailedPrecondition } else { Code::InvalidArgument };
            let status = Status::from(error);
            assert_eq!(status.code, code, "{status}");
            check_text(&status.message);
            None
        }
        Ok(prepared) => {
            check_prepared(definition, &prepared);
            Some(prepared)
        }
    }
}

fn check_prepared(definition: &Bytes, prepared: &Prepared) {
    assert_eq!(prepared.cleaned[..], cleaned(definition), "cleaned in another way");
    let same_bytes = prepared.cleaned == *definition;
    let same_buffer = prepared.cleaned.as_ptr() == definition.as_ptr();
    assert_eq!(same_buffer, same_bytes, "copied for nothing, or not copied");
    assert_eq!(prepare(&prepared.cleaned).as_ref(), Ok(prepared), "cleaning twice changes more");
    match &prepared.plan {
        SplitPlan::Splittable(sources) => assert!(sources.len() <= SOURCES_MAX),
        SplitPlan::Unsplittable { message, .. } => check_text(message),
    }
    assert!(prepared.warnings.len() <= WARNINGS_MAX);
    prepared.warnings.iter().for_each(|warning| check_text(&warning.to_string()));
}

fn check_text(text: &str) {
    assert!(!text.is_empty() && text.len() <= TEXT_BYTES_MAX, "{} bytes: {text}", text.len());
}

fn check_drawn(bytes: &[u8]) -> bool {
    let drawing = Drawing::by(bytes);
    let prepared = check_definition(&drawing.definition()).expect("it is well formed");
    let found = match &prepared.plan {
        SplitPlan::Splittable(sources) => Ok(sources.clone()),
        SplitPlan::Unsplittable { code, .. } => Err(*code),
    };
    if let Some(expected) = planned(&drawing) {
        assert_eq!(found, expected, "{:?} {drawing:?}", prepared.plan);
    }
    splittable(prepared)
}
