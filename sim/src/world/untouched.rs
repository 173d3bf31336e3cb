//! A call that is refused leaves the dispatcher as it is: what to compare for that.

use rondo_core::control::{Effect, Effects, Input, Node, Request};
use rondo_core::dispatcher;
use rondo_core::ids::CallId;
use rondo_core::status::Code;
use rondo_core::time::Time;

use crate::trace::{TraceHash, of_debug};

/// The call of a step that was refused and left no record.
pub(super) fn refused_for_nothing(effects: &Effects, during: Option<CallId>) -> Option<CallId> {
    let call = during?;
    let is_refusal = |effect: &Effect| match effect {
        // A node that stops, or whose journal takes no records, may have heard a call all the same.
        Effect::Reply { call: of, result: Err(status) } => {
            *of == call && !matches!(status.code, Code::Unavailable | Code::Cancelled)
        }
        _ => false,
    };
    let effects = effects.as_slice();
    let has_records = effects.iter().any(|effect| matches!(effect, Effect::Append { .. }));
    (!has_records && effects.iter().any(is_refusal)).then_some(call)
}

/// Whether an input is a call that leaves the dispatcher as it is when it is refused. A worker or client
/// that beats, or asks for splits to hold, is heard whatever the answer.
pub(super) const fn leaves_no_trace_refused(input: &Input) -> bool {
    match input {
        Input::Request { request: Request::Dispatcher(request), .. } => {
            use dispatcher::Request as R;
            !matches!(request, R::WorkerHeartbeat(_) | R::ClientHeartbeat(_) | R::HoldSplits(_))
        }
        _ => false,
    }
}

/// Whether the dispatcher keeps something else after a refusal than when nothing but time comes to it;
/// unknown where something was due.
pub(super) fn changed(before: Node, after: &Node, now: Time) -> Option<bool> {
    if before.deadline().is_some_and(|(at, _)| at <= now) {
        return None;
    }
    let (mut twin, mut effects) = (before, Effects::new());
    twin.step(now, Input::Tick, &mut effects);
    effects.is_empty().then(|| fingerprint(twin.dispatcher()) != fingerprint(after.dispatcher()))
}

/// A number for all that a dispatcher keeps.
fn fingerprint(dispatcher: &dispatcher::Dispatcher) -> u64 {
    let mut hash = TraceHash::default();
    of_debug(dispatcher, &mut hash);
    hash.value()
}
