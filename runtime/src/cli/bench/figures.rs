//! Figures: from measured rounds to tables and JSON.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use super::super::table::Table;
use super::connected::Connected;
use super::load::Outcome;

/// What one round brought.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Round {
    /// Answered calls a second.
    rate: f64,
    /// The server's processor time per answered call, in microseconds.
    cpu_us: f64,
    /// Half of the calls took no longer, in microseconds.
    p50_us: f64,
    /// All but a hundredth took no longer, in microseconds.
    p99_us: f64,
    /// The generator's own processor time per call, in microseconds.
    generator_cpu_us: f64,
    /// Calls answered.
    calls: u64,
}

impl Round {
    /// The figures of a round in which server and generator used so much processor time.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn of(outcome: &Outcome, server_cpu: Duration, generator_cpu: Duration) -> Self {
        let calls = outcome.latencies_us.len();
        let per_call = |time: Duration| time.as_secs_f64() * 1e6 / calls.max(1) as f64;
        Self {
            rate: calls as f64 / outcome.elapsed.as_secs_f64().max(1e-9),
            cpu_us: per_call(server_cpu),
            p50_us: quantile(&outcome.latencies_us, 50),
            p99_us: quantile(&outcome.latencies_us, 99),
            generator_cpu_us: per_call(generator_cpu),
            calls: calls as u64,
        }
    }
}

fn quantile(sorted: &[u32], percent: usize) -> f64 {
    let at = sorted.len().saturating_sub(1).saturating_mul(percent) / 100;
    sorted.get(at).copied().map_or(0.0, f64::from)
}

/// One workload on one server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    /// The workload.
    pub(super) workload: String,
    /// The server's address.
    pub(super) server: String,
    /// Its rounds, in order.
    pub(super) rounds: Vec<Round>,
}

impl Measured {
    /// A workload on a server that no round was taken of yet.
    pub(super) fn new(workload: String, address: SocketAddr) -> Self {
        Self { workload, server: address.to_string(), rounds: Vec::new() }
    }

    fn median(&self, figure: fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    /// The first server's figure in parts of this one's, round by round, of which the median.
    fn ratio(&self, first: &Self, figure: fn(&Round) -> f64) -> f64 {
        let pairs = first.rounds.iter().zip(&self.rounds);
        median(pairs.map(|(one, other)| figure(one) / figure(other).max(1e-9)).collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2).copied().unwrap_or(0.0);
    if values.len() % 2 == 1 {
        return upper;
    }
    let below = (values.len() / 2).saturating_sub(1);
    (values.get(below).copied().unwrap_or(upper) + upper) / 2.0
}

/// A workload on two servers: the first server's figures in parts of another's.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Ratios {
    workload: String,
    other: String,
    rate: f64,
    cpu: f64,
    p50: f64,
    p99: f64,
}

/// A measured server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Server {
    /// Its address.
    pub(super) address: String,
    /// Its process.
    pub(super) pid: u32,
    /// Memory before anything was asked of it, in bytes.
    pub(super) resident_before_bytes: u64,
    /// Memory at the end.
    pub(super) resident_after_bytes: u64,
}

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    /// The servers.
    pub(super) servers: Vec<Server>,
    /// What was measured, workload by workload.
    pub(super) measured: Vec<Measured>,
    /// The first server beside each other one.
    ratios: Vec<Ratios>,
    /// What a connection for each task costs, where that was measured.
    connected: Vec<Connected>,
}

impl Figures {
    /// Sets the servers' figures side by side.
    pub(super) fn of(servers: Vec<Server>, measured: Vec<Measured>) -> Self {
        let mut ratios = Vec::new();
        for of_one in measured.chunk_by(|one, next| one.workload == next.workload) {
            if let [first, others @ ..] = of_one {
                ratios.extend(others.iter().map(|other| Ratios::of(first, other)));
            }
        }
        Self { servers, measured, ratios, connected: Vec::new() }
    }

    /// The same, with what connections cost.
    pub(super) fn with_connected(self, connected: Vec<Connected>) -> Self {
        Self { connected, ..self }
    }

