//! A call that is refused leaves the dispatcher as it is: what to compare for that.

use rondo_core::control::{Effect, Effects, Input, Node, Request};
use rondo_core::dispatcher;
use rondo_core::ids::CallId;
use rondo_core::status::Code;
use rondo_core::time::Time;

use crate::trace::TraceHash;

/// What a step made of its call.
#[derive(Default)]
pub(super) struct Refusal {
    /// The call, if it was refused.
    call: Option<CallId>,
    has_records: bool,
}

impl Refusal {
    /// Sees an effect of the step that was taken for a call.
    pub(super) fn see(&mut self, effect: &Effect, during: Option<CallId>) {
        match effect {
            Effect::Append { .. } => self.has_records = true,
            // A node that stops, or whose journal takes no records, may have heard a call all the same.
            Effect::Reply { call, result: Err(status) }
                if Some(*call) == during
                    && !matches!(status.code, Code::Unavailable | Code::Cancelled) =>
            {
                self.call = Some(*call);
            }
            _ => {}
        }
    }

    /// The call, if it was refused and left no record.
    pub(super) fn of_nothing(&self) -> Option<CallId> {
        self.call.filter(|_| !self.has_records)
    }
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

/// A number for all that the node's dispatcher keeps when nothing but time comes to it; none where
/// something is due.
pub(super) fn idle_twin(node: &Node, now: Time) -> Option<u64> {
    if node.deadline().is_some_and(|(at, _)| at <= now) {
        return None;
    }
    let (mut twin, mut effects) = (node.clone(), Effects::new());
    twin.step(now, Input::Tick, &mut effects);
    effects.is_empty().then(|| fingerprint(twin.dispatcher()))
}

/// A number for all that a dispatcher keeps.
pub(super) fn fingerprint(dispatcher: &dispatcher::Dispatcher) -> u64 {
    struct Print(TraceHash);
    impl std::fmt::Write for Print {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.add_bytes(text.as_bytes());
            Ok(())
        }
    }
    let mut print = Print(TraceHash::default());
    // Hashing cannot fail.
    let _ = std::fmt::Write::write_fmt(&mut print, format_args!("{dispatcher:?}"));
    print.0.value()
}
