//! The coordination service's part in a run: its namespaces with their jobs, and who else asks it.

use std::collections::BTreeMap;

use rondo_core::coordination::{Config, NamespaceConfig};
use rondo_core::time::Duration;
use serde::{Deserialize, Serialize};

use super::relays::{self, RelayShape};
use super::{AppShape, PartingShape};
use crate::rng::Stream;

/// The coordination service's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoordinationShape {
    /// Its namespaces, each with a job.
    pub namespaces: Vec<NamespaceShape>,
    /// Clients that misbehave.
    pub meddlers: u32,
    /// People who reset namespaces.
    pub resetters: u32,
    /// How many keys there are of each kind.
    pub keys: u64,
    /// How many barriers there are.
    pub barriers: u64,
    /// Between two things a task does, on average, in ms.
    pub act_ms: u64,
    /// How long a task lives until it shuts down, on average, in ms.
    pub stay_ms: u64,
    /// Of a thousand calls that change something, so many are marked by a relay.
    pub stamped: u32,
    /// What long values have more than others, in bytes.
    #[serde(default = "long_bytes")]
    pub long_bytes: u32,
    /// Relays between tasks and the node.
    #[serde(default)]
    pub relays: Vec<RelayShape>,
    /// Of a thousand things a task does, so many are that it sends no heartbeat for longer than it may.
    #[serde(default)]
    pub quiet: u32,
    /// The node stands still again and again.
    #[serde(default)]
    pub stalls: Option<StallShape>,
    /// What applications do with their agents beside what all do, and how agents' calls are lost.
    #[serde(default)]
    pub apps: Option<AppShape>,
    /// How processes part from each other.
    #[serde(default)]
    pub partings: PartingShape,
}

/// How the node stands still again and again, while its connections live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StallShape {
    /// For so long, in ms.
    pub for_ms: u64,
    /// So long after it has gone on, in ms.
    pub after_ms: u64,
}

/// Of regression files that do not say it.
const fn long_bytes() -> u32 {
    100
}

/// A namespace and its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceShape {
    /// Tasks.
    pub tasks: u32,
    /// Whether the service is told how many there are.
    pub told: bool,
    /// Whether tasks say how many there are when they register.
    pub said: bool,
    /// Whether a task that dies may come back.
    pub recoverable: bool,
    /// How long a task may be silent, in ms.
    pub heartbeat_ms: u64,
    /// How long the first task that registers waits for the last, in ms.
    pub register_ms: u64,
    /// How long the first task that leaves waits for the last, in ms; 0 lets each leave alone.
    pub shutdown_ms: u64,
    /// Keys kept at once.
    pub keys_max: usize,
    /// Longest value, in bytes.
    pub value_bytes_max: u64,
    /// How many tasks its jobs have, one after the other; all have as many as the first if it is empty.
    #[serde(default)]
    pub sizes: Vec<u32>,
    /// Whether its tasks have the core's agent.
    #[serde(default)]
    pub agents: bool,
}

impl CoordinationShape {
    pub(super) fn draw(s: &mut Stream) -> Self {
        let count = s.pick(&[1, 1, 2]).copied().unwrap_or(1);
        let mut shape = Self {
            namespaces: (0..count).map(|_| NamespaceShape::draw(s)).collect(),
            meddlers: u32::try_from(s.below(2)).unwrap_or(0),
            resetters: u32::try_from(s.below(3) / 2).unwrap_or(0),
            keys: s.between(1, 3),
            barriers: s.between(1, 2),
            act_ms: s.pick(&[400, 60, 150, 1500]).copied().unwrap_or(400),
            stay_ms: s.pick(&[60_000, 4000, 12_000]).copied().unwrap_or(60_000),
            stamped: s.pick(&[0, 0, 500, 1000]).copied().unwrap_or(0),
            long_bytes: long_bytes(),
            relays: Vec::new(),
            quiet: 0,
            stalls: None,
            apps: None,
            partings: PartingShape::default(),
        };
        if s.chance(30) {
            shape.put_much();
        }
        shape
    }

    /// Values so long and so often that the changes remembered for watches are soon too many.
    fn put_much(&mut self) {
        (self.long_bytes, self.act_ms) = (60_000, 60);
        self.namespaces.iter_mut().for_each(|namespace| namespace.value_bytes_max = 1 << 16);
    }

