//! Dynamic sharding: splits handed out one by one.

use rondo_core::dispatcher::{ShardingPolicy, SplitSource};
use rondo_core::ids::IterationId;
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::Driver;
use crate::world::{dataset, job, split};

fn range(start: i64, stop: i64, step: i64) -> SplitSource {
    SplitSource { start, stop, step }
}

fn dividing(sources: &[SplitSource]) -> (Driver, IterationId) {
    let mut driver = Driver::new();
    let dataset = driver.register(dataset(sources));
    let job = driver.job(job(&dataset, ShardingPolicy::Dynamic));
    driver.join(job, 0);
    let iteration = driver.iteration(job, 0);
    (driver, iteration)
}

/// All splits of one pass.
fn pass(driver: &mut Driver, iteration: IterationId, repetition: i64, source: i64) -> Vec<i64> {
    std::iter::from_fn(|| driver.split(iteration, repetition, source)).collect()
}

/// Measured on TensorFlow 2.21: `range(3)`, asked for these passes in turn.
#[test]
fn the_measured_sequence() {
    let (mut driver, iteration) = dividing(&[range(0, 3, 1)]);
    let splits = [0, 0, 0, 0, 0, 1, 3, 2].map(|pass| driver.split(iteration, pass, 0));
    let expected = [Some(0), Some(1), Some(2), None, None, Some(0), Some(0), None];
    assert_eq!(splits, expected);
}

/// Measured on TensorFlow 2.21, which after the restart goes on with 7 and loses 2 to 6.
#[test]
fn a_jump_to_a_later_pass_survives_a_restart_without_a_loss() {
    let (mut driver, iteration) = dividing(&[range(0, 10, 1)]);
    for expected in 0..5 {
        assert_eq!(driver.split(iteration, 0, 0), Some(expected));
    }
    assert_eq!([1, 1].map(|pass| driver.split(iteration, pass, 0)), [Some(0), Some(1)]);
    driver.restart();
    assert_eq!(pass(&mut driver, iteration, 1, 0), (2..10).collect::<Vec<_>>());
}

#[test]
fn a_split_whose_record_was_lost_is_handed_out_again() {
    let (mut driver, iteration) = dividing(&[range(0, 3, 1)]);
    assert_eq!(driver.split(iteration, 0, 0), Some(0));
    driver.journal = crate::driver::Journal::Slow;
    let call = driver.send(split(iteration, 0, 0));
    assert_eq!(driver.take(call), None);
    driver.restart();
    assert_eq!(pass(&mut driver, iteration, 0, 0), [1, 2]);
}

#[test]
fn sources_are_independent() {
    let (mut driver, iteration) = dividing(&[range(0, 2, 1), range(10, 13, 1)]);
    assert_eq!(driver.split(iteration, 0, 1), Some(10));
    assert_eq!(pass(&mut driver, iteration, 0, 0), [0, 1]);
    assert_eq!(driver.split(iteration, 0, 1), Some(11));
    assert_eq!(driver.split(iteration, 1, 0), Some(0));
    assert_eq!(driver.split(iteration, 0, 1), Some(12));
}

#[test]
fn steps_may_be_wide_or_negative_and_ranges_empty() {
    for (source, splits) in [
        (range(0, 7, 3), vec![0, 3, 6]),
        (range(0, 6, 3), vec![0, 3]),
        (range(5, 0, -2), vec![5, 3, 1]),
        (range(-3, -9, -3), vec![-3, -6]),
        (range(4, 4, 1), vec![]),
        (range(4, 9, -1), vec![]),
        (range(i64::MAX - 1, i64::MAX, i64::MAX), vec![i64::MAX - 1]),
        (range(i64::MAX, i64::MIN, i64::MIN), vec![i64::MAX, -1]),
        (SplitSource::counting(-4), vec![]),
    ] {
        let (mut driver, iteration) = dividing(&[source]);
        assert_eq!(pass(&mut driver, iteration, 0, 0), splits, "{source:?}");
        assert_eq!(pass(&mut driver, iteration, 1, 0), splits, "the next pass of {source:?}");
    }
}

#[test]
fn an_endless_source_goes_on() {
    let (mut driver, iteration) = dividing(&[SplitSource::counting(i64::MAX)]);
    for expected in 0..100 {
        assert_eq!(driver.split(iteration, 0, 0), Some(expected));
    }
}

#[test]
fn a_source_out_of_range_is_refused() {
    let (mut driver, iteration) = dividing(&[range(0, 3, 1), range(0, 3, 1)]);
    for source in [-1, 2, i64::MAX, i64::MIN] {
        let status = driver.refused(split(iteration, 0, source));
        assert_eq!(status.code, Code::InvalidArgument);
        let text =
            format!("split_provider_index is {source}; it must be from 0 to 1 for iteration 2000");
        assert_eq!(status.message, text);
    }
}

/// The very last pass could have no next one, so its splits would be handed out for ever.
#[test]
fn a_pass_out_of_range_is_refused() {
    let (mut driver, iteration) = dividing(&[range(0, 3, 1)]);
    for repetition in [-1, i64::MIN, i64::MAX] {
        let status = driver.refused(split(iteration, repetition, 0));
        assert_eq!(status.code, Code::InvalidArgument, "{repetition}");
        assert!(status.message.starts_with(&format!("repetition is {repetition};")), "{status}");
    }
}

#[test]
fn an_unknown_iteration_is_not_found() {
    let (mut driver, _) = dividing(&[]);
    let status = driver.refused(split(IterationId::new(7), 0, 0));
    assert_eq!((status.code, &*status.message), (Code::NotFound, "Iteration id 7 not found"));
}

#[test]
fn only_dynamic_sharding_has_splits() {
    let mut driver = Driver::new();
    let (job, _) = driver.reading(ShardingPolicy::Off);
    let status = driver.refused(split(driver.iteration(job, 0), 0, 0));
    assert_eq!(status.code, Code::FailedPrecondition);
    assert!(status.message.contains("Iteration 2000 has sharding policy OFF"), "{status}");
}

#[test]
fn a_collected_iteration_has_no_more_splits() {
    let config = rondo_core::dispatcher::Config {
        gc_dynamic_sharding_jobs: true,
        ..rondo_core::dispatcher::Config::default()
    };
    let mut driver = Driver::with(config);
    let (job, client) = driver.reading(ShardingPolicy::Dynamic);
    let iteration = driver.iteration(job, 0);
    assert_eq!(driver.split(iteration, 0, 0), Some(0));
    driver.release(client);
    driver.advance(Duration::from_secs(700));
    assert_eq!(driver.split(iteration, 0, 0), None);
}

#[test]
fn every_repetition_of_a_job_has_all_splits() {
    let mut driver = Driver::new();
    let (job, _) = driver.reading(ShardingPolicy::Dynamic);
    driver.join(job, 1);
    for repetition in [0, 1] {
        let iteration = driver.iteration(job, repetition);
        assert_eq!(pass(&mut driver, iteration, 0, 0), [0, 1, 2]);
    }
}
