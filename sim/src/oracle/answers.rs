//! Every call is answered at most once, by an answer of its kind, while somebody waits for it; and
//! no more of them wait than the bounds allow.

use std::collections::BTreeMap;

use rondo_core::ids::CallId;
use rondo_core::limits::PARKED_CALLS_MAX;
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::{Oracle, Seen, Shadow, Verdict};
use crate::workload::kind::Kind;

#[derive(Default)]
pub(super) struct Answers {
    open: BTreeMap<CallId, Kind>,
    /// Calls that nobody waits for any more; their answers may be under way.
    given_up: BTreeMap<CallId, Kind>,
}

impl Oracle for Answers {
    fn name(&self) -> &'static str {
        "answers"
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { call, request, .. } => {
                self.open.insert(*call, Kind::of(request));
                if self.open.len() > PARKED_CALLS_MAX.saturating_mul(2) {
                    return Err(format!("{} calls wait at once", self.open.len()));
                }
            }
            Seen::Answered { call, answer, .. } => {
                let open = self.open.remove(call).or_else(|| self.given_up.remove(call));
                let Some(kind) = open else {
                    return Err(format!("call {call} was not waiting, and got {answer:?}"));
                };
                match answer {
                    Ok(reply) if !kind.fits(reply) => {
                        return Err(format!("call {call} is {kind}, and got {reply:?}"));
                    }
                    Err(status) if matches!(status.code, Code::Internal | Code::Unknown) => {
                        return Err(format!("call {call} ({kind}) got {status}"));
                    }
                    _ => {}
                }
            }
            Seen::GivenUp { call } => {
                self.given_up.extend(self.open.remove(call).map(|kind| (*call, kind)));
            }
            Seen::Died => {
                self.open.clear();
                self.given_up.clear();
            }
            _ => {}
        }
        Ok(())
    }
}
