//! Lives a history with the dispatcher and the model side by side.

use rondo_core::control::Record;
use rondo_core::dispatcher::Config;
use rondo_core::time::Duration;

use crate::both::{Both, Reached};
use crate::drawing::Dice;
use crate::happening::Happening;

/// What differs between the dispatchers that live histories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Whether the workers that may register are listed.
    pub(crate) listed: bool,
    pub(crate) gc_dynamic_sharding_jobs: bool,
    pub(crate) reissue_lost_splits: bool,
    /// Whether ids begin one above TensorFlow's.
    pub(crate) raises_ids: bool,
}

/// Timeouts short enough for a history to meet them.
fn config(settings: Settings) -> Config {
    let worker_addresses = match settings.listed {
        true => vec!["w0:1".into(), "w1".into()],
        false => Vec::new(),
    };
    Config {
        worker_addresses,
        gc_dynamic_sharding_jobs: settings.gc_dynamic_sharding_jobs,
        reissue_lost_splits: settings.reissue_lost_splits,
        job_gc_check_interval: Duration::from_secs(1),
        job_gc_timeout: Some(Duration::from_secs(30)),
        named_job_retention: Some(Duration::from_secs(40)),
        dataset_retention: Some(Duration::from_secs(2)),
        client_timeout: Duration::from_secs(10),
        client_first_heartbeat_timeout: Duration::from_secs(60),
        reader_timeout: Duration::from_secs(8),
        worker_timeout: Some(Duration::from_secs(10)),
        abandoned_iteration_retention: Some(Duration::from_secs(50)),
        lost_worker_retention: Some(Duration::from_secs(20)),
        ids_above: Some(i64::from(settings.raises_ids)),
        ..Config::default()
    }
}

/// What came of a history.
pub(crate) struct Lived {
    pub(crate) reached: Reached,
    /// What is in the journal at its end.
    pub(crate) journal: Vec<Record>,
}

/// Lives a history.
pub(crate) fn live(settings: Settings, history: &[Happening]) -> Lived {
    let mut reached = Reached::new();
    let mut both = Both::start(config(settings), &mut reached);
    for happening in history {
        both.happen(happening);
    }
    let journal = both.end();
    Lived { reached, journal }
}

/// Lives the history for which these bytes stand.
pub(crate) fn live_by(bytes: &[u8]) -> Lived {
    let mut dice = Dice::new(bytes);
    let bits = dice.byte();
    let settings = Settings {
        listed: bits & 1 != 0,
        gc_dynamic_sharding_jobs: bits & 2 != 0,
        reissue_lost_splits: bits & 4 != 0,
        raises_ids: bits & 8 != 0,
    };
    live(settings, &dice.history())
}
