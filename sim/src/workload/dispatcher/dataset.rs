//! Datasets as clients register them.

use bytes::Bytes;
use rondo_core::dispatcher::{
    Compression, DatasetMetadata, Definition, RegisterDataset, SplitPlan, SplitSource,
};
use rondo_core::ids::{DatasetId, Digest};
use rondo_core::limits::DEFINITION_INLINE_BYTES_MAX;
use rondo_core::status::Code;

use crate::swarm::DatasetShape;

/// The registration of a dataset of this shape.
pub fn registration(shape: &DatasetShape) -> RegisterDataset {
    let content = Bytes::from(format!("{:?} {}", shape.sources, shape.large));
    let digest = digest_of(&content);
    let size_bytes = match shape.large {
        true => DEFINITION_INLINE_BYTES_MAX.saturating_add(1),
        false => content.len() as u64,
    };
    let inline = (!shape.large).then(|| content.clone());
    RegisterDataset {
        wished: shape.wished.as_deref().map(DatasetId::new),
        definition: Definition { digest, size_bytes, inline },
        own: false,
        replaces: false,
        plan: plan(shape),
        metadata: DatasetMetadata {
            encoded: content,
            structure: digest,
            compression: match shape.compressed {
                true => Compression::Snappy,
                false => Compression::Off,
            },
            cardinality: shape.sources.as_ref().map_or(-2, |_| -1),
        },
    }
}

/// Makes it the replacement of the dataset that has its id: another definition of the same elements.
pub(super) fn change(request: &mut RegisterDataset, edition: u64) {
    (request.own, request.replaces) = (true, true);
    let content = request.metadata.encoded.iter().copied();
    let content: Vec<u8> = content.chain(format!(" edition {edition}").into_bytes()).collect();
    request.definition.digest = digest_of(&content);
    if request.definition.inline.is_some() {
        request.definition.size_bytes = content.len() as u64;
        request.definition.inline = Some(content.into());
    }
}

fn plan(shape: &DatasetShape) -> SplitPlan {
    let source = |len: &u64| {
        let len = i64::try_from(*len).unwrap_or(i64::MAX);
        match shape.compressed {
            true => SplitSource::counting(len),
            // Another sequence of the same length.
            false => SplitSource { start: len, stop: 0, step: -1 },
        }
    };
    match &shape.sources {
        Some(sources) => SplitPlan::Splittable(sources.iter().map(source).collect()),
        None => SplitPlan::Unsplittable {
            code: Code::Unimplemented,
            message: "this dataset cannot be split".into(),
        },
    }
}

/// A hash that is good enough for the few contents there are here.
pub(super) fn digest_of(content: &[u8]) -> Digest {
    let mut digest = [0_u8; 32];
    for (at, byte) in content.iter().enumerate() {
        if let Some(into) = digest.get_mut(at % 32) {
            *into = into.wrapping_mul(31).wrapping_add(*byte);
        }
    }
    Digest::new(digest)
}
