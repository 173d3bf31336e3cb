//! `rondo bench rendezvous`: tensors from one worker to another, beside bare calls, a bare connection, and
//! TensorFlow's own workers.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::super::exit::{Exit, Failure};
use super::output::Format;
use super::rendezvous_pair::Pair;
use super::rendezvous_tensorflow::TensorFlow;
use super::{read_loopback, rendezvous_figures};

/// Bytes of a small tensor, and of a large one.
pub(super) const SMALL_BYTES: usize = 4 << 10;
/// See [`SMALL_BYTES`].
pub(super) const LARGE_BYTES: usize = 16 << 20;
/// Large tensors that are received at once.
pub(super) const IN_FLIGHT: usize = 4;
/// Bytes that a bare connection carries.
const LOOPBACK_BYTES: u64 = 1 << 30;

/// How much to receive, and beside whom.
#[derive(Args, Clone, Debug, PartialEq)]
pub(in crate::cli) struct RendezvousArgs {
    /// Tensors of 4 KiB in a round, one after the other
    #[arg(long, value_name = "COUNT", default_value_t = 5000,
          value_parser = clap::value_parser!(u32).range(100..=60_000))]
    small: u32,

    /// Tensors of 16 MiB in a round, four at once
    #[arg(long, value_name = "COUNT", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(4..=10_000))]
    large: u32,

    /// Rounds; the middle of each figure is told
    #[arg(long, value_name = "COUNT", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// A Python that has tensorflow-cpu==2.21.0, of whose own workers one receives the same large
    /// tensors from another
    #[arg(long, env = "RONDO_TENSORFLOW_PYTHON", value_name = "PROGRAM")]
    tensorflow: Option<PathBuf>,

    /// Form of the figures
    #[arg(long, value_name = "FORM", default_value = "table")]
    format: Format,
}

/// What each round brought.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Rounds {
    /// Microseconds from asking for a small tensor to having it: the middle, and the 99th of 100.
    pub(super) small_us: Vec<(f64, f64)>,
    /// The same of a bare unary call with an answer as long.
    pub(super) call_us: Vec<(f64, f64)>,
    /// Bytes a second of large tensors.
    pub(super) large: Vec<f64>,
    /// Bytes a second over a bare connection.
    pub(super) loopback: Vec<f64>,
    /// Bytes a second of large tensors, from one of TensorFlow's workers to another.
    pub(super) large_tensorflow: Vec<f64>,
    /// Of tensors of 16 MiB that are held, four of which are being received: bytes that the process
    /// has in RAM for them, by bytes of the tensors themselves, once more for those on their way.
    pub(super) memory: (f64, f64),
}

/// Measures, and prints what was found.
pub(super) fn run(args: &RendezvousArgs) -> Result<(), Failure> {
    crate::allocator::keep_for_batches();
    let pair = Pair::start()?;
    let folder = tempfile::TempDir::with_prefix("rondo-bench-").map_err(other)?;
    let start = |python: &PathBuf| TensorFlow::start(python, folder.path());
    let mut tensorflow = args.tensorflow.as_ref().map(start).transpose()?;
    let mut rounds = Rounds { memory: pair.memory()?, ..Rounds::default() };
    for _ in 0..args.rounds {
        rounds.small_us.push(spread(pair.small(args.small)?));
        rounds.call_us.push(spread(pair.calls(args.small)?));
        rounds.large.push(pair.large(args.large)?);
        rounds.loopback.push(read_loopback::bytes_a_second(LOOPBACK_BYTES).map_err(other)?);
        if let Some(tensorflow) = &mut tensorflow {
            rounds.large_tensorflow.push(tensorflow.receive(args.large)?);
        }
    }
    args.format.print_rounds(&rounds, rendezvous_figures::table)
}

/// The middle of some times, and the 99th of 100, in µs.
fn spread(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at = |place: usize| times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e6);
    (at(times.len() / 2), at(times.len().saturating_mul(99) / 100))
}

pub(super) fn other(error: impl ToString) -> Failure {
    Failure::new(Exit::Other, error)
}
