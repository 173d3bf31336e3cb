//! The rules of the house, held by a machine.
//!
//! Each rule is a function from what it looks at (a parsed file, a manifest, the whole tree) to
//! violations; [`check`] runs all of them over a checkout.

mod calls;
mod document;
mod fuzzing;
mod length;
mod manifest;
mod rooms;
mod source;
mod text;
mod tree;

use std::fmt;
use std::path::Path;

pub use length::Figures;

/// A broken rule at a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, relative to the root of the checkout.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub rule: String,
}

impl Violation {
    fn new(file: &str, line: usize, rule: impl Into<String>) -> Self {
        Self { file: file.into(), line, rule: rule.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

/// What a check of the whole tree found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Broken rules, by file and line.
    pub violations: Vec<Violation>,
    /// Files that near their limit, and the figures we hold ourselves to.
    pub notes: Vec<String>,
}

/// Checks the checkout at `root` against every rule.
///
/// # Panics
/// When a file cannot be read or is no Rust.
pub fn check(root: &Path) -> Findings {
    let texts = tree::texts(root);
    let sources = source::parse_all(&texts);
    let mut violations: Vec<Violation> = texts.iter().flat_map(text::check).collect();
    for source in &sources {
        violations.extend(length::check(source));
        violations.extend(calls::check(source));
        violations.extend(rooms::check(source));
    }
    violations.extend(manifest::check(&tree::manifests(&texts)));
    violations.extend(document::check(&texts));
    violations.extend(fuzzing::check(root, &texts));
    violations.sort();
    violations.dedup();
    Findings { violations, notes: length::notes(&sources) }
}
