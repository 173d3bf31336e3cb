//! Pipelines over real files: what a dataset of Rondo's own is, and how its records are read.
#![warn(missing_docs)]
