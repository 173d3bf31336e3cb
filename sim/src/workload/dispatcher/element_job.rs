//! The job that readers by element read, and how they do.

use rondo_core::dispatcher::{GetOrCreateJob, ShardingPolicy, TargetWorkers};
use rondo_core::ids::DatasetId;
use rondo_core::reader::{ByElement, Config, Member, Way};

use super::element_bytes::{READ_BOTH_WAYS, READ_BY_ELEMENT};
use super::ms;
use crate::swarm::ElementsShape;
use crate::workload::actor::With;

/// How the reader of this number reads.
pub(super) fn config(number: u32, shape: &ElementsShape, with: &With<'_>) -> Config {
    let member = Member { index: number, size: shape.readers };
    let way = ByElement {
        consumer: shape.rounds.then_some(member),
        requests_per_task: usize::try_from(shape.requests).unwrap_or(1),
        continues_on_error: false,
    };
    let beat = with.swarm.pace.client_heartbeat_ms;
    Config {
        heartbeat_interval: ms(beat),
        heartbeat_interval_min: ms(beat.min(50)),
        buffer_deliveries_max: usize::try_from(shape.ahead).unwrap_or(1),
        ..Config::of(Way::ByElement(way))
    }
}

/// The job of this number, of those that are read one after the other.
pub(super) fn job(generation: u64, shape: &ElementsShape, with: &With<'_>) -> GetOrCreateJob {
    let prefix = if with.swarm.reads_both_ways() { READ_BOTH_WAYS } else { READ_BY_ELEMENT };
    GetOrCreateJob {
        dataset: DatasetId::new(READ_BY_ELEMENT),
        same_dataset: false,
        sharding: match shape.whole || shape.rounds {
            true => ShardingPolicy::Off,
            false => ShardingPolicy::Dynamic,
        },
        name: Some(format!("{prefix}{generation}")),
        consumers: shape.rounds.then_some(i64::from(shape.readers)),
        use_cross_trainer_cache: false,
        target_workers: TargetWorkers::Auto,
    }
}

/// How long the application takes for an element. When nothing goes wrong any more there is no need to
/// take long.
pub(super) fn consume_ms(with: &With<'_>) -> u64 {
    let consume_ms = with.swarm.elements.map_or(0, |shape| shape.consume_ms);
    if with.calm { consume_ms.min(5) } else { consume_ms }
}
