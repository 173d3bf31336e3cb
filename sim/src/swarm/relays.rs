//! Relays of a run: which tasks each stands in front of, how it is set, and how often something goes
//! wrong with it. Drawn from a stream of its own, so that runs without relays stay what they are.

use rondo_core::relay::Config;
use rondo_core::time::Duration;
use serde::{Deserialize, Serialize};

use super::NamespaceShape;
use crate::rng::Stream;

/// A relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayShape {
    /// The number of the namespace it serves.
    pub namespace: u32,
    /// Tasks that talk to it, by index.
    pub tasks: Vec<u32>,
    /// What it is started with.
    pub settings: RelaySettings,
    /// Between two things that go wrong with it, on average, in ms; 0 for never.
    pub trouble_ms: u64,
    /// How long it, or the way to the server, is away then, on average, in ms.
    pub away_ms: u64,
}

/// What a relay is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelaySettings {
    /// How long the server may be away until clients are told, in ms.
    pub patience_ms: u64,
    /// How long the server may take over a heartbeat, in ms.
    pub heartbeat_patience_ms: u64,
    /// Connections.
    pub clients_max: usize,
    /// Calls under way.
    pub calls_max: usize,
    /// Calls under way of one connection.
    pub calls_per_client_max: usize,
    /// Messages under way, in bytes.
    pub held_bytes_max: u64,
}

/// Relays in front of the tasks of some namespaces, or none.
pub(super) fn draw(s: &mut Stream, namespaces: &[NamespaceShape]) -> Vec<RelayShape> {
    if !s.chance(400) {
        return Vec::new();
    }
    let mut relays = Vec::new();
    for (number, namespace) in (0..).zip(namespaces) {
        let count = s.pick(&[1, 1, 2]).copied().unwrap_or(1);
        // A task that talks to the server itself sees what the others do, as soon as it happens.
        let direct = u32::from(namespace.tasks > 1 && s.chance(300));
        for relay in 0..count {
            let tasks: Vec<u32> =
                (direct..namespace.tasks).filter(|index| index % count == relay).collect();
            if !tasks.is_empty() {
                relays.push(RelayShape::draw(s, number, namespace, tasks));
            }
        }
    }
    relays
}

impl RelayShape {
    fn draw(s: &mut Stream, number: u32, namespace: &NamespaceShape, tasks: Vec<u32>) -> Self {
        Self {
            namespace: number,
            settings: RelaySettings::draw(s, namespace.heartbeat_ms, tasks.len()),
            tasks,
            trouble_ms: s.pick(&[0, 1500, 5000, 15_000]).copied().unwrap_or(0),
            away_ms: s.pick(&[1000, 200, 6000]).copied().unwrap_or(1000),
        }
    }
}

impl RelaySettings {
    /// Settings for so many tasks that have to beat every so many ms. Where everybody has to get on in
    /// the end, there is room for all tasks.
    pub fn draw(s: &mut Stream, heartbeat_ms: u64, tasks: usize) -> Self {
        let most = Config::of("");
        let or = |s: &mut Stream, most: usize, low: usize| match s.chance(200) {
            true => low,
            false => most,
        };
        Self {
            patience_ms: s.pick(&[600_000, 1000, 3000, 10_000]).copied().unwrap_or(600_000),
            heartbeat_patience_ms: s
                .pick(&[heartbeat_ms / 4, heartbeat_ms / 20, heartbeat_ms / 3])
                .copied()
                .unwrap_or(heartbeat_ms / 4),
            clients_max: or(s, most.clients_max, tasks),
            calls_max: or(s, most.calls_max, tasks.saturating_mul(5)),
            calls_per_client_max: or(s, most.calls_per_client_max, 5),
            held_bytes_max: match s.chance(100) {
                true => 600,
                false => most.held_bytes_max,
            },
        }
    }

    /// The machine's settings.
    pub fn config(&self) -> Config {
        Config {
            patience: Duration::from_millis(self.patience_ms),
            heartbeat_patience: Duration::from_millis(self.heartbeat_patience_ms),
            clients_max: self.clients_max,
            calls_max: self.calls_max,
            calls_per_client_max: self.calls_per_client_max,
            held_bytes_max: self.held_bytes_max,
            ..Config::of("node:1")
        }
    }
}
