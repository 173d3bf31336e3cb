//! How much load, in how many rounds: the same words for every kind of server.

use clap::Args;

use super::super::units::{Span, span};
use super::load::Shape;
use super::output::Format;

/// How much load, and how the figures are printed.
#[derive(Args, Clone, Debug, PartialEq)]
pub(super) struct RoundsArgs {
    /// Connections to each server
    #[arg(long, value_name = "COUNT", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,

    /// Calls under way on each connection
    #[arg(long, value_name = "COUNT", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    streams: u32,

    /// How long one round on one server takes
    #[arg(long, value_name = "SPAN", default_value = "3s", value_parser = span(10..=600_000))]
    round_duration: Span,

    /// Rounds of each workload on each server
    #[arg(long, value_name = "COUNT", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,

    /// Form of the figures
    #[arg(long, value_name = "FORM", default_value = "table")]
    pub(super) format: Format,
}

impl RoundsArgs {
    /// One round's load, of no more calls than this.
    pub(super) fn shape(&self, calls_max: u64) -> Shape {
        Shape {
            connections: self.connections,
            streams: self.streams,
            duration: self.round_duration.std(),
            calls_max,
        }
    }
}

/// Each workload once, in the order in which they are measured.
pub(super) fn in_order<W: Copy + Ord>(workloads: &[W]) -> Vec<W> {
    let mut workloads = workloads.to_vec();
    workloads.sort_unstable();
    workloads.dedup();
    workloads
}
