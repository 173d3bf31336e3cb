//! Where the journal's segments lie, and what they are called.

use rondo_core::ids::Lsn;

/// Where segments lie.
pub(super) const DIR: &str = "journal";

/// The path of the segment that begins with a record.
pub(super) fn path(first: Lsn) -> String {
    format!("{DIR}/{:020}", first.get())
}

/// The record that a segment of this name begins with.
pub(super) fn first_of(name: &str) -> Option<Lsn> {
    name.parse().ok().map(Lsn::new)
}
