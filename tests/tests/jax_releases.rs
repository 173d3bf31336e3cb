//! Each minor release of JAX that docs/compatibility.md names, on `rondo serve` directly and behind
//! `rondo relay` with a server that dies. `.ci/night` asks for it.

#![allow(clippy::print_stdout, reason = "what a failed test has printed says which release it was")]

use rondo_tests::jax::{RELEASES, a_job_outlives_its_server, python_of, two_jobs_end_well};
use rondo_tests::server::Options;

#[test]
fn jobs_of_every_release_end_well_and_outlive_the_server() {
    // Processes of releases up to 0.6 send a heartbeat every 50 s, whatever they are told.
    let options = Options::store("segment").flag("--heartbeat-timeout=100s");
    for release in RELEASES {
        let Some(python) = python_of(release) else {
            continue;
        };
        println!("JAX {}", release.0);
        two_jobs_end_well(&python, &options);
        a_job_outlives_its_server(&python, &options);
    }
}
