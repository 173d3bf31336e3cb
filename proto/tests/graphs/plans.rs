//! Sources, splits, refusals and warnings are TensorFlow's.

use rondo_core::dispatcher::{SplitPlan, SplitSource};
use rondo_proto::graph::{Warning, prepare};
use serde_json::Value;

use crate::recorded;

#[test]
fn plans_are_those_of_the_real_dispatcher() {
    for (name, definition, expected) in recorded::cases() {
        match prepare(&definition).unwrap().plan {
            SplitPlan::Splittable(sources) => {
                let recorded = expected["sources"].as_array();
                let recorded = recorded.unwrap_or_else(|| panic!("{name} should be refused"));
                assert_eq!(sources.len(), recorded.len(), "{name}: number of sources");
                for (source, recorded) in sources.iter().zip(recorded) {
                    check_source(&name, source, recorded);
                }
            }
            SplitPlan::Unsplittable { code, message } => {
                assert_eq!(Some(code.number().into()), expected["code"].as_i64(), "{name}");
                assert_eq!(Some(message.as_str()), expected["message"].as_str(), "{name}");
            }
        }
    }
}

fn check_source(name: &str, source: &SplitSource, recorded: &Value) {
    let splits: Vec<i64> = recorded["splits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|split| split.as_i64().unwrap())
        .collect();
    let ours: Vec<i64> =
        (0..splits.len() as u64).map_while(|index| source.split_at(index)).collect();
    assert_eq!(ours, splits, "{name}");
    let ended = source.len() == splits.len() as u64;
    assert_eq!(Some(ended), recorded["ended"].as_bool(), "{name}: end of splits");
}

#[test]
fn warnings_are_given_where_real_workers_deliver_twice() {
    let mut warned = 0;
    for (name, definition, expected) in recorded::cases() {
        let warnings = prepare(&definition).unwrap().warnings;
        let twice = expected["delivers_twice"].as_bool().unwrap_or(false);
        assert_eq!(!warnings.is_empty(), twice, "{name}: {warnings:?}");
        warned += warnings.len();
    }
    assert!(warned > 5, "only {warned} warnings in all recorded cases");
}

#[test]
fn a_warning_names_the_nodes_and_the_way_out() {
    let warnings = prepare(&recorded::definition("shuffle_interleave")).unwrap().warnings;
    let [Warning::ShuffleBeforeInterleave { shuffle, interleave }] = warnings.as_slice() else {
        panic!("one shuffle warning expected, got {warnings:?}");
    };
    assert!(shuffle.starts_with("ShuffleDatasetV3"), "{shuffle}");
    assert!(interleave.starts_with("InterleaveDataset"), "{interleave}");
    let text = warnings[0].to_string();
    assert!(text.contains(shuffle) && text.contains(interleave), "{text}");
    assert!(text.contains("num_parallel_calls"), "{text}");

    let warnings = prepare(&recorded::definition("repeat_interleave")).unwrap().warnings;
    assert!(matches!(warnings.as_slice(), [Warning::RepeatBeforeInterleave { .. }]));
}
