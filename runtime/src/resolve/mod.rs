//! Clusters found: what `rondo_core::cluster` wants to know of the outside is found out here.
//!
//! A [`Finder`] drives one call of a resolver, or of detection, to its end: it reads files, sends requests,
//! looks names up and counts accelerators, all that is asked at once together, within one deadline. And it
//! follows watches, which tell when to look again.

mod coordination;
mod finder;
mod following;
mod gpus;
mod http;
mod machine;
mod names;
mod place;
mod srv;

use std::path::PathBuf;
use std::time::Duration;

pub use coordination::{Announced, announce};
pub use finder::Finder;
pub use place::{accelerators, detect, find_place, may_pass, nothing_tells};
use rondo_core::cluster::Environment;

/// How a cluster is found, and the bounds of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Below which directory files and devices are looked for: `/`, or the root of another machine's files.
    pub root: PathBuf,
    /// How long one call may take, in all.
    pub timeout: Duration,
    /// How long one file, name or request may take.
    pub question_timeout: Duration,
    /// How many are found out at once.
    pub at_once_max: usize,
    /// Most bytes that the answers of one call may have together.
    pub answers_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/"),
            timeout: Duration::from_secs(10),
            question_timeout: Duration::from_secs(3),
            at_once_max: 32,
            answers_bytes_max: 256 << 20,
        }
    }
}

/// The process's environment as it is now. Variables that are no UTF-8 are left out: no source has such.
pub fn environment() -> Environment {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}
