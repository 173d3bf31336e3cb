//! Why a cluster, or a part of it, cannot be told.

use alloc::format;
use alloc::string::String;
use core::fmt;

/// Characters of a foreign text that a message quotes at most.
const QUOTED_MAX: usize = 120;

/// The kind of failure, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// What a resolver stands on is not there: a variable, a file, an option.
    NotPresent,
    /// It is there and makes no sense.
    Malformed,
    /// Two things that must agree do not.
    Conflict,
    /// Which task runs where cannot be told from here.
    PlacementUnknown,
    /// A task is not up yet, or no more.
    NotReady,
    /// Who was asked did not answer, or the name does not resolve.
    Unreachable,
    /// Who was asked refused.
    Forbidden,
    /// The cluster has no such job or task.
    NoSuchTask,
    /// A bound was hit.
    TooLarge,
    /// The resolver does not do that.
    Unsupported,
}

impl Fault {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotPresent => "not_present",
            Self::Malformed => "malformed",
            Self::Conflict => "conflict",
            Self::PlacementUnknown => "placement_unknown",
            Self::NotReady => "not_ready",
            Self::Unreachable => "unreachable",
            Self::Forbidden => "forbidden",
            Self::NoSuchTask => "no_such_task",
            Self::TooLarge => "too_large",
            Self::Unsupported => "unsupported",
        }
    }
}

/// A failure: its kind, what it is about (a variable, a field, an address), and the words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind.
    pub fault: Fault,
    /// The variable, field, file or address at fault, such as `TF_CONFIG` or `SLURM_PROCID`.
    pub about: String,
    /// What is wrong, with the offending text, and what would be right.
    pub text: String,
}

impl Error {
    /// A failure of some kind.
    pub fn new(fault: Fault, about: impl Into<String>, text: impl Into<String>) -> Self {
        Self { fault, about: about.into(), text: text.into() }
    }

    pub(super) fn missing(variable: &str, wanted: &str) -> Self {
        Self::new(Fault::NotPresent, variable, format!("is not set: {wanted}"))
    }

    /// `found` is quoted, and cut where it is long.
    pub(super) fn malformed(about: impl Into<String>, found: &str, wanted: &str) -> Self {
        Self::new(Fault::Malformed, about, format!("{} {wanted}", quoted(found)))
    }

    pub(super) fn no_job<'a>(job: &str, jobs: impl Iterator<Item = &'a str>) -> Self {
        let known = listed(jobs);
        Self::new(
            Fault::NoSuchTask,
            quoted(job),
            format!("is no job of the cluster: it has {known}"),
        )
    }

    /// As another one, of what the server at this URL answered: nobody's setting is wrong then.
    pub(super) fn answered_by(mut self, url: &str) -> Self {
        self.about = format!("{url}: {}", self.about);
        self
    }

    /// As another one, about the member `name` of what it was about.
    pub(super) fn within(mut self, source: &str) -> Self {
        self.about = match self.about.is_empty() {
            true => source.into(),
            false => format!("{source}.{}", self.about),
        };
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.about, self.text)
    }
}

impl core::error::Error for Error {}

/// A foreign text in quotes, cut where it is long.
pub(super) fn quoted(text: &str) -> String {
    quoted_upto(text, QUOTED_MAX)
}

/// A foreign text in quotes, cut where it has more characters than these.
pub(super) fn quoted_upto(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        None => format!("{text:?}"),
        Some((at, _)) => {
            let begin = text.get(..at).unwrap_or_default();
            format!("{begin:?}… ({} bytes)", text.len())
        }
    }
}

/// A few names in a row.
pub(super) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for (index, name) in names.enumerate() {
        if index == 8 {
            out.push_str(", …");
            break;
        }
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(&quoted(name));
    }
    if out.is_empty() { "none".into() } else { out }
}
