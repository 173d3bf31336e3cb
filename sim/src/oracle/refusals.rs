//! Nothing for nothing: a call to the dispatcher that is refused changes nothing. It leaves no record,
//! and, where that is looked at, nothing in the dispatcher's memory.
//!
//! Excused are calls that a node refuses because it stops, or because the journal takes no records.

use std::collections::BTreeMap;

use rondo_core::control::Record;
use rondo_core::ids::{CallId, Lsn};
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::checks::{Check, reached};

#[derive(Default)]
pub(super) struct Refusals {
    /// The first record that was written for each call under way.
    written: BTreeMap<CallId, Lsn>,
}

impl Oracle for Refusals {
    fn name(&self) -> &'static str {
        "nothing-for-nothing"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Answered,
            SeenKind::Refused,
            SeenKind::GivenUp,
            SeenKind::Died,
            SeenKind::DispatcherRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Recorded { lsn, record: Record::Dispatcher(_), during: Some(call) } => {
                self.written.entry(*call).or_insert(*lsn);
            }
            Seen::Answered { call, answer, .. } => {
                let written = self.written.remove(call);
                let Err(status) = answer else {
                    return Ok(());
                };
                if matches!(status.code, Code::Unavailable | Code::Cancelled) {
                    return Ok(());
                }
                reached(Check::RefusedWithoutRecord);
                if let Some(lsn) = written {
                    return Err(format!("call {call} left record {lsn}, and got {status}"));
                }
            }
            Seen::Refused { call, changed } => {
                reached(Check::RefusedUnchanged);
                if *changed {
                    return Err(format!("call {call} was refused, and changed the dispatcher"));
                }
            }
            Seen::GivenUp { call } => drop(self.written.remove(call)),
            Seen::Died => self.written.clear(),
            _ => {}
        }
        Ok(())
    }
}
