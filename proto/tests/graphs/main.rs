//! Graph reading against what TensorFlow's own dispatcher did with the same bytes (`recorded/`,
//! made by `generate.py`), and against bytes that no dispatcher should ever see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod build;
mod cleaning;
mod garbage;
mod large;
mod own;
mod plans;
mod recorded;
mod refusals;
mod structures;
