//! What a relay asks again.

use std::collections::BTreeMap;
use std::mem::discriminant;

use rondo_core::coordination::{Method, Stamp};
use rondo_core::ids::CallId;
use rondo_core::status::Code;

use super::{Heard, Kept, Model};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Relay {
    acknowledged: u64,
    /// The methods and what they led to.
    results: BTreeMap<u64, (Asked, Heard)>,
}

/// Which method it was.
pub(crate) type Asked = std::mem::Discriminant<Method>;

impl Relay {
    fn acknowledge(&mut self, upto: u64) {
        self.acknowledged = self.acknowledged.max(upto);
        let upto = self.acknowledged;
        self.results.retain(|sequence, _| *sequence > upto);
    }
}

impl Kept {
    pub(super) fn note(&mut self, acknowledged: u64) {
        self.relay.get_or_insert_default().acknowledge(acknowledged);
    }

    pub(super) fn keep(&mut self, stamp: Stamp, asked: Asked, heard: Heard) {
        self.note(stamp.acknowledged);
        let relay = self.relay.get_or_insert_default();
        if stamp.sequence > relay.acknowledged {
            relay.results.insert(stamp.sequence, (asked, heard));
        }
    }
}

impl Model {
    /// Answers a call, as before if its relay asked before.
    pub(super) fn once(
        &mut self,
        call: CallId,
        method: &Method,
        stamp: Option<Stamp>,
    ) -> Option<Heard> {
        let stamp = stamp.filter(|_| changes_something(method));
        let Some(stamp) = stamp else {
            return self.answer(call, method, None);
        };
        if let Some(relay) = &self.kept.relay {
            if stamp.sequence <= relay.acknowledged {
                return Some(Heard::Refused(Code::FailedPrecondition));
            }
            if let Some((asked, heard)) = relay.results.get(&stamp.sequence) {
                let same = *asked == discriminant(method);
                return Some(if same {
                    heard.clone()
                } else {
                    Heard::Refused(Code::InvalidArgument)
                });
            }
        }
        let before = self.kept.clone();
        let heard = self.answer(call, method, Some(stamp));
        if let Some(heard) = &heard
            && self.kept != before
        {
            self.kept.keep(stamp, discriminant(method), heard.clone());
        }
        heard
    }
}

fn changes_something(method: &Method) -> bool {
    matches!(
        method,
        Method::ShutdownTask { .. }
            | Method::ResetTask { .. }
            | Method::ReportErrorToService { .. }
            | Method::Barrier { .. }
            | Method::CancelBarrier { .. }
            | Method::PutKeyValue { .. }
            | Method::IncrementKeyValue { .. }
            | Method::DeleteKeyValue { .. }
            | Method::GetAliveTasks { .. }
    )
}
