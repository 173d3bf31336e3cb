//! Graphs that are well-formed messages but no dataset that can be split: registered all the
//! same, refused with a reason when splits are asked for.

use rondo_core::dispatcher::{SplitPlan, SplitSource};
use rondo_core::limits::SOURCES_MAX;
use rondo_core::status::Code;
use rondo_proto::graph::prepare;

use crate::build::{attr, chunk, constant, definition, node, node_with, number};

fn plan(nodes: &[Vec<u8>]) -> SplitPlan {
    prepare(&definition(nodes)).unwrap().plan
}

fn refusal(nodes: &[Vec<u8>]) -> (Code, String) {
    match plan(nodes) {
        SplitPlan::Unsplittable { code, message } => (code, message),
        SplitPlan::Splittable(sources) => panic!("splittable into {sources:?}"),
    }
}

fn retval(input: &str) -> Vec<u8> {
    node("dataset", "_Retval", &[input])
}

fn random(name: &str) -> Vec<u8> {
    node(name, "RandomDatasetV2", &[])
}

#[test]
fn a_dataset_that_reads_itself() {
    let nodes =
        [retval("a"), node("a", "MapDataset", &["b"]), node("b", "ZipDataset", &["a", "a"])];
    let (code, message) = refusal(&nodes);
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("dataset 'a' reads itself"), "{message}");
}

#[test]
fn two_nodes_of_one_name() {
    let (code, message) = refusal(&[retval("a"), random("a"), random("a")]);
    assert_eq!((code, message.as_str()), (Code::InvalidArgument, "Node 'a' is not unique"));
}

#[test]
fn a_return_of_nothing_or_of_no_dataset() {
    assert_eq!(
        refusal(&[node("dataset", "_Retval", &["^a"]), random("a")]).0,
        Code::InvalidArgument
    );
    assert_eq!(refusal(&[retval("a:1"), random("a")]).0, Code::InvalidArgument);
    let (code, message) = refusal(&[retval("a"), node("a", "StatefulPartitionedCall", &[])]);
    assert_eq!(code, Code::Unimplemented);
    assert!(message.contains("StatefulPartitionedCall"), "{message}");
}

#[test]
fn an_unknown_op_passes_its_first_dataset_on() {
    let through = [retval("a"), node("a", "MyOwnDataset", &["^x", "b:0", "x"]), random("b")];
    assert_eq!(plan(&through), SplitPlan::Splittable(vec![SplitSource::counting(i64::MAX)]));
    let (code, message) =
        refusal(&[retval("a"), node("a", "MyOwnDataset", &["b"]), constant("b", 1)]);
    assert_eq!(code, Code::Unimplemented);
    assert!(message.contains("dataset of type MyOwnDataset"), "{message}");
}

#[test]
fn a_range_without_constants_or_step() {
    let range = |start: Vec<u8>, step: i64| {
        refusal(&[
            retval("a"),
            node("a", "RangeDataset", &["start", "stop", "step"]),
            start,
            constant("stop", 10),
            constant("step", step),
        ])
    };
    assert_eq!(
        range(constant("start", 0), 0),
        (Code::InvalidArgument, "step must be a non-zero integer.".into())
    );
    let (code, message) = range(node("start", "Placeholder", &[]), 1);
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("'a' has no int64 constant at input 0"), "{message}");
}

#[test]
fn a_constant_is_found_behind_identities_but_not_for_ever() {
    let rows = |producer: Vec<u8>| {
        plan(&[
            retval("a"),
            node("a", "TensorSliceDataset", &["i"]),
            producer,
            node("p", "Pack", &["x", "y", "^z", "x"]),
        ])
    };
    let found = rows(node("i", "Identity", &["p"]));
    assert_eq!(found, SplitPlan::Splittable(vec![SplitSource::counting(3)]));
    let lost = rows(node("i", "Identity", &["i"]));
    assert!(matches!(lost, SplitPlan::Unsplittable { code: Code::InvalidArgument, .. }));
}

#[test]
fn negative_or_missing_dimensions() {
    for dims in [vec![], chunk(2, &number(1, u64::MAX)), chunk(2, &[])] {
        let tensor = [number(1, 9), chunk(2, &dims)].concat();
        let slices = [
            retval("a"),
            node("a", "TensorSliceDataset", &["c"]),
            node_with("c", "Const", &[], &attr("value", &chunk(8, &tensor))),
        ];
        match plan(&slices) {
            SplitPlan::Splittable(sources) => {
                assert_eq!((dims.len(), sources[0].len()), (2, 0), "an empty dimension is 0 rows");
            }
            SplitPlan::Unsplittable { code, .. } => assert_eq!(code, Code::InvalidArgument),
        }
    }
    let list = [retval("a"), node("a", "ListDataset", &["x", "y"])];
    assert_eq!(refusal(&list).0, Code::InvalidArgument);
}

#[test]
fn sources_are_bounded() {
    let wide = |inputs: usize| {
        plan(&[retval("a"), node("a", "ZipDataset", &vec!["b"; inputs]), random("b")])
    };
    let SplitPlan::Splittable(sources) = wide(SOURCES_MAX) else {
        panic!("{SOURCES_MAX} sources should be splittable");
    };
    assert_eq!(sources.len(), SOURCES_MAX);
    assert!(matches!(
        wide(SOURCES_MAX + 1),
        SplitPlan::Unsplittable { code: Code::ResourceExhausted, .. }
    ));
}

#[test]
fn doubling_at_every_level_is_stopped_early() {
    let level = |index: usize| {
        let below = format!("d{}", index + 1);
        node(&format!("d{index}"), "ZipDataset", &[&below, &below])
    };
    let mut nodes: Vec<_> = (0..64).map(level).collect();
    nodes.extend([retval("d0"), random("d64")]);
    let (code, message) = refusal(&nodes);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(message.contains("1024 sources"), "{message}");
}

#[test]
fn a_very_long_chain_neither_overflows_nor_fails() {
    let length = 50_000;
    let mut nodes: Vec<_> = (0..length)
        .map(|index| node(&format!("d{index}"), "MapDataset", &[&format!("d{}", index + 1)]))
        .collect();
    nodes.extend([retval("d0"), random(&format!("d{length}"))]);
    assert_eq!(plan(&nodes), SplitPlan::Splittable(vec![SplitSource::counting(i64::MAX)]));
}

#[test]
fn names_in_texts_are_readable_and_short() {
    let (_, message) = refusal(&[retval(&"é".repeat(5000))]);
    assert!(message.len() < 500, "{} bytes", message.len());
    let mut bad = node("a", "Dataset", &[]);
    bad.extend(chunk(2, b"\xff\xfe"));
    let (_, message) = refusal(&[retval("a"), bad]);
    assert!(message.contains("not UTF-8"), "{message}");
}
