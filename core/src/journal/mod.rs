//! Recovery: what the frames found in a journal mean.
//!
//! A journal is a sequence of commit groups. Each carries the positions of its records and how far
//! the journal was known to be durable when the group was written ([`GroupHeader`]). A reader
//! hands over what it finds, in order, good and bad ([`Scan`]); [`Verdict`] says what to do.
//!
//! The rule: a damaged or missing group is an unfinished write, and is cut, unless something after
//! it proves that it once was durable. Then an acknowledged record is lost, and the only honest
//! thing is to refuse to start.

mod scan;
#[cfg(test)]
mod scan_tests;

pub use scan::{End, GroupHeader, Noted, RecoverError, Scan, Verdict};
