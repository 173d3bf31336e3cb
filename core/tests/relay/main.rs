//! The relay: what its clients notice of the server's absences, and what they do not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bounds;
#[path = "../inputs/corpora.rs"]
mod corpora;
mod corpus;
mod dice;
#[path = "../inputs/drawing.rs"]
mod drawing;
mod gaps;
mod happening;
mod histories;
mod server;
mod story;
mod trials;
mod world;
