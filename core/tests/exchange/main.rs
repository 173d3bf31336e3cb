//! The exchange: what a worker asks is answered by each server from what it pushed, once; a batch has one
//! unit of each worker; nothing is overwritten while it is read; everybody is told in the end.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod answers;
mod batches;
mod bed;
#[path = "../inputs/corpora.rs"]
mod corpora;
mod corpus;
mod dice;
#[path = "../inputs/drawing.rs"]
mod drawing;
mod greetings;
mod groups;
mod happening;
mod histories;
mod losses;
mod net;
mod requests;
mod slots;
mod waits;
mod words;
