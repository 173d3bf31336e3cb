//! The dispatcher's settings of a run: timeouts short enough to be met.

use rondo_core::dispatcher::{Bounds, Config, DeploymentMode};
use rondo_core::time::Duration;

use super::Ending;
use crate::rng::Stream;

/// Addresses that workers have, by number.
pub(super) fn address(worker: u32) -> String {
    format!("w{worker}:1")
}

pub(super) fn draw(s: &mut Stream, workers: u32) -> Config {
    Config {
        worker_addresses: worker_addresses(s, workers),
        deployment_mode: s
            .pick(&[DeploymentMode::Unspecified, DeploymentMode::Hybrid])
            .copied()
            .unwrap_or_default(),
        job_gc_check_interval: span(s, &[1000, 200, 5000]).unwrap_or(Duration::from_secs(1)),
        job_gc_timeout: span(s, &[5000, 500, 3000, 15_000, 0]),
        client_timeout: span(s, &[5000, 2000, 10_000]).unwrap_or(Duration::from_secs(5)),
        client_first_heartbeat_timeout: span(s, &[10_000, 3000, 20_000])
            .unwrap_or(Duration::from_secs(10)),
        worker_timeout: span(s, &[5000, 500, 15_000, 0]),
        reissue_lost_splits: s.chance(500),
        named_job_retention: span(s, &[5000, 1000, 20_000, 0]),
        dataset_retention: span(s, &[5000, 1000, 20_000, 60_000, 0]),
        gc_dynamic_sharding_jobs: s.chance(500),
        removal_timeout: span(s, &[3000, 500, 10_000]).unwrap_or(Duration::from_secs(3)),
        abandoned_iteration_retention: None,
        lost_worker_retention: None,
        ..Config::default()
    }
}

/// Bounds as they are, or so low that they are met. Where everybody has to get on in the end there
/// is room for all workers and their tasks.
pub(super) fn bounds(s: &mut Stream, ending: Ending) -> Bounds {
    let most = Bounds::default();
    if !s.chance(300) {
        return most;
    }
    let mut low = |most: usize, few: &[usize]| match s.chance(400) {
        true => s.pick(few).copied().unwrap_or(most),
        false => most,
    };
    let mut bounds = Bounds {
        datasets: low(most.datasets, &[8, 2]),
        jobs: low(most.jobs, &[8, 2]),
        iterations: low(most.iterations, &[16, 3]),
        clients: low(most.clients, &[8, 2]),
        tasks: low(most.tasks, &[64, 5]),
        workers: low(most.workers, &[8, 2]),
        positions: low(most.positions, &[1]),
        position_sources: low(most.position_sources, &[4, 1]),
        waiting_calls: low(most.waiting_calls, &[4, 1]),
        expiries_per_step: low(most.expiries_per_step, &[2, 1]),
    };
    if ending == Ending::Heal {
        (bounds.tasks, bounds.workers) = (most.tasks, most.workers);
    }
    bounds
}

/// One of some spans in ms; 0 is none.
fn span(s: &mut Stream, of: &[u64]) -> Option<Duration> {
    let millis = s.pick(of).copied().unwrap_or(0);
    (millis > 0).then(|| Duration::from_millis(millis))
}

/// Mostly anybody may register; else the first workers, each named in one of the three ways.
fn worker_addresses(s: &mut Stream, workers: u32) -> Vec<String> {
    if !s.chance(250) {
        return Vec::new();
    }
    let entry = |number| match s.below(3) {
        0 => address(number),
        1 => format!("w{number}"),
        _ => format!("w{number}:%port%"),
    };
    (0..workers).map(entry).collect()
}
