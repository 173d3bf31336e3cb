//! What happens to an agent at the border of its machine.

use std::sync::Arc;

use rondo_core::agent::{Reply, State};
use rondo_core::ids::{CallId, Revision, ServiceIncarnation};
use rondo_core::status::{Code, Status};
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
    /// To hear of every change of a key and of what is under it.
    StartWatch(Arc<str>),
    /// To hear no more of a key.
    StopWatch(Arc<str>),
    /// To be in error.
    Error,
    /// To have the error forgotten.
    Reset,
    /// Anything that the service answers by itself.
    Plain,
}

/// What an agent calls the service for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentCall {
    /// To register.
    Register,
    /// To show that the task lives.
    Heartbeat,
    /// To hear of the job's errors.
    Poll,
    /// To hear of changes of a watched key.
    Watch(Arc<str>),
    /// For a call of its application.
    Application,
}

/// How a call to the service has ended, as the agent hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Well; and in which life of the namespace, where the answer says it.
    Well(Option<ServiceIncarnation>),
    /// The service refused it.
    Refused(Code),
    /// The way to the service failed.
    Lost(Code),
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
        /// How the agent stands then.
        state: State,
    },
    /// Its application does not wait any more.
    Cancelled {
        /// The call.
        call: CallId,
    },
    /// It calls the service.
    Called {
        /// The agent's number for the call.
        rpc: u64,
        /// What for.
        what: AgentCall,
    },
    /// It waits no longer for an answer of the service.
    Withdrawn {
        /// The agent's number for the call.
        rpc: u64,
    },
    /// It hears how a call to the service has ended.
    Heard {
        /// The agent's number for the call.
        rpc: u64,
        /// How.
        ended: Ended,
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
    /// It tells its application of changes of a watched key.
    Changed {
        /// The key.
        key: Arc<str>,
        /// Whether these are all keys there are, in place of what was told before.
        whole: bool,
        /// The revisions of the changes, in order.
        revisions: Vec<Revision>,
    },
    /// It tells its application that it will hear no more of a watched key.
    WatchEnded {
        /// The key.
        key: Arc<str>,
    },
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
