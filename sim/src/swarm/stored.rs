//! A configuration as one line of JSON, for files that must mean the same whatever is drawn later.
//! What a line leaves out is calm.

use rondo_core::dispatcher::{Bounds, Config, DeploymentMode};
use rondo_core::time::Duration;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Swarm;
use crate::rng::{Source, Tape};

impl Swarm {
    /// The configuration as a line.
    ///
    /// # Errors
    /// Never: all of it can be said in JSON.
    pub fn to_json(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|error| error.to_string())
    }

    /// The configuration that a line says.
    ///
    /// # Errors
    /// When it is none; names what does not belong there.
    pub fn from_json(line: &str) -> Result<Self, String> {
        let said = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let (calm, _) = Self::draw(&Source::Tape(Tape::default()));
        let mut all = serde_json::to_value(calm).map_err(|error| error.to_string())?;
        say(&mut all, said);
        serde_json::from_value(all).map_err(|error| error.to_string())
    }
}

/// Puts what is said in the place of what was there.
fn say(all: &mut Value, said: Value) {
    match (all, said) {
        (Value::Object(all), Value::Object(said)) => {
            for (name, value) in said {
                say(all.entry(name).or_insert(Value::Null), value);
            }
        }
        (all, said) => *all = said,
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DeploymentMode")]
enum StoredMode {
    Unspecified,
    Colocated,
    Remote,
    Hybrid,
}

/// The dispatcher's settings, spans in ms.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Config", deny_unknown_fields)]
pub(super) struct StoredSettings {
    fault_tolerant: bool,
    worker_addresses: Vec<String>,
    #[serde(with = "StoredMode")]
    deployment_mode: DeploymentMode,
    #[serde(with = "millis")]
    job_gc_check_interval: Duration,
    #[serde(with = "millis_if_any")]
    job_gc_timeout: Option<Duration>,
    #[serde(with = "millis")]
    client_timeout: Duration,
    #[serde(with = "millis")]
    client_first_heartbeat_timeout: Duration,
    #[serde(with = "millis")]
    reader_timeout: Duration,
    #[serde(with = "millis_if_any")]
    worker_timeout: Option<Duration>,
    reissue_lost_splits: bool,
    #[serde(with = "millis_if_any")]
    named_job_retention: Option<Duration>,
    #[serde(with = "millis_if_any")]
    dataset_retention: Option<Duration>,
    gc_dynamic_sharding_jobs: bool,
    #[serde(with = "millis_if_any", default)]
    abandoned_iteration_retention: Option<Duration>,
    #[serde(with = "millis_if_any", default)]
    lost_worker_retention: Option<Duration>,
    #[serde(with = "millis")]
    removal_timeout: Duration,
    #[serde(default = "tensorflow_ids")]
    ids_above: Option<i64>,
    #[serde(with = "StoredBounds")]
    bounds: Bounds,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Bounds", deny_unknown_fields)]
struct StoredBounds {
    datasets: usize,
    jobs: usize,
    iterations: usize,
    clients: usize,
    tasks: usize,
    workers: usize,
    positions: usize,
    position_sources: usize,
    waiting_calls: usize,
    expiries_per_step: usize,
}

/// Ids of a new journal begin where TensorFlow's do.
#[expect(clippy::unnecessary_wraps, reason = "the field's type")]
const fn tensorflow_ids() -> Option<i64> {
    Some(0)
}

mod millis {
    use rondo_core::time::Duration;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        span.as_millis().serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

mod millis_if_any {
    use rondo_core::time::Duration;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(|span| span.as_millis()).serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let millis = Option::<u64>::deserialize(from)?;
        Ok(millis.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for seed in 0..200 {
            let (swarm, _) = Swarm::draw(&Source::seed(seed));
            assert_eq!(Swarm::from_json(&swarm.to_json().unwrap()), Ok(swarm));
        }
    }

    #[test]
    fn what_is_left_out_is_calm() {
        let (calm, _) = Swarm::draw(&Source::Tape(Tape::default()));
        assert_eq!(Swarm::from_json("{}"), Ok(calm.clone()));
        let swarm = Swarm::from_json(r#"{"workers":7,"pace":{"rounds":3}}"#).unwrap();
        let pace = super::super::Pace { rounds: 3, ..calm.pace };
        assert_eq!(swarm, Swarm { workers: 7, pace, ..calm });
    }

    #[test]
    fn what_does_not_belong_there_is_named() {
        let wrong =
            [r#"{"wokers":7}"#, r#"{"faults":{"wokers":7}}"#, r#"{"weights":{"wokers":7}}"#];
        for wrong in wrong {
            let error = Swarm::from_json(wrong).unwrap_err();
            assert!(error.contains("wokers"), "{error}");
        }
    }
}
