//! What workers took is recalled for readers by split only where it is known who has it.

use super::*;

/// A consumer by element had unnamed workers take splits 0 and 1, and left; a reader has read the others.
fn left_to_unnamed_workers(config: Config) -> (Driver, ClientId, IterationId) {
    let (mut driver, job, consumer) = reading_with(config, 4);
    let iteration = driver.iteration(job, 0);
    driver.client(consumer);
    assert_eq!([(); 2].map(|()| driver.split(iteration, 0, 0)), [Some(0), Some(1)]);
    driver.advance(Duration::from_secs(1));
    driver.release(consumer);
    let reader = driver.join(job, 0);
    driver.places(hold(reader, 9, &[]));
    assert!(driver.held(hold(reader, 9, &finished(2..4))).with_workers);
    (driver, reader, iteration)
}

/// As with TensorFlow's workers where their addresses tell nothing. The worker lives and has the splits.
#[test]
fn a_reader_waits_for_splits_of_which_nobody_knows_who_has_them() {
    for reissue_lost_splits in [false, true] {
        let config = Config { reissue_lost_splits, ..Config::default() };
        let (mut driver, reader, iteration) = left_to_unnamed_workers(config);
        for _ in 0..600 {
            driver.advance(Duration::from_secs(1));
            let known = driver.state().worker_at(WORKER).unwrap();
            let tasks: Vec<_> = known.tasks.iter().copied().collect();
            driver.worker(WORKER, &tasks);
            driver.client(reader);
        }
        let held = driver.held(hold(reader, 9, &[]));
        let splits = &driver.state().iterations()[&iteration].splits;
        assert!(held.with_workers && !held.finished, "{held:?}, {splits:?}");
    }
}
