//! Unmodified JAX jobs behind `rondo relay`: they live through `kill -9` of `rondo serve` and end
//! with the right sums, where JAX's own service takes them with it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::thread;
use std::time::Duration;

use rondo_tests::jax::{self, Job, Release, right_sums};
use rondo_tests::relay::Relay;
use rondo_tests::server::{Options, Server, run};

const PROCESSES: usize = 2;
const STEPS: usize = 4;
/// Between two steps, so that the server dies while the job is under way.
const PAUSE_MS: u64 = 500;
/// How long the server stays away.
const AWAY: Duration = Duration::from_secs(2);

#[test]
fn a_job_in_dialect_x_outlives_its_server() {
    a_job_outlives_its_server(Release::DialectX, "segment");
}

#[test]
fn a_job_in_dialect_t_outlives_its_server() {
    a_job_outlives_its_server(Release::DialectT, "sled");
}

fn a_job_outlives_its_server(release: Release, store: &'static str) {
    let Some(python) = jax::python(release) else {
        return;
    };
    let mut server = Server::start(&Options::store(store).flag(&format!("--tasks={PROCESSES}")));
    let mut relay = Relay::start(&server.address());
    let job = Job::start(python, &relay.address(), PROCESSES, STEPS, PAUSE_MS);
    job.begun();
    // They have registered, and tell one another about their devices next.
    bounce(&mut server);
    for step in 0..STEPS {
        assert_eq!(job.sums_of(step), right_sums(PROCESSES, step), "step {step}");
        if step == 1 {
            bounce(&mut server);
        }
    }
    job.end();
    let status = run(&["status", "--server", &server.address(), "--section=namespaces", "-o=json"]);
    let status: serde_json::Value = serde_json::from_str(&status.log).expect("JSON");
    assert_eq!(status["coordination"]["namespaces"][0]["life"], 1, "{status}");
    assert_eq!(relay.terminate().status.code(), Some(0));
    assert_eq!(server.terminate().status.code(), Some(0));
}

/// Kills the server, and starts it again after a while.
fn bounce(server: &mut Server) {
    server.kill();
    thread::sleep(AWAY);
    server.start_again();
}
