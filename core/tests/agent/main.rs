//! The agent: its states, its signs of life, its barriers, its watches.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod barriers;
#[path = "../inputs/corpora.rs"]
mod corpora;
mod dice;
#[path = "../inputs/drawing.rs"]
mod drawing;
mod happening;
mod histories;
mod living;
mod states;
mod story;
mod watches;
