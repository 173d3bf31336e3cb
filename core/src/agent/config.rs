//! How an agent takes part.

use alloc::sync::Arc;

use crate::ids::{Incarnation, TaskIndex};
use crate::time::Duration;

/// An agent's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The job.
    pub job: Arc<str>,
    /// Which task of it this process is.
    pub task: TaskIndex,
    /// This run of the process, drawn by whoever starts it.
    pub incarnation: Incarnation,
    /// Whether the job lives on when this task dies, and this task may come back.
    pub recoverable: bool,
    /// How long to try to register.
    pub register_timeout: Duration,
    /// How long the server lets a task be silent. Heartbeats go out twice as often.
    pub heartbeat_timeout: Duration,
    /// How long the server lets the first task that leaves wait for the last.
    pub shutdown_timeout: Duration,
    /// Whether to hear of the job's errors.
    pub polls_for_errors: bool,
}

impl Config {
    /// A task with JAX's defaults.
    pub fn of(job: impl Into<Arc<str>>, task: TaskIndex, incarnation: Incarnation) -> Self {
        Self {
            job: job.into(),
            task,
            incarnation,
            recoverable: false,
            register_timeout: Duration::from_secs(300),
            heartbeat_timeout: Duration::from_secs(100),
            shutdown_timeout: Duration::from_secs(300),
            polls_for_errors: true,
        }
    }

    /// How often to show that the task lives, and how long that may take.
    pub(super) const fn heartbeat_period(&self) -> Duration {
        Duration::from_nanos(self.heartbeat_timeout.as_nanos() / 2)
    }
}
