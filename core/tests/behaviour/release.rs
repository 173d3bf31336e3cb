//! Clients that leave.

use rondo_core::dispatcher::{Request, ShardingPolicy};
use rondo_core::ids::ClientId;
use rondo_core::status::Code;

use crate::driver::Driver;
use crate::world::client;

#[test]
fn a_released_client_is_unknown() {
    let mut driver = Driver::new();
    let (_, id) = driver.reading(ShardingPolicy::Off);
    driver.release(id);
    assert_eq!(driver.refused(client(id)).code, Code::NotFound);
    assert_eq!(driver.refused(Request::ReleaseClient { client: id }).code, Code::NotFound);
}

#[test]
fn a_release_outlives_a_restart() {
    let mut driver = Driver::new();
    let (job, id) = driver.reading(ShardingPolicy::Off);
    driver.release(id);
    driver.restart();
    assert_eq!(driver.refused(client(id)).code, Code::NotFound);
    assert_eq!(driver.join(job, 0), ClientId::new(3001), "ids are not given twice");
}

#[test]
fn the_time_of_the_last_release_is_kept() {
    let mut driver = Driver::new();
    let (job, id) = driver.reading(ShardingPolicy::Off);
    let at = driver.now;
    driver.release(id);
    let iteration = driver.iteration(job, 0);
    assert_eq!(driver.state().iterations()[&iteration].last_release, Some(at));
}
