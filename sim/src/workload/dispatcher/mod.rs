//! Those who use the dispatcher: workers, consumers, clients that misbehave, operators.

mod busy;
mod consumer;
mod data_worker;
pub mod dataset;
mod element_bytes;
mod element_job;
mod element_reader;
mod held;
mod operator;
mod plan;
mod production;
mod reader;
mod record_bytes;
mod records;
mod retries;
mod rogue;
mod running;
mod worker;

use std::sync::Arc;

use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

pub use self::consumer::Consumer;
pub use self::data_worker::DataWorker;
pub use self::element_reader::ElementReader;
pub use self::operator::Operator;
pub use self::records::RecordReader;
pub use self::rogue::Rogue;
pub use self::worker::Worker;
use super::actor::{Actor, With};
use crate::rng::Stream;
use crate::swarm::Swarm;

/// Beside readers by split nobody may read by element for about so long, in ms.
const LONG_REST_MS: u64 = 20_000;

/// All actors of a run, workers first.
pub fn cast(swarm: &Swarm) -> Vec<Box<dyn Actor + Send>> {
    let mut cast: Vec<Box<dyn Actor + Send>> = Vec::new();
    for number in 0..swarm.workers {
        cast.push(match swarm.elements {
            Some(_) => Box::new(DataWorker::new(number)),
            None => Box::new(Worker::new(number, swarm.stock_workers)),
        });
    }
    for number in 0..swarm.consumers {
        cast.push(Box::new(Consumer::new(number, number < swarm.together)));
    }
    for number in 0..swarm.rogues {
        cast.push(Box::new(Rogue::new(number)));
    }
    for number in 0..swarm.operators {
        cast.push(Box::new(Operator::new(number)));
    }
    for number in 0..swarm.reading.map_or(0, |reading| reading.readers) {
        cast.push(Box::new(RecordReader::new(number)));
    }
    for number in 0..swarm.elements.map_or(0, |elements| elements.readers) {
        cast.push(Box::new(ElementReader::new(number)));
    }
    cast
}

/// A worker's address; each of its `life`s away from the first has another.
pub fn address(worker: u32, life: u32) -> Arc<str> {
    match life {
        0 => format!("w{worker}:1").into(),
        _ => format!("w{worker}:{}", life.saturating_add(1)).into(),
    }
}

/// Whether an answer says to come back: the connection broke, the server is not ready, or a proxy said
/// what the server never says.
const fn is_passing(status: &Status) -> bool {
    matches!(
        status.code,
        Code::Unavailable
            | Code::Aborted
            | Code::Cancelled
            | Code::Unknown
            | Code::Internal
            | Code::DeadlineExceeded
            | Code::PermissionDenied
            | Code::Unauthenticated
    )
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A pause of about this length; the calm one is half of it.
fn pause(stream: &mut Stream, mean_ms: u64) -> Duration {
    ms((mean_ms / 2).saturating_add(stream.exponential(mean_ms) / 2).saturating_add(1))
}

/// How long a reader by element rests before it reads again. Beside readers by split it may be long:
/// meanwhile those have to get on by themselves.
fn rest_beside(with: &mut With<'_>) -> Duration {
    let is_long = with.swarm.reads_both_ways() && !with.calm && with.stream.chance(600);
    let mean_ms = if is_long { LONG_REST_MS } else { with.swarm.pace.pause_ms };
    pause(with.stream, mean_ms)
}

/// Until when an answer is waited for.
fn patience(now: Time, with: &With<'_>) -> Time {
    now.after(ms(with.swarm.net.patience_ms))
}
