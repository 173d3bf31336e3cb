//! Datasets of Rondo's own: what is encoded is decoded, what is planned is what the message says,
//! and what is wrong is refused at once.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use rondo_core::dispatcher::{SplitPlan, SplitSource};
use rondo_core::status::{Code, Status};
use rondo_proto::admin::Dataset;
use rondo_proto::dataset::{decode_definition, encode_definition};
use rondo_proto::graph::prepare;

use crate::build::{attr, chunk, definition, node, node_with};
use crate::recorded;

fn dataset(splits: u64, passes: u64) -> Dataset {
    Dataset {
        version: 1,
        splits,
        passes,
        unsplittable: String::new(),
        pipeline: Bytes::from_static(b"what the user wrote"),
        manifest: Bytes::from_static(b"what there was"),
        schema: Bytes::from_static(b"what it yields"),
    }
}

fn plan(dataset: &Dataset) -> SplitPlan {
    prepare(&encode_definition(dataset)).unwrap().plan
}

fn refusal(definition: &Bytes, code: Code) -> String {
    let error = prepare(definition).unwrap_err();
    let status = Status::from(error);
    assert_eq!(status.code, code);
    assert_eq!(decode_definition(definition).unwrap_err(), status);
    status.message
}

/// The definition as a client would write it that knows nothing of this crate.
fn by_hand(dataset: &[u8]) -> Bytes {
    definition(&[node_with("dataset", "RondoDataset", &[], &attr("dataset", &chunk(2, dataset)))])
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        splits in 0..i64::MAX as u64,
        passes: u64,
        unsplittable in "[a-z]{0,9}",
        pipeline: Vec<u8>,
    ) {
        let pipeline = pipeline.into();
        let dataset = Dataset { unsplittable, pipeline, ..dataset(splits, passes) };
        let encoded = encode_definition(&dataset);
        prop_assert_eq!(&encoded, &by_hand(&dataset.encode_to_vec()));
        prop_assert_eq!(decode_definition(&encoded).unwrap(), Some(dataset));
    }

    #[test]
    fn a_definition_cut_short_is_refused(at: prop::sample::Index) {
        let whole = encode_definition(&dataset(7, 1));
        let cut = whole.slice(..at.index(whole.len()));
        prop_assert_eq!(prepare(&cut).is_err(), !cut.is_empty());
    }
}

#[test]
fn a_source_counts_the_splits_of_all_passes() {
    let counting = |dataset: Dataset| match plan(&dataset) {
        SplitPlan::Splittable(sources) => sources,
        SplitPlan::Unsplittable { message, .. } => panic!("{message}"),
    };
    assert_eq!(counting(dataset(7, 1)), [SplitSource::counting(7)]);
    assert_eq!(counting(dataset(7, 3)), [SplitSource::counting(21)]);
    assert_eq!(counting(dataset(7, 0)), [SplitSource::counting(i64::MAX)]);
    assert_eq!(counting(dataset(0, 0)), [SplitSource::counting(0)]);
    assert_eq!(counting(dataset(1 << 40, 1 << 40)), [SplitSource::counting(i64::MAX)]);
}

#[test]
fn what_cannot_be_split_says_why() {
    let unsplittable = "take behind a filter counts the whole stream".to_owned();
    let plan = plan(&Dataset { unsplittable: unsplittable.clone(), ..dataset(7, 1) });
    let code = Code::FailedPrecondition;
    assert_eq!(plan, SplitPlan::Unsplittable { code, message: unsplittable });
}

#[test]
fn a_definition_is_kept_byte_for_byte() {
    // A device, which cleaning takes from TensorFlow's nodes, and a field that nobody knows.
    let rest = [attr("dataset", &chunk(2, &dataset(7, 1).encode_to_vec())), chunk(4, b"/cpu:0")];
    let definition = definition(&[node_with("d", "RondoDataset", &[], &rest.concat())]);
    let definition: Bytes = [definition.as_ref(), &chunk(9, b"new")].concat().into();
    let prepared = prepare(&definition).unwrap();
    assert_eq!(prepared.cleaned, definition);
    assert_eq!(prepared.plan, SplitPlan::Splittable(vec![SplitSource::counting(7)]));
}

#[test]
fn another_version_is_refused_with_its_number() {
    for version in [0, 2, u32::MAX] {
        // It may be right, for another Rondo.
        let definition = encode_definition(&Dataset { version, ..dataset(7, 1) });
        let text = refusal(&definition, Code::FailedPrecondition);
        assert!(text.contains(&format!("version {version};")), "{text}");
    }
}

#[test]
fn what_is_malformed_is_refused_with_what_is_wrong() {
    let node_of = |rest: &[u8]| node_with("dataset", "RondoDataset", &[], rest);
    let good = node_of(&attr("dataset", &chunk(2, &dataset(7, 1).encode_to_vec())));
    let cases = [
        (definition(&[node_of(&[])]), "no attribute `dataset`"),
        (definition(&[node_of(&attr("dataset", &chunk(8, b"")))]), "no attribute `dataset`"),
        (definition(&[good, node("other", "Const", &[])]), "other nodes"),
        (by_hand(b"\x0a\x05no"), "no rondo.v1.Dataset"),
        (encode_definition(&dataset(1 << 63, 1)), "splits is 9223372036854775808"),
        (
            encode_definition(&Dataset { unsplittable: "x".repeat(9999), ..dataset(7, 1) }),
            "unsplittable is 9999 bytes",
        ),
    ];
    for (definition, problem) in cases {
        let text = refusal(&definition, Code::InvalidArgument);
        assert!(text.contains(problem), "{text}");
    }
}

#[test]
fn graphs_of_tensorflows_are_none_of_ours() {
    for (name, definition, _) in recorded::cases() {
        assert_eq!(decode_definition(&definition).unwrap(), None, "{name}");
    }
    assert_eq!(decode_definition(&Bytes::new()).unwrap(), None);
}
