//! Every call is answered at most once, by an answer of its kind, while somebody waits for it, and no
//! later than what it has to tell is durable; and no more of them wait than the bounds allow.

use rondo_core::ids::{CallId, Lsn};
use rondo_core::limits::PARKED_CALLS_MAX;
use rondo_core::status::Code;
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};
use crate::workload::kind::Kind;

/// Calls under way, with the newest record there was after the node had taken each.
#[derive(Default)]
pub(super) struct Answers {
    open: CallMap<(Kind, Option<Lsn>)>,
    /// Calls that nobody waits for any more; their answers may be under way.
    given_up: CallMap<Kind>,
    /// Calls to the coordination service that were not answered, whether anybody waits or not.
    coordination: CallMap<Kind>,
}

impl Answers {
    fn taken(&mut self, call: CallId, kind: Kind, shadow: &Shadow) -> Verdict {
        for (_, newest) in self.open.values_mut() {
            newest.get_or_insert(shadow.last());
        }
        self.open.insert(call, (kind, None));
        match self.open.len() > PARKED_CALLS_MAX.saturating_mul(2) {
            true => Err(format!("{} calls wait at once", self.open.len())),
            false => Ok(()),
        }
    }

    /// When something more becomes durable, all that could be told before has been. Only removals
    /// wait for something else.
    fn durable(&self, shadow: &Shadow) -> Verdict {
        let told = |(kind, newest): &(Kind, Option<Lsn>)| {
            *kind != Kind::MaybeRemoveTask
                && newest.is_some_and(|newest| newest <= shadow.durable())
        };
        if self.open.values().any(|(_, newest)| newest.is_some()) {
            reached(Check::AnswersDurable);
        }
        match self.open.iter().find(|(_, waits)| told(waits)) {
            Some((call, (kind, _))) => Err(format!("call {call} ({kind}) was never answered")),
            None => Ok(()),
        }
    }
}

impl Oracle for Answers {
    fn name(&self) -> &'static str {
        "answers"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Durable,
            SeenKind::Answered,
            SeenKind::Asked,
            SeenKind::Told,
            SeenKind::GivenUp,
            SeenKind::Died,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { call, request, .. } => {
                return self.taken(*call, Kind::of(request), shadow);
            }
            Seen::Durable(_) => return self.durable(shadow),
            Seen::Answered { call, answer, .. } => {
                let open = self.open.remove(call).map(|(kind, _)| kind);
                let open = open.or_else(|| self.given_up.remove(call));
                let Some(kind) = open else {
                    return Err(format!("call {call} was not waiting, and got {answer:?}"));
                };
                reached(Check::AnswersDispatcher);
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
            Seen::Asked { call, asked, .. } => {
                self.coordination.insert(*call, Kind::of_method(&asked.method));
            }
            Seen::Told { call, answer, .. } => {
                let Some(kind) = self.coordination.remove(call) else {
                    return Err(format!("call {call} was not waiting, and got {answer:?}"));
                };
                reached(Check::AnswersCoordination);
                if let Ok(reply) = answer
                    && !kind.fits_coordination(reply)
                {
                    return Err(format!("call {call} is {kind}, and got {reply:?}"));
                }
            }
            Seen::GivenUp { call } => {
                self.given_up.extend(self.open.remove(call).map(|(kind, _)| (*call, kind)));
            }
            Seen::Died => {
                self.open.clear();
                self.given_up.clear();
                self.coordination.clear();
            }
            _ => {}
        }
        Ok(())
    }
}
