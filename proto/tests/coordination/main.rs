//! Both dialects of the coordination service against encodings made by hand from the public tables
//! of field numbers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod agent;
mod answers;
mod hand;
mod refusals;
mod requests;
