//! What holds of workers and servers of an exchange between two steps.

mod server;
#[cfg(test)]
mod tests;
mod worker;

use crate::exchange::server::Server;
use crate::exchange::worker::Worker;
use crate::invariant::{Violation, check_each};

pub(crate) use server::invariants as of_server;
pub(crate) use worker::invariants as of_worker;

/// Checks a worker.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_worker<T: Clone>(worker: &Worker<T>) -> Result<(), Violation> {
    check_each(&of_worker(), worker)
}

/// Checks a server.
///
/// # Errors
/// The first invariant that does not hold.
pub fn check_server<T: Clone>(server: &Server<T>) -> Result<(), Violation> {
    check_each(&of_server(), server)
}
