//! Cluster resolvers: what they read, what they find, and what they refuse, whatever they are given.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod answers;
mod asked;
mod chain;
#[path = "../inputs/corpora.rs"]
mod corpora;
mod corpus;
mod documents;
mod exports;
mod host_lists;
mod jobs;
mod merging;
mod place;
mod placement;
mod places;
mod reading;
mod rondo;
mod services;
mod tf_config;
mod world;
