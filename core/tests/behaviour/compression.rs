//! Switching compression off at run time.

use rondo_core::dispatcher::{Compression, Reply, Request};
use rondo_core::ids::DatasetId;

use crate::driver::Driver;
use crate::world::dataset;

fn ask(driver: &mut Driver, dataset: &DatasetId, disable: bool) -> Option<bool> {
    let dataset = dataset.clone();
    match driver.ask(Request::DisableCompression { dataset, disable }) {
        Ok(Reply::Compression(decision)) => decision,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_wish_decides_for_all_after_it() {
    for first in [true, false] {
        let mut driver = Driver::new();
        let id = driver.register(dataset(&[]));
        assert_eq!(ask(&mut driver, &id, first), Some(first));
        assert_eq!(ask(&mut driver, &id, !first), Some(first));
    }
}

#[test]
fn the_decision_outlives_a_restart() {
    let mut driver = Driver::new();
    let id = driver.register(dataset(&[]));
    ask(&mut driver, &id, true);
    driver.restart();
    assert_eq!(ask(&mut driver, &id, false), Some(true));
}

#[test]
fn an_uncompressed_dataset_has_nothing_to_decide() {
    let mut driver = Driver::new();
    let mut request = dataset(&[]);
    request.metadata.compression = Compression::Off;
    let id = driver.register(request);
    assert_eq!(ask(&mut driver, &id, true), None);
    assert_eq!(driver.state().datasets()[&id].compression_disabled, None);
}
