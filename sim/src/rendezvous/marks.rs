//! Notes which states are reached.

use rondo_core::element::Tensor;
use rondo_core::rendezvous::{Effect, Event, Failure, Input};
use rondo_core::status::Code;

use super::World;
use crate::mark::Mark;

impl World {
    pub(super) fn mark_effects(&mut self, input: &Input<Tensor>, effects: &[Effect<Tensor>]) {
        if let Input::NotFetched { failure: Failure::Lost(_), .. } = input {
            self.mark(Mark::TensorLost);
        }
        for effect in effects {
            if let Some(mark) = reached(input, effect) {
                self.mark(mark);
            }
        }
    }
}

fn reached(input: &Input<Tensor>, effect: &Effect<Tensor>) -> Option<Mark> {
    match effect {
        Effect::Received { result: Ok(delivery), .. } => match input {
            _ if delivery.value.is_dead => Some(Mark::DeadTensorReceived),
            Input::Send { .. } => Some(Mark::TensorWaitedFor),
            Input::Recv { .. } | Input::RecvLocal { .. } => Some(Mark::TensorWasThere),
            Input::Initialize { .. } => Some(Mark::AskedBeforeInitialised),
            _ => None,
        },
        Effect::Received { result: Err(status), .. } => match (input, status.code) {
            (Input::Cancel { .. }, Code::Cancelled) => Some(Mark::ReceiveCancelled),
            (Input::Tick, Code::DeadlineExceeded) => Some(Mark::ReceiveTimedOut),
            (Input::NotFetched { failure: Failure::Away(_), .. }, _) => Some(Mark::PeerAwayTooLong),
            (Input::Abort { .. }, _) => Some(Mark::ToldOfAbort),
            _ => None,
        },
        Effect::Sent { result: Ok(()), .. } => match input {
            Input::Send { .. } => None,
            _ => Some(Mark::SenderGotRoom),
        },
        Effect::Observe(event) => match event {
            Event::StepExpired { .. } => Some(Mark::StepExpired),
            Event::NoRoom { .. } => Some(Mark::SenderRefused),
            Event::Repeated { is_answered: true, .. } => Some(Mark::RequestAnsweredAgain),
            Event::Repeated { .. } => Some(Mark::RequestRefusedAgain),
            Event::FetchedAgain { .. } => Some(Mark::TensorFetchedAgain),
            Event::StepAborted { .. } => match input {
                Input::Abort { .. } => None,
                _ => Some(Mark::AbortedByWhatWasTakenOn),
            },
        },
        _ => None,
    }
}
