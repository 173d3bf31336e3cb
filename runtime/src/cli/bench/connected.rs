//! Many tasks that do nothing but live: a connection each, and a heartbeat now and then.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;

use super::super::exit::Failure;
use super::figures::Round;
use super::load::{Calls, Outcome};
use super::rpc::{Broken, Connection, Drivers};
use super::target::{Target, unreachable};

/// Periods that are measured.
const PERIODS: u32 = 2;
/// Connections that are made at once.
const AT_ONCE: usize = 64;

/// What so many connections cost.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Connected {
    /// The server.
    pub(super) server: String,
    /// Connections, one for each task.
    pub(super) connections: u32,
    /// The server's memory before the first of them, in bytes; the tasks have registered.
    pub(super) resident_before_bytes: u64,
    /// Its memory once all have had an answer.
    pub(super) resident_after_bytes: u64,
    /// Memory per connection.
    pub(super) resident_per_connection_bytes: u64,
    /// Parts of one processor that the server used while each task sent a heartbeat every period.
    pub(super) cpu_share: f64,
}

/// Connects `tasks` tasks, and lets each send a heartbeat every `period`.
///
/// # Errors
/// When the server is gone, or answers otherwise than it should.
pub(super) async fn measure(
    target: &mut Target,
    calls: Arc<dyn Calls>,
    tasks: u32,
    period: Duration,
) -> Result<(Connected, Round), Failure> {
    let (address, resident_before_bytes) = (target.address(), target.resident_bytes()?);
    let mut drivers = Drivers::new();
    let connections = connect(address, &calls, tasks, &mut drivers).await;
    let connections = connections.map_err(|error| unreachable(address, &error))?;
    let resident_after_bytes = target.resident_bytes()?;
    let began = (Instant::now(), target.cpu()?);
    let live = |_, _| live(connections, calls, period);
    let round = target.round(0, live).await?;
    let used = target.cpu()?.saturating_sub(began.1);
    let per_connection = resident_after_bytes.saturating_sub(resident_before_bytes);
    let connected = Connected {
        server: address.to_string(),
        connections: tasks,
        resident_before_bytes,
        resident_after_bytes,
        resident_per_connection_bytes: per_connection / u64::from(tasks.max(1)),
        cpu_share: used.as_secs_f64() / began.0.elapsed().as_secs_f64().max(1e-9),
    };
    Ok((connected, round))
}

/// Connects each task, and sends its first heartbeat.
async fn connect(
    address: SocketAddr,
    calls: &Arc<dyn Calls>,
    tasks: u32,
    drivers: &mut Drivers,
) -> Result<Vec<Connection>, Broken> {
    let mut connections = Vec::new();
    let mut first = JoinSet::new();
    for task in 0..tasks {
        let connection = Connection::open(address, drivers).await?;
        connections.push(connection.clone());
        first.spawn(beat(connection, Arc::clone(calls), task));
        if first.len() >= AT_ONCE {
            first.join_next().await.transpose()?.transpose()?;
        }
    }
    while let Some(answered) = first.join_next().await {
        answered??;
    }
    Ok(connections)
}

async fn beat(mut task: Connection, calls: Arc<dyn Calls>, number: u32) -> Result<(), Broken> {
    let answer = task.call(calls.path(), &calls.message(u64::from(number))).await?;
    if answer.code == calls.code() {
        return Ok(());
    }
    Err(format!("task {number}: grpc-status {}: {}", answer.code, answer.text).into())
}

/// Lets every task send its heartbeats, all tasks spread over the period.
async fn live(
    connections: Vec<Connection>,
    calls: Arc<dyn Calls>,
    period: Duration,
) -> Result<Outcome, Broken> {
    let start = Instant::now();
    let tasks = u32::try_from(connections.len()).unwrap_or(u32::MAX).max(1);
    let mut living = JoinSet::new();
    for (connection, number) in connections.into_iter().zip(0_u32..) {
        let calls = Arc::clone(&calls);
        let due = start + period * number / tasks;
        living.spawn(live_one(connection, calls, number, Rhythm { due, period }));
    }
    let mut outcome = Outcome::default();
    while let Some(ended) = living.join_next().await {
        outcome.add(ended??);
    }
    outcome.end(start);
    Ok(outcome)
}

/// When heartbeats are due.
#[derive(Clone, Copy)]
struct Rhythm {
    due: Instant,
    period: Duration,
}

async fn live_one(
    connection: Connection,
    calls: Arc<dyn Calls>,
    number: u32,
    mut rhythm: Rhythm,
) -> Result<Outcome, Broken> {
    let mut outcome = Outcome::default();
    for _ in 0..PERIODS {
        tokio::time::sleep_until(rhythm.due.into()).await;
        let begun = Instant::now();
        beat(connection.clone(), Arc::clone(&calls), number).await?;
        outcome.took(begun.elapsed());
        rhythm.due += rhythm.period;
    }
    Ok(outcome)
}
