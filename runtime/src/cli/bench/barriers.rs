//! Load of another shape: all tasks come at once, again and again, each time when all have gone on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;

use super::load::{Calls, Outcome, Shape};
use super::rpc::{Answer, Broken, Connection, Drivers};

/// Lets `tasks` tasks come to one barrier after the other, over the shape's connections. Calls are
/// numbered from `first_serial` or a little later, so that a barrier's numbers begin with a multiple
/// of `tasks`. What counts as one call in the outcome is a barrier, from the first call to the last
/// answer.
///
/// # Errors
/// When a connection cannot be made or breaks.
pub(super) async fn lay(
    address: SocketAddr,
    calls: Arc<dyn Calls>,
    shape: Shape,
    tasks: u32,
    first_serial: u64,
) -> Result<Outcome, Broken> {
    let mut drivers = Drivers::new();
    let mut connections = Vec::new();
    for _ in 0..shape.connections {
        connections.push(Connection::open(address, &mut drivers).await?);
    }
    let mut outcome = Outcome::default();
    let first_serial = first_serial.next_multiple_of(u64::from(tasks.max(1)));
    let mut serials = first_serial..first_serial.saturating_add(shape.calls_max);
    let start = Instant::now();
    while start.elapsed() < shape.duration && outcome.refused == 0 {
        let coming = connections.iter().cycle().zip(serials.by_ref().take(tasks as usize));
        let mut waiting = JoinSet::new();
        let begun = Instant::now();
        for (connection, serial) in coming {
            waiting.spawn(come(connection.clone(), Arc::clone(&calls), serial));
        }
        if waiting.is_empty() {
            break;
        }
        while let Some(gone_on) = waiting.join_next().await {
            let answer = gone_on??;
            if answer.code != calls.code() {
                outcome.refuse(&answer);
            }
        }
        outcome.took(begun.elapsed());
    }
    outcome.end(start);
    Ok(outcome)
}

async fn come(
    mut connection: Connection,
    calls: Arc<dyn Calls>,
    serial: u64,
) -> Result<Answer, Broken> {
    connection.call(calls.path(), &calls.message(serial)).await
}
