//! Unmodified JAX jobs behind `rondo relay`: they live through `kill -9` of `rondo serve` and end
//! with the right sums, where JAX's own service takes them with it.

use rondo_tests::jax::{Release, a_job_outlives_its_server, python};
use rondo_tests::server::Options;

#[test]
fn a_job_in_dialect_x_outlives_its_server() {
    outlives(Release::DialectX, "segment");
}

#[test]
fn a_job_in_dialect_t_outlives_its_server() {
    outlives(Release::DialectT, "sled");
}

fn outlives(release: Release, store: &'static str) {
    if let Some(python) = python(release) {
        a_job_outlives_its_server(python, &Options::store(store));
    }
}
