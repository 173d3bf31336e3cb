//! Host lists and counts of tasks.

use proptest::prelude::*;
use rondo_core::cluster::{Fault, slurm};

use super::reading;

#[test]
fn too_large_a_range_is_refused_with_its_bound() {
    let refused = slurm::host_list("SLURM_STEP_NODELIST", "n[0-999999999]").unwrap_err();
    assert_eq!(refused.fault, Fault::TooLarge);
    assert_eq!(
        refused.to_string(),
        "SLURM_STEP_NODELIST: \"n[0-999999999]\" has the range \"0-999999999\" of 1000000000 hosts, \
         more than the 65536 allowed"
    );
    let product = "n[0-65535][0-65535][0-65535][0-65535][0-65535]";
    let refused = slurm::host_list("LIST", product).unwrap_err();
    assert_eq!(refused.fault, Fault::TooLarge);
    assert!(refused.text.contains("at most 1000000 hosts"), "{refused}");
    let long = format!("{}[0-65535]", "a".repeat(4000));
    assert_eq!(slurm::host_list("LIST", &long).unwrap_err().fault, Fault::TooLarge);
}

#[test]
fn counts_are_bounded() {
    let refused = slurm::task_counts("COUNTS", "1(x4294967295)").unwrap_err();
    assert_eq!(refused.fault, Fault::TooLarge);
    assert!(refused.text.contains("more than the 1000000 hosts"), "{refused}");
    assert_eq!(
        slurm::task_counts("COUNTS", "1(x600000),1(x400001)").unwrap_err().fault,
        Fault::TooLarge
    );
    assert_eq!(slurm::task_counts("COUNTS", "1(x600000),1(x400000)").unwrap().len(), 1_000_000);
}

#[test]
fn what_is_wrong_is_quoted() {
    let cases = [
        ("n[1-2", "has a '[' without a ']'"),
        ("n1]", "has a ']' without a '['"),
        ("n[1[2]]", "has brackets within brackets"),
        ("n 1", "has ' ' in a name"),
        ("n[3-1]", "has the range \"3-1\", which runs backwards"),
        ("n[٣]", "has \"٣\" in brackets where a number of 1 to 18 digits should be"),
        ("n[1234567890123456789]", "where a number of 1 to 18 digits should be"),
    ];
    for (text, wanted) in cases {
        let refused = slurm::host_list("LIST", text).unwrap_err();
        assert_eq!(refused.fault, Fault::Malformed);
        assert!(refused.text.contains(wanted) && refused.text.contains(text), "{refused}");
    }
}

fn list() -> impl Strategy<Value = String> {
    let range = prop_oneof![
        (0..400_u32).prop_map(|low| low.to_string()),
        (0..400_u32, 0..40_u32, 0..4_usize)
            .prop_map(|(low, more, width)| format!("{low:0width$}-{}", low + more)),
    ];
    let group =
        prop::collection::vec(range, 1..4).prop_map(|ranges| format!("[{}]", ranges.join(",")));
    let piece = prop_oneof!["[a-z0-9.-]{1,4}", group];
    let item = prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat());
    prop::collection::vec(item, 0..4).prop_map(|items| items.join(","))
}

proptest! {
    #[test]
    fn good_lists_are_read_as_naively(list in list()) {
        prop_assert!(reading::host_list(list.as_bytes()) || list.is_empty() || list.matches('[').count() > 1);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[n0-9a\\[\\],x() -]{0,24}|\\PC{0,24}") {
        reading::host_list(text.as_bytes());
        reading::task_counts(text.as_bytes());
    }
}