    /// Tables for a terminal.
    pub(super) fn tables(&self) -> String {
        let columns = ["address", "pid", "rss before", "rss after"];
        let servers = Table::new("Servers", &columns, true).fill(&self.servers, usize::MAX, |s| {
            vec![
                s.address.clone(),
                s.pid.to_string(),
                mebibytes(s.resident_before_bytes),
                mebibytes(s.resident_after_bytes),
            ]
        });
        let columns =
            ["workload", "server", "calls/s", "cpu us", "p50 us", "p99 us", "calls", "own cpu us"];
        let measured =
            Table::new("Measured", &columns, true).fill(&self.measured, usize::MAX, measured_row);
        let mut text = format!("{servers}{measured}");
        if !self.ratios.is_empty() {
            let columns = ["workload", "other", "rate", "cpu", "p50", "p99"];
            let ratios = Table::new("First server / other", &columns, true);
            text += &ratios.fill(&self.ratios, usize::MAX, ratios_row).to_string();
        }
        if !self.connected.is_empty() {
            let columns = ["server", "connections", "rss before", "per connection", "cores"];
            let connected = Table::new("Connected", &columns, true);
            text += &connected.fill(&self.connected, usize::MAX, connected_row).to_string();
        }
        text
    }
}

impl Ratios {
    fn of(first: &Measured, other: &Measured) -> Self {
        Self {
            workload: first.workload.clone(),
            other: other.server.clone(),
            rate: other.ratio(first, |round| round.rate),
            cpu: other.ratio(first, |round| round.cpu_us),
            p50: other.ratio(first, |round| round.p50_us),
            p99: other.ratio(first, |round| round.p99_us),
        }
    }
}

fn measured_row(measured: &Measured) -> Vec<String> {
    let calls: u64 = measured.rounds.iter().map(|round| round.calls).sum();
    vec![
        measured.workload.clone(),
        measured.server.clone(),
        format!("{:.0}", measured.median(|round| round.rate)),
        format!("{:.1}", measured.median(|round| round.cpu_us)),
        format!("{:.0}", measured.median(|round| round.p50_us)),
        format!("{:.0}", measured.median(|round| round.p99_us)),
        calls.to_string(),
        format!("{:.1}", measured.median(|round| round.generator_cpu_us)),
    ]
}

fn ratios_row(ratios: &Ratios) -> Vec<String> {
    let figure = |ratio: f64| format!("{ratio:.2}");
    vec![
        ratios.workload.clone(),
        ratios.other.clone(),
        figure(ratios.rate),
        figure(ratios.cpu),
        figure(ratios.p50),
        figure(ratios.p99),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn connected_row(connected: &Connected) -> Vec<String> {
    vec![
        connected.server.clone(),
        connected.connections.to_string(),
        mebibytes(connected.resident_before_bytes),
        format!("{:.1} KiB", connected.resident_per_connection_bytes as f64 / 1024.0),
        format!("{:.3}", connected.cpu_share),
    ]
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(latencies_us: Vec<u32>) -> Outcome {
        Outcome { elapsed: Duration::from_secs(1), latencies_us, ..Outcome::default() }
    }

    #[test]
    fn a_round_counts_per_call() {
        let second = Duration::from_secs(1);
        let round = Round::of(&outcome((1..=1000).collect()), second, second);
        assert_eq!((round.rate, round.cpu_us), (1000.0, 1000.0));
        assert_eq!((round.p50_us, round.p99_us), (500.0, 990.0));
    }

    #[test]
    fn a_round_without_answers_is_no_number_out_of_bounds() {
        let round = Round::of(&outcome(Vec::new()), Duration::ZERO, Duration::ZERO);
        assert_eq!((round.rate, round.cpu_us, round.p99_us), (0.0, 0.0, 0.0));
    }

    #[test]
    fn ratios_are_medians_of_rounds_side_by_side() {
        let measured = |server: &str, cpu_ms: [u64; 3]| Measured {
            workload: "heartbeat".into(),
            server: server.into(),
            rounds: cpu_ms
                .map(|ms| {
                    let cpu = Duration::from_millis(ms);
                    Round::of(&outcome(vec![1; 1000]), cpu, Duration::ZERO)
                })
                .to_vec(),
        };
        // The second round met a busy machine; both servers suffered alike.
        let (ours, theirs) = (measured("a", [10, 40, 10]), measured("b", [20, 80, 25]));
        let figures = Figures::of(Vec::new(), vec![ours, theirs]);
        assert_eq!(figures.ratios[0].cpu, 0.5);
        assert!(figures.tables().contains("0.50"));
    }
}
