//! What happens to an agent at the border of its machine.

use std::sync::Arc;

use rondo_core::agent::{Reply, State};
use rondo_core::ids::CallId;
use rondo_core::status::Status;
use rondo_core::time::Duration;

/// What an application's call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppCall {
    /// To register.
    Connect,
    /// To leave.
    Shutdown,
    /// To meet others at a barrier.
    Barrier(Arc<str>),
    /// Anything else.
    Other,
}

/// Something that happens to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfAgent {
    /// Its process begins.
    Began {
        /// How long it tries to register.
        register: Duration,
        /// How long the first task that leaves waits for the last.
        shutdown: Duration,
    },
    /// Its application asks for something.
    Asked {
        /// The call.
        call: CallId,
        /// What for.
        what: AppCall,
    },
    /// Its application does not wait any more.
    Cancelled {
        /// The call.
        call: CallId,
    },
    /// A heartbeat was answered, or failed.
    Beat {
        /// Whether it was answered well.
        good: bool,
    },
    /// It answers its application.
    Done {
        /// The call.
        call: CallId,
        /// The answer.
        result: Result<Reply, Status>,
    },
    /// It tells its application of an error.
    Failed,
    /// A tick that was due has changed nothing.
    Spins,
    /// How it stands when all that was due has happened.
    Looked {
        /// Its state.
        state: State,
        /// Whether it tells an error.
        error: bool,
        /// Whether it registers.
        connecting: bool,
    },
}
