//! Specs put together, beside the rule as it is told.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rondo_core::cluster::{Changes, ClusterSpec, Fault, merge};

/// Jobs with a shape, and then filled, in two passes over plain maps.
fn naive(specs: &[ClusterSpec]) -> Option<BTreeMap<String, BTreeMap<u32, String>>> {
    let is_list = |spec: &ClusterSpec, job: &str| {
        let indices = spec.task_indices(job).unwrap();
        !indices.is_empty() && indices.iter().copied().eq(0..indices.len() as u32)
    };
    let all_lists = |job: &str| {
        specs.iter().filter(|spec| spec.job(job).is_ok()).all(|spec| is_list(spec, job))
    };
    let mut merged: BTreeMap<String, BTreeMap<u32, String>> = BTreeMap::new();
    for spec in specs {
        for job in spec.jobs() {
            let tasks = merged.entry(job.into()).or_default();
            for (index, address) in spec.job(job).unwrap() {
                let index = if all_lists(job) { tasks.len() as u32 } else { *index };
                if tasks.insert(index, address.clone()).is_some() {
                    return None;
                }
            }
        }
    }
    Some(merged)
}

fn spec() -> impl Strategy<Value = ClusterSpec> {
    let tasks = prop::collection::btree_map(0..4_u32, "[ab]:1", 0..4);
    prop::collection::vec((prop_oneof!["w", "ps"], tasks), 0..3).prop_map(|jobs| {
        let mut spec = ClusterSpec::new();
        for (job, tasks) in jobs {
            if spec.job(&job).is_err() {
                spec.add_job(&job).unwrap();
                for (index, address) in tasks {
                    spec.add_task(&job, index, address).unwrap();
                }
            }
        }
        spec
    })
}

proptest! {
    #[test]
    fn members_are_put_together_by_the_rule(specs in prop::collection::vec(spec(), 0..4)) {
        match (merge(&specs), naive(&specs)) {
            (Ok(merged), Some(naive)) => {
                prop_assert_eq!(merged.jobs().count(), naive.len());
                for (job, tasks) in &naive {
                    prop_assert_eq!(merged.job(job).unwrap(), tasks);
                }
            }
            (Err(error), None) => prop_assert_eq!(error.fault, Fault::Conflict),
            (merged, naive) => prop_assert!(false, "{:?} and {:?}", merged, naive),
        }
    }

    /// Changes, done to what was there, make what is there; the version only rises.
    #[test]
    fn changes_lead_from_one_look_to_the_next(specs in prop::collection::vec(spec(), 1..6)) {
        let mut changes = Changes::new();
        let mut known: BTreeMap<(String, u32), String> = BTreeMap::new();
        let mut version = 0;
        for spec in &specs {
            if let Some(change) = changes.look(spec) {
                prop_assert_eq!(change.version, version + 1);
                version = change.version;
                for (job, index, address) in change.added {
                    prop_assert!(known.insert((job, index), address).is_none());
                }
                for (job, index, address) in change.moved {
                    prop_assert!(known.insert((job, index), address.clone()).unwrap() != address);
                }
                for (job, index, address) in change.removed {
                    prop_assert_eq!(known.remove(&(job, index)), Some(address));
                }
            }
            let now: BTreeMap<_, _> =
                spec.iter().map(|(job, index, address)| ((job.into(), index), address.into())).collect();
            prop_assert_eq!(&known, &now);
            prop_assert!(changes.look(spec).is_none());
        }
    }
}
