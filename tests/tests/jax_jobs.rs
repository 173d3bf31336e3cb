//! Unmodified JAX jobs on `rondo serve`: they end with the right sums, again and again on the same
//! server, which JAX's own service cannot do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use rondo_tests::jax::{self, Job, Release, right_sums};
use rondo_tests::server::{Options, Server, run};

const PROCESSES: usize = 2;
const STEPS: usize = 3;

#[test]
fn two_jobs_in_dialect_x() {
    two_jobs(Release::DialectX, "segment");
}

#[test]
fn two_jobs_in_dialect_t() {
    two_jobs(Release::DialectT, "sled");
}

fn two_jobs(release: Release, store: &'static str) {
    let Some(python) = jax::python(release) else {
        return;
    };
    let mut server = Server::start(&Options::store(store).flag(&format!("--tasks={PROCESSES}")));
    for _ in 0..2 {
        let job = Job::start(python, &server.address(), PROCESSES, STEPS, 0);
        for step in 0..STEPS {
            assert_eq!(job.sums_of(step), right_sums(PROCESSES, step), "step {step}");
        }
        job.end();
    }
    let status = run(&["status", "--server", &server.address(), "--section=namespaces", "-o=json"]);
    let status: serde_json::Value = serde_json::from_str(&status.log).expect("JSON");
    assert_eq!(status["coordination"]["namespaces"][0]["life"], 2, "{status}");
    assert_eq!(server.terminate().status.code(), Some(0));
}