    /// Relays come from a stream of their own.
    pub(super) fn draw_relays(&mut self, s: &mut Stream) {
        self.relays = relays::draw(s, &self.namespaces);
    }

    /// The number of the relay that a task talks to.
    pub fn relay_of(&self, namespace: u32, task: u32) -> Option<u32> {
        let fits = |relay: &RelayShape| relay.namespace == namespace && relay.tasks.contains(&task);
        self.relays.iter().position(fits).and_then(|place| u32::try_from(place).ok())
    }

    /// As few as the run has that speed is measured with.
    pub(super) fn meet_standard(&mut self) {
        self.namespaces.truncate(1);
        self.namespaces.iter_mut().for_each(|namespace| namespace.tasks = 4);
        (self.meddlers, self.resetters) = (0, 0);
        for namespace in &mut self.namespaces {
            namespace.sizes.clear();
            namespace.agents = false;
        }
        self.relays.clear();
        (self.quiet, self.stalls, self.apps) = (0, None, None);
        self.partings = PartingShape::default();
    }

    /// How long a task may be silent, by its namespace's name.
    pub fn heartbeat_timeouts(&self) -> BTreeMap<String, Duration> {
        let numbered = (0_u32..).zip(&self.namespaces);
        let timeout = |shape: &NamespaceShape| Duration::from_millis(shape.heartbeat_ms);
        numbered.map(|(number, shape)| (namespace_name(number), timeout(shape))).collect()
    }

    /// How long a namespace remembers relays that say nothing: just long enough for its own.
    fn relay_silence(&self, namespace: u32) -> Duration {
        let own = self.relays.iter().filter(|relay| relay.namespace == namespace);
        let patience_ms = own.map(|relay| relay.settings.patience_ms).max().unwrap_or(0);
        let silence_ms =
            RELAYS_REMEMBERED.as_millis().saturating_add(patience_ms.saturating_mul(2));
        Duration::from_millis(silence_ms)
    }

    /// The service's settings, with the number of tasks that its process is told for each namespace.
    pub fn settings_with(&self, size: impl Fn(u32) -> Option<u32>) -> Config {
        let mut config = self.settings();
        for (number, settings) in (0..).zip(&mut config.namespaces) {
            settings.tasks = settings.tasks.map(|own| size(number).unwrap_or(own));
        }
        config
    }

    /// The service's settings.
    pub fn settings(&self) -> Config {
        let numbered = self.namespaces.iter().zip(0_u32..);
        let settings = numbered.map(|(shape, number)| NamespaceConfig {
            tasks: shape.told.then_some(shape.tasks),
            settle: Duration::from_millis(3000),
            heartbeat_timeout: Duration::from_millis(shape.heartbeat_ms),
            register_timeout: Duration::from_millis(shape.register_ms),
            shutdown_timeout: Duration::from_millis(shape.shutdown_ms),
            devices_timeout: Duration::from_millis(shape.register_ms),
            recoverable: shape.recoverable,
            relay_silence: self.relay_silence(number),
            keys_max: shape.keys_max,
            value_bytes_max: shape.value_bytes_max,
            ..NamespaceConfig::named(namespace_name(number))
        });
        Config { namespaces: settings.collect() }
    }
}

/// How long beside its relays' own patience a namespace remembers them: messages arrive late, and clocks
/// jump.
const RELAYS_REMEMBERED: Duration = Duration::from_secs(100);

/// The name of the namespace of a number.
pub fn namespace_name(number: u32) -> String {
    format!("n{number}")
}

impl NamespaceShape {
    fn draw(s: &mut Stream) -> Self {
        Self {
            tasks: u32::try_from(s.between(1, 4)).unwrap_or(1),
            told: !s.chance(300),
            said: s.chance(700),
            recoverable: s.chance(350),
            heartbeat_ms: s.pick(&[5000, 1000, 2000, 10_000]).copied().unwrap_or(5000),
            register_ms: s.pick(&[20_000, 3000, 8000]).copied().unwrap_or(20_000),
            shutdown_ms: s.pick(&[3000, 0, 1000, 8000]).copied().unwrap_or(3000),
            keys_max: s.pick(&[1 << 20, 6]).copied().unwrap_or(1 << 20),
            value_bytes_max: s.pick(&[1 << 16, 40]).copied().unwrap_or(1 << 16),
            sizes: Vec::new(),
            agents: false,
        }
    }
}
