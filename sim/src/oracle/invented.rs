//! Nothing is invented: a recovered state is that of the first records that were written, up to
//! some record, and of no other.

use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};

pub(super) struct Invented;

impl Oracle for Invented {
    fn name(&self) -> &'static str {
        "invented"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[SeenKind::Recovered]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Recovered { state, .. } => shadow.check_prefix(state),
            _ => Ok(()),
        }
    }
}
