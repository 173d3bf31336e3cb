//! Anything that is known of splits.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rondo_core::dispatcher::{self as core, Record as DispatcherRecord};

use crate::values::{client, iteration, task, worker};

pub(super) fn saved_split() -> impl Strategy<Value = core::SavedSplit> {
    (any::<u64>(), any::<u64>()).prop_map(|(place, records)| core::SavedSplit { place, records })
}

/// Places with the records acknowledged.
pub(super) fn places() -> impl Strategy<Value = BTreeMap<u64, u64>> {
    prop::collection::btree_map(any::<u64>(), any::<u64>(), 0..3)
}

/// As a snapshot has it: what is held follows from the clients.
pub(super) fn by_split() -> impl Strategy<Value = core::BySplit> {
    let all = (places(), option::of(any::<u32>()), any::<u64>());
    let all = all.prop_map(|(waiting, group_size, acknowledged)| core::BySplit {
        waiting,
        held: 0,
        group_size,
        acknowledged,
    });
    prop_oneof![Just(core::BySplit::default()), all]
}

pub(super) fn by_split_record() -> impl Strategy<Value = DispatcherRecord> {
    use DispatcherRecord as R;
    let progress = (any::<u64>(), any::<u64>(), any::<bool>());
    let progress = progress.prop_map(|(place, records, finished)| core::SplitProgress {
        place,
        records,
        finished,
    });
    let taken = vec(any::<u64>(), 0..4);
    let handed_out = (iteration(), any::<u32>(), any::<i64>(), any::<u64>(), option::of(task()))
        .prop_map(|(iteration, source, repetition, place, task)| R::TakeBackSplit {
            iteration,
            source,
            repetition,
            place,
            task,
        });
    prop_oneof![
        (client(), vec(progress, 0..3), taken, any::<u32>()).prop_map(
            |(client, progress, taken, group_size)| R::HoldSplits {
                client,
                progress,
                taken,
                group_size
            }
        ),
        (iteration(), any::<u64>(), option::of(task()))
            .prop_map(|(iteration, place, task)| R::HandOutWaiting { iteration, place, task }),
        iteration().prop_map(|id| R::FinishIteration { id }),
        handed_out,
    ]
}

fn split_set() -> impl Strategy<Value = core::SplitSet> {
    let run = (0..3_u32, 0..3_i64, 0..9_u64, 1..9_u64);
    let run = run.prop_map(|(source, repetition, first, count)| core::SplitRun {
        source,
        repetition,
        first: first * 10,
        count,
    });
    // Runs of a set do not overlap.
    let places = |run: &core::SplitRun| (run.source, run.repetition, run.first);
    vec(run, 0..5).prop_map(move |mut runs| {
        runs.sort_by_key(places);
        runs.dedup_by_key(|run| places(run));
        runs.into_iter().collect()
    })
}

pub(super) fn task_splits() -> impl Strategy<Value = core::TaskSplits> {
    let set = (split_set(), any::<u64>(), any::<u64>());
    let set = set.prop_map(|(remembered, forgotten, unattributed_before)| core::TaskSplits {
        remembered,
        forgotten,
        unattributed_before,
    });
    prop_oneof![Just(core::TaskSplits::default()), set]
}

pub(super) fn iteration_splits() -> impl Strategy<Value = core::IterationSplits> {
    let doubt = (any::<u64>(), any::<u64>(), any::<u64>());
    let doubt = doubt.prop_map(|(from, upto, count)| core::Doubt { from, upto, count });
    let strays = prop::collection::btree_map(worker(), any::<u64>(), 0..3);
    let counts = (any::<u64>(), any::<u64>(), option::of(any::<u64>()));
    let all = (counts, doubt, split_set(), strays);
    let all = all.prop_map(|((unattributed, lost, tried), doubt, again, strays)| {
        core::IterationSplits { unattributed, doubt, lost, again, tried, strays }
    });
    prop_oneof![Just(core::IterationSplits::default()), all]
}
