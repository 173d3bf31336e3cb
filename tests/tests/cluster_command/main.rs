//! `rondo cluster` as a person meets it: under launchers, before APIs that fail, and for other programs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

mod apis;
mod authority;
mod bed;
mod google;
mod google_apis;
mod in_cluster;
mod kubernetes;
mod launchers;
mod official_client;
mod refusals;
mod watching;
mod watching_pods;
