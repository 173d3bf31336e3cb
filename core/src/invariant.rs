//! Numbered invariants: what holds of every state between two steps, whatever the inputs were.
//!
//! `D` numbers speak of the dispatcher, `C` numbers of the coordination service, `N` numbers of the
//! node around them, `R` numbers of a relay, `W` numbers of a worker, `E` numbers of a reader by
//! element, `V` numbers of a rendezvous, `X` numbers of an exchange, `M` numbers of who takes part in
//! one. Each machine keeps its own list; here they are checked together. A check looks at the whole
//! state, so it is for tests, simulation and debug builds, not for every step in production.

use alloc::string::String;
use core::fmt;

use crate::control::{self, Node};
use crate::coordination::{self, Coordination};
use crate::dispatcher::{self, Dispatcher, State};
use crate::reader::{self, Reader};
use crate::relay::{self, Relay};
use crate::worker::{self, Worker};
#[cfg(test)]
use crate::{exchange, rendezvous};

/// Something that must always hold of an `S`.
#[derive(Clone, Copy, Debug)]
pub struct Invariant<S> {
    /// How people refer to it, such as `D3`.
    pub number: &'static str,
    /// What must hold.
    pub sentence: &'static str,
    /// Says what does not fit, if anything.
    pub(crate) check: fn(&S) -> Result<(), String>,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant's number.
    pub number: &'static str,
    /// What must hold.
    pub sentence: &'static str,
    /// What does not fit.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, sentence, text } = self;
        write!(out, "{number} does not hold ({sentence}): {text}")
    }
}

impl core::error::Error for Violation {}

/// The invariants of the dispatcher's durable state.
pub const OF_STATE: &[Invariant<State>] = dispatcher::STATE_INVARIANTS;
/// The invariants of the dispatcher's volatile parts beside its state.
pub const OF_DISPATCHER: &[Invariant<Dispatcher>] = dispatcher::DISPATCHER_INVARIANTS;
/// The invariants of the coordination service's durable state.
pub const OF_COORDINATION_STATE: &[Invariant<coordination::State>] = coordination::STATE_INVARIANTS;
/// The invariants of the coordination service's volatile parts beside its state.
pub const OF_COORDINATION: &[Invariant<Coordination>] = coordination::COORDINATION_INVARIANTS;
/// The invariants of the node.
pub const OF_NODE: &[Invariant<Node>] = control::NODE_INVARIANTS;
/// The invariants of a relay.
pub const OF_RELAY: &[Invariant<Relay>] = relay::RELAY_INVARIANTS;
/// The invariants of a reader.
pub const OF_READER: &[Invariant<Reader>] = reader::READER_INVARIANTS;
/// The invariants of a worker.
pub const OF_WORKER: &[Invariant<Worker>] = worker::WORKER_INVARIANTS;

/// Checks the dispatcher's durable state.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_state(state: &State) -> Result<(), Violation> {
    check_each(OF_STATE, state)
}

/// Checks the dispatcher with its durable state.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_dispatcher(dispatcher: &Dispatcher) -> Result<(), Violation> {
    check_state(dispatcher.state())?;
    check_each(OF_DISPATCHER, dispatcher)
}

/// Checks the coordination service's durable state.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_coordination_state(state: &coordination::State) -> Result<(), Violation> {
    check_each(OF_COORDINATION_STATE, state)
}

/// Checks the coordination service with its durable state.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_coordination(service: &Coordination) -> Result<(), Violation> {
    check_coordination_state(service.state())?;
    check_each(OF_COORDINATION, service)
}

/// Checks the node with all that is in it.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_all(node: &Node) -> Result<(), Violation> {
    check_dispatcher(node.dispatcher())?;
    check_coordination(node.coordination())?;
    check_each(OF_NODE, node)
}

/// Checks a relay.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_relay(relay: &Relay) -> Result<(), Violation> {
    check_each(OF_RELAY, relay)
}

/// Checks a reader.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_reader(reader: &Reader) -> Result<(), Violation> {
    check_each(OF_READER, reader)
}

/// Checks a worker.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_worker(worker: &Worker) -> Result<(), Violation> {
    check_each(OF_WORKER, worker)
}

pub(crate) fn check_each<S>(invariants: &[Invariant<S>], of: &S) -> Result<(), Violation> {
    invariants.iter().try_for_each(|invariant| {
        (invariant.check)(of).map_err(|text| Violation {
            number: invariant.number,
            sentence: invariant.sentence,
            text,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn every_number_stands_for_one_invariant() {
        let numbers: alloc::vec::Vec<_> = OF_STATE
            .iter()
            .map(|i| i.number)
            .chain(OF_DISPATCHER.iter().map(|i| i.number))
            .chain(OF_COORDINATION_STATE.iter().map(|i| i.number))
            .chain(OF_COORDINATION.iter().map(|i| i.number))
            .chain(OF_NODE.iter().map(|i| i.number))
            .chain(OF_RELAY.iter().map(|i| i.number))
            .chain(OF_READER.iter().map(|i| i.number))
            .chain(OF_WORKER.iter().map(|i| i.number))
            .chain(rendezvous::invariants::<()>().iter().map(|i| i.number))
            .chain(exchange::of_worker::<()>().iter().map(|i| i.number))
            .chain(exchange::of_server::<()>().iter().map(|i| i.number))
            .chain(exchange::scheduler::SCHEDULER_INVARIANTS.iter().map(|i| i.number))
            .chain(exchange::member::MEMBER_INVARIANTS.iter().map(|i| i.number))
            .collect();
        let distinct: BTreeSet<_> = numbers.iter().collect();
        assert_eq!(distinct.len(), numbers.len());
    }

    #[test]
    fn a_violation_prints_its_number_sentence_and_finding() {
        let violation =
            Violation { number: "D0", sentence: "nothing is wrong", text: "something is".into() };
        let text = alloc::format!("{violation}");
        assert_eq!(text, "D0 does not hold (nothing is wrong): something is");
    }
}
