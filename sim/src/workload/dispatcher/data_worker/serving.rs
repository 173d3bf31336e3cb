//! Whoever asks a data worker for elements, and how those leave.

use bytes::Bytes;
use rondo_core::ids::{CallId, TaskId};
use rondo_core::reader::Fetched;
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;
use rondo_core::worker::{Answer, Ask, Input};
use rondo_proto::convert;

use super::DataWorker;
use crate::mark::Mark;
use crate::workload::actor::{Act, ActorId, With};
use crate::workload::dispatcher::element_bytes::{asked, fetched, identified};
use crate::workload::dispatcher::ms;
use crate::workload::elements::{ElementId, OfElements};

/// Who waits for an element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) from: ActorId,
    pub(super) token: u64,
    /// The task it asks for an element of.
    pub(super) task: Option<TaskId>,
    pub(super) round: Option<(i64, i64)>,
}

/// An element that is about to leave.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    pub(super) at: Time,
    call: CallId,
    element: Bytes,
}

impl DataWorker {
    /// Elements leave whose time has come.
    pub(super) fn let_leave(&mut self, now: Time, with: &mut With<'_>) {
        while self.leaving.front().is_some_and(|leaving| leaving.at <= now) {
            let Some(leaving) = self.leaving.pop_front() else {
                return;
            };
            let Leaving { call, element, .. } = leaving;
            if let Some(asker) = self.asks.remove(&call) {
                if let Some(id) = id_of(&element) {
                    with.acts.push(Act::Elements(OfElements::Left(id, asker.round)));
                }
                serve(asker, Ok(element), with);
            }
            self.step(now, Input::Left { call }, with);
        }
    }

    pub(super) fn answer(
        &mut self,
        now: Time,
        call: CallId,
        result: Result<Answer, Status>,
        with: &mut With<'_>,
    ) {
        if let Some(reads) = self.reads.remove(&call) {
            return reads.answer(&result, with);
        }
        let is_end = matches!(result, Ok(Answer::End));
        if let Err(text) = self.promises.answers(call, result.as_ref().err()) {
            with.acts.push(Act::Violated(text));
        }
        let bytes = match result {
            Ok(Answer::Element(element)) => {
                let leave_ms = with.swarm.elements.map_or(0, |shape| shape.leave_ms);
                let at = now.after(ms(with.stream.below(leave_ms.saturating_add(1))));
                let at = self.leaving.back().map_or(at, |last| last.at.max(at));
                self.leaving.push_back(Leaving { at, call, element });
                return;
            }
            Ok(Answer::End) => Ok(convert::encode_end()),
            Ok(Answer::Skip) => Ok(convert::encode_skip()),
            Ok(_) => Ok(convert::encode_nothing()),
            Err(status) => Err(status),
        };
        let Some(asker) = self.asks.remove(&call) else {
            return;
        };
        if let (true, Some(task), None) = (is_end, asker.task, asker.round) {
            with.acts.push(Act::Elements(OfElements::ToldEnd(self.now_living(), task)));
        }
        serve(asker, bytes, with);
    }

    pub(super) fn asked(
        &mut self,
        now: Time,
        (from, token): (ActorId, u64),
        message: &Bytes,
        with: &mut With<'_>,
    ) {
        let refused = match (asked(message), &self.machine) {
            (_, None) => Status::new(Code::Unavailable, "connection refused"),
            (Err(status), _) => status,
            (Ok(ask), Some(_)) => {
                let (task, round) = match &ask {
                    Ask::Element(ask) => (Some(ask.task), ask.round),
                    _ => (None, None),
                };
                let call = self.name_call();
                self.asks.insert(call, Asker { from, token, task, round });
                self.most_asks = self.most_asks.max(self.asks.len() as u64);
                let client = from.connection();
                return self.step(now, Input::Asked { call, client, ask }, with);
            }
        };
        serve(Asker { from, token, task: None, round: None }, Err(refused), with);
    }

    /// Nobody waits for an element any more.
    pub(super) fn withdrawn(
        &mut self,
        now: Time,
        (from, token): (ActorId, u64),
        with: &mut With<'_>,
    ) {
        let mut asks = self.asks.iter();
        let of = asks.find(|(_, asker)| (asker.from, asker.token) == (from, token));
        let Some(call) = of.map(|(call, _)| *call) else {
            return;
        };
        self.asks.remove(&call);
        if let Some(at) = self.leaving.iter().position(|leaving| leaving.call == call)
            && let Some(leaving) = self.leaving.remove(at)
        {
            with.tally.mark(Mark::ElementPutBack);
            if let Some(id) = id_of(&leaving.element) {
                with.acts.push(Act::Elements(OfElements::PutBack(id)));
            }
        }
        self.step(now, Input::Cancel { call }, with);
    }
}

/// Answers whoever waits.
pub(super) fn serve(asker: Asker, answer: Result<Bytes, Status>, with: &mut With<'_>) {
    with.acts.push(Act::Serve { to: asker.from, token: asker.token, answer });
}

/// Who an encoded element is.
fn id_of(element: &Bytes) -> Option<ElementId> {
    match fetched(element).ok()? {
        Fetched::Element(element) => identified(&element),
        Fetched::End | Fetched::Skip => None,
    }
}
