//! The coordination service's behaviour, seen from outside: requests in, answers out, through a node
//! whose journal, clock and crashes the tests hold in their hands.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod both;
mod dice;
#[path = "../inputs/drawing.rs"]
mod drawing;
mod driver;
mod model;
mod world;

mod barriers;
mod bounds;
#[path = "../inputs/corpora.rs"]
mod corpora;
mod corpus;
mod errors;
mod histories;
mod hold_ups;
mod keys;
mod larger_jobs;
mod lives;
mod observed;
mod processes;
mod progress;
mod registration;
mod relays;
mod restarts;
mod silent_relays;
mod watches;
