//! Unmodified JAX jobs on `rondo serve`: they end with the right sums, again and again on the same
//! server, which JAX's own service cannot do.

use rondo_tests::jax::{Release, python, two_jobs_end_well};
use rondo_tests::server::Options;

#[test]
fn two_jobs_in_dialect_x() {
    two_jobs(Release::DialectX, "segment");
}

#[test]
fn two_jobs_in_dialect_t() {
    two_jobs(Release::DialectT, "sled");
}

fn two_jobs(release: Release, store: &'static str) {
    if let Some(python) = python(release) {
        two_jobs_end_well(python, &Options::store(store));
    }
}
