//! The dispatcher recalls splits for readers by split only if it knows which worker has them.

use super::*;

/// Unnamed workers took splits 0 and 1 for a consumer by element, which left. A reader has read the rest.
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

/// The worker lives and has the splits. TensorFlow's workers stay unnamed where their addresses tell nothing.
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
