//! What a consumer sets out to read.

use rondo_core::dispatcher::{GetOrCreateJob, ShardingPolicy, TargetWorkers};
use rondo_core::ids::DatasetId;

use crate::swarm::DatasetShape;
use crate::workload::actor::With;

/// A job to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Its name; an anonymous job has none.
    pub(super) name: Option<String>,
    /// The dataset, by its place in the configuration.
    dataset: u64,
    sharding: ShardingPolicy,
    /// With how many others it is read in rounds.
    pub(super) consumers: Option<i64>,
    /// Which coordinated read it is.
    pub(super) generation: u64,
}

impl Plan {
    /// The coordinated read that the consumers are at.
    pub(super) fn together(with: &With<'_>) -> Self {
        let generation = with.known.generation;
        Self {
            name: Some(format!("rounds{generation}")),
            dataset: generation,
            sharding: ShardingPolicy::Off,
            consumers: Some(i64::from(with.swarm.together)),
            generation,
        }
    }

    /// A job of one's own, perhaps shared by its name.
    pub(super) fn alone(with: &mut With<'_>) -> Self {
        let number = with.stream.below(u64::from(with.swarm.job_names));
        let anonymous = with.stream.chance(150);
        Self {
            name: (!anonymous).then(|| job_name(number)),
            dataset: number,
            sharding: sharding(number),
            consumers: None,
            generation: 0,
        }
    }

    /// The dataset's shape.
    pub(super) fn shape<'a>(&self, with: &'a With<'_>) -> Option<&'a DatasetShape> {
        let count = with.swarm.datasets.len() as u64;
        let at = self.dataset.checked_rem(count)?;
        with.swarm.datasets.get(usize::try_from(at).ok()?)
    }

    /// The request for the job.
    pub(super) fn job(&self, dataset: DatasetId) -> GetOrCreateJob {
        GetOrCreateJob {
            dataset,
            same_dataset: false,
            sharding: self.sharding,
            name: self.name.clone(),
            consumers: self.consumers,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Auto,
        }
    }
}

/// The name of the job of a number.
pub(super) fn job_name(number: u64) -> String {
    format!("job{number}")
}

/// What belongs to a name, so that all who share it agree.
const fn sharding(number: u64) -> ShardingPolicy {
    match number % 4 {
        2 => ShardingPolicy::Off,
        3 => ShardingPolicy::Data,
        _ => ShardingPolicy::Dynamic,
    }
}
