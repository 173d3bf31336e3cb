//! Real TensorFlow clients read through the service with workers in processes of their own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use rondo_core::limits::IDS_ABOVE_MAX;
use rondo_tests::server::{Options, Server};
use rondo_tests::tensorflow::{self, Worker};

const WORKERS: usize = 3;

#[test]
fn every_way_of_reading_works() {
    let Some(python) = tensorflow::python() else {
        return;
    };
    // The highest ids that may be drawn: TensorFlow's workers keep task ids in 32 bits at one place.
    let highest = format!("--ids-above={IDS_ABOVE_MAX}");
    let server = Server::start(&Options::store("segment").flag(&highest));
    let _workers = Worker::start(python, &server.address(), WORKERS);
    let arguments = [format!("--dispatcher={}", server.address()), format!("--workers={WORKERS}")];
    let log = tensorflow::run_to_success(python, "reading_modes.py", &arguments);
    println!("{log}");
}
