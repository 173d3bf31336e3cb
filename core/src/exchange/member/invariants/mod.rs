//! What holds of a process between two steps of it.

use super::machine::Member;
use crate::invariant::{Invariant, Violation, check_each};

/// Checks a process.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check(member: &Member) -> Result<(), Violation> {
    check_each(MEMBER_INVARIANTS, member)
}

/// The invariants of a process.
pub(crate) const MEMBER_INVARIANTS: &[Invariant<Member>] = &[];
