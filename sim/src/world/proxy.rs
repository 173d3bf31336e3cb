//! A proxy between the callers and the dispatcher: it answers some calls in the server's place, before
//! or after they took effect, with any status.

use rondo_core::status::{Code, Status};

use super::World;
use crate::fault::{Fault, PROXY_ANSWERS};

/// What proxies and networks answer: gRPC's own mapping of HTTP statuses, and what gateways make up.
const CODES: [Code; 9] = [
    Code::Unknown,
    Code::Internal,
    Code::DeadlineExceeded,
    Code::ResourceExhausted,
    Code::Unimplemented,
    Code::PermissionDenied,
    Code::Unauthenticated,
    Code::Cancelled,
    Code::Aborted,
];
/// Of so many times that its strength says, it answers once.
const DIVISOR: u32 = 20;

impl World {
    /// What a proxy answers to a call, if it does.
    pub(super) fn proxy_answers(&mut self, lane: u32) -> Option<Status> {
        if !self.faults_on() || !self.chance(Fault::ProxyAnswers, DIVISOR) {
            return None;
        }
        let code = self.call_stream.pick(&CODES).copied().unwrap_or(Code::Unknown);
        self.struck(Fault::ProxyAnswers, lane, || format!("{code:?}"));
        Some(Status::new(code, PROXY_ANSWERS))
    }
}
