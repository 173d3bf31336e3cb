//! Large constants are passed over, not read.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rondo_core::dispatcher::{SplitPlan, SplitSource};
use rondo_proto::graph::prepare;

use crate::build::{attr, chunk, definition, node, node_with, number};

const CONSTANT_BYTES: usize = 100 << 20;

/// `from_tensor_slices` of 100 MiB in 25 rows.
fn large(device: &[u8]) -> Bytes {
    let shape = chunk(2, &number(1, 25));
    let tensor = [number(1, 9), chunk(2, &shape), chunk(4, &vec![7; CONSTANT_BYTES])].concat();
    definition(&[
        node_with(
            "c",
            "Const",
            &[],
            &[attr("value", &chunk(8, &tensor)), device.to_vec()].concat(),
        ),
        node("a", "TensorSliceDataset", &["c"]),
        node("dataset", "_Retval", &["a"]),
    ])
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}

#[test]
fn a_constant_of_100_mib_costs_one_copy_at_most() {
    let plan = SplitPlan::Splittable(vec![SplitSource::counting(25)]);
    let clean = large(&[]);
    let (copied, copying) = timed(|| clean.to_vec());
    assert_eq!(copied.len(), clean.len());
    drop(copied);

    let (prepared, passing) = timed(|| prepare(&clean).unwrap());
    assert_eq!(prepared.plan, plan);
    assert_eq!(prepared.cleaned.as_ptr(), clean.as_ptr(), "not copied");
    assert!(passing < copying, "passing over took {passing:?}, a copy {copying:?}");

    let placed = large(&chunk(4, b"/device:GPU:0"));
    let (prepared, cleaning) = timed(|| prepare(&placed).unwrap());
    assert_eq!(prepared.plan, plan);
    assert_eq!(prepared.cleaned, clean);
    let bound = copying * 4 + Duration::from_millis(200);
    assert!(cleaning < bound, "cleaning took {cleaning:?}, a copy {copying:?}");
}
