//! The rendezvous: a tensor that is sent reaches the one receiver that it is for, whoever comes first,
//! and everybody who waits is told in the end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod both;
mod bounds;
#[path = "../inputs/corpora.rs"]
mod corpora;
mod corpus;
mod deferred;
mod devices;
mod dice;
#[path = "../inputs/drawing.rs"]
mod drawing;
mod fetches;
mod happening;
mod histories;
mod keys;
mod manager;
mod model;
mod reading;
mod requests;
mod slices;
mod story;
mod table;
mod times;
mod world;
