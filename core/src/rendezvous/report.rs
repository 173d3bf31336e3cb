//! What a rendezvous tells of itself.

use super::ending::waiting_in;
use super::machine::Rendezvous;
use super::room::Held;
use crate::ids::StepId;

/// What is in the rendezvous of all steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Steps that have begun and are not cleaned up.
    pub steps: usize,
    /// Tensors that nobody has received, and answers that are kept.
    pub held: Held,
    /// Calls that wait.
    pub waiting: usize,
    /// Of these, senders that wait for room.
    pub parked: usize,
    /// Requests whose answer is kept, or awaited and then kept.
    pub kept: usize,
}

/// What is in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepReport {
    /// The step.
    pub step: StepId,
    /// Whether it is known which worker it is of.
    pub is_initialized: bool,
    /// Whether it was aborted.
    pub is_aborted: bool,
    /// Tensors that nobody has received, and answers that are kept.
    pub held: Held,
    /// Calls that wait.
    pub waiting: usize,
}

impl<T: Clone> Rendezvous<T> {
    /// What is in all steps together.
    pub fn report(&self) -> Report {
        Report {
            steps: self.steps.len(),
            held: self.room.held,
            waiting: self.calls.pending.len(),
            parked: self.room.parked.len(),
            kept: self.requests.kept.len(),
        }
    }

    /// What is in each step, from the one with the lowest number on.
    pub fn each_step(&self) -> impl Iterator<Item = StepReport> {
        self.steps.iter().map(|(id, step)| StepReport {
            step: *id,
            is_initialized: step.home.is_some(),
            is_aborted: step.status.is_some(),
            held: step.held,
            waiting: waiting_in(step),
        })
    }
}
