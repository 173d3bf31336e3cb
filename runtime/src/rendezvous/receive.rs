//! A receive under way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rondo_core::element::Tensor;
use rondo_core::ids::CallId;
use rondo_core::rendezvous::Delivery;
use rondo_core::status::{Code, Status};
use tokio::sync::oneshot;

use super::state::{Asked, Outcome, Shared};

/// A call that was made: a future of its answer. Dropping it cancels exactly this call. What was handed
/// to it before goes with it.
pub(super) struct Waiting {
    shared: Arc<Shared>,
    state: State,
}

enum State {
    Answered(Option<Outcome>),
    Waits(CallId, oneshot::Receiver<Outcome>),
}

impl Waiting {
    pub(super) fn of(shared: &Arc<Shared>, asked: Asked) -> Self {
        let state = match asked {
            Asked::Answered(outcome) => State::Answered(Some(outcome)),
            Asked::Waits(call, answered) => State::Waits(call, answered),
        };
        Self { shared: Arc::clone(shared), state }
    }
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = match &mut self.state {
            State::Answered(outcome) => outcome.take(),
            State::Waits(_, answered) => match Pin::new(answered).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(outcome) => outcome.ok(),
            },
        };
        self.state = State::Answered(None);
        // Neither happens: answers come before the machine goes, and nobody asks twice.
        Poll::Ready(outcome.unwrap_or_else(|| Outcome::Done(Err(gone()))))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let State::Waits(call, _) = self.state {
            self.shared.cancel(call);
        }
    }
}

/// A receive: a future of the tensor, with what both sides said of their memory. It waits from the
/// moment it was made. Dropping it cancels exactly this receive, and nothing else of the step.
#[must_use = "a receive that is dropped is cancelled"]
pub struct Receive(pub(super) Waiting);

impl Future for Receive {
    type Output = Result<Delivery<Tensor>, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|outcome| match outcome {
            Outcome::Received(result) => result,
            Outcome::Done(result) => Err(result.err().unwrap_or_else(gone)),
        })
    }
}

/// What an answer that is none comes to.
pub(super) fn done(outcome: Outcome) -> Result<(), Status> {
    match outcome {
        Outcome::Done(result) => result,
        Outcome::Received(result) => result.map(|_| ()),
    }
}

fn gone() -> Status {
    Status::new(Code::Cancelled, "LocalRendezvous deleted")
}
