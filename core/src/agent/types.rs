//! What happens to an agent, and what it asks its driver to do.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;

use super::config::Config;
use crate::ids::{CallId, Incarnation, Revision, ServiceIncarnation, TaskIndex};
use crate::status::{Code, Status};
use crate::time::Duration;

/// How an agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It knows nothing.
    Uninitialized,
    /// It knows who it is, and takes no part.
    Disconnected,
    /// It takes part.
    Running,
    /// Something went wrong, and its error callback was told.
    Error,
}

/// A call to the server, counted from 1 in each agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RpcId(pub u64);

/// What the application asks of its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Registers, once everybody else does, and begins to show that the task lives.
    Connect,
    /// Waits until all tasks have said which devices they have; the answer is remembered.
    WaitForAllTasks {
        /// This task's encoded devices.
        devices: Bytes,
    },
    /// Tells the job of an error of this task, which is its own from then on.
    ReportError {
        /// Its code.
        code: Code,
        /// Its text.
        message: String,
    },
    /// Has the server forget this task's error, and forgets it too.
    Reset,
    /// Leaves, together with everybody else.
    Shutdown,
    /// Waits at a barrier for others.
    Barrier {
        /// Its name.
        id: Arc<str>,
        /// How long the first waits for the last.
        timeout: Duration,
        /// Who must come; empty for all.
        tasks: Vec<TaskIndex>,
    },
    /// Ends a barrier that is going on.
    CancelBarrier {
        /// Its name.
        id: Arc<str>,
    },
    /// Hears of every change of a key and of what is under it, from what is there now on.
    StartWatch {
        /// The key; "" for all.
        key: Arc<str>,
    },
    /// Hears no more of it.
    StopWatch {
        /// The key.
        key: Arc<str>,
    },
    /// Tells this agent alone of changes of a watched key.
    ActivateWatch {
        /// The key.
        key: Arc<str>,
        /// What to tell.
        changes: Vec<KeyChange>,
    },
    /// Puts this agent in error, without telling the server.
    SetError {
        /// The error.
        status: Status,
    },
    /// Anything that the server answers by itself.
    Call(Request),
}

/// When a key is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutCondition {
    /// In any case.
    Always,
    /// When it is there.
    Present,
    /// When it is not there.
    Absent,
    /// When its newest change has this revision; 0 when it is not there.
    Revision(Revision),
}

/// A request to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `RegisterTask`.
    Register,
    /// `Heartbeat`.
    Heartbeat,
    /// `PollForError`.
    PollForError,
    /// `WaitForAllTasks`.
    WaitForAllTasks {
        /// This task's encoded devices.
        devices: Bytes,
    },
    /// `ReportErrorToService`.
    ReportError {
        /// The error's code.
        code: Code,
        /// Its text.
        message: String,
    },
    /// `ResetTask`.
    Reset,
    /// `ShutdownTask`.
    Shutdown,
    /// `Barrier`.
    Barrier {
        /// Its name.
        id: Arc<str>,
        /// Its instance.
        counter: i64,
        /// How long the first waits for the last.
        timeout: Duration,
        /// Who must come; empty for all.
        tasks: Vec<TaskIndex>,
    },
    /// `CancelBarrier`.
    CancelBarrier {
        /// Its name.
        id: Arc<str>,
        /// Its instance.
        counter: i64,
    },
    /// `GetTaskState` of one task.
    TaskStatus {
        /// Its job.
        job: Arc<str>,
        /// Its number.
        task: TaskIndex,
    },
    /// `WatchJobState`: waits until a task stands otherwise than in a version.
    WatchJob {
        /// The version known; -1 for none.
        version: i64,
    },
    /// `GetAliveTasks`.
    AliveTasks {
        /// Of whom.
        tasks: Vec<TaskIndex>,
    },
    /// `GetKeyValue`: waits until the key is there.
    Get {
        /// The key.
        key: String,
    },
    /// `TryGetKeyValue`.
    TryGet {
        /// The key.
        key: String,
    },
    /// `InsertKeyValue`, of a key that is not there yet.
    Insert {
        /// The key.
        key: String,
        /// Its value.
        value: Bytes,
    },
    /// `rondo.v1`: insertion, update, compare-and-swap, at once with the condition's check.
    Put {
        /// The key.
        key: String,
        /// Its value.
        value: Bytes,
        /// When to put it.
        condition: PutCondition,
        /// Whether the key dies with this task.
        leased: bool,
    },
    /// `DeleteKeyValue`: the key and all under it.
    Delete {
        /// The key.
        key: String,
    },
    /// `IncrementKeyValue`.
    Increment {
        /// The key.
        key: String,
        /// By how much.
        increment: i64,
    },
    /// `GetKeyValueDir`.
    Directory {
        /// The directory.
        key: String,
    },
    /// `rondo.v1`: waits for changes of a key and of what is under it.
    Watch {
        /// The key.
        key: Arc<str>,
        /// The revision up to which everything is known.
        from: Option<Revision>,
    },
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Done,
    /// To a registration or a heartbeat: the namespace's life.
    Life(ServiceIncarnation),
    /// Everybody's devices, encoded.
    Devices(Bytes),
    /// All have come to this instance of the barrier.
    Barrier {
        /// The instance.
        counter: i64,
    },
    /// How a task stands.
    Task(TaskStatus),
    /// How all tasks stand.
    Job(JobStatus),
    /// Who is alive, with incarnations.
    Alive(Vec<(TaskIndex, Incarnation)>),
    /// A key's value.
    Value(Bytes),
    /// Keys with their values.
    Entries(Vec<(String, Bytes)>),
    /// The key is put, with this revision.
    Put(Revision),
    /// A watched key.
    Changes {
        /// Whether this is all there is, in place of what was known.
        whole: bool,
        /// The changes, in order.
        changes: Vec<KeyChange>,
        /// The revision up to which everything is known now.
        upto: Revision,
    },
}

/// How another task stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStatus {
    /// Its state.
    pub state: State,
    /// Its error, if it is in error.
    pub error: Option<Status>,
}

/// How the tasks of a job stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// Each with its number.
    pub tasks: Vec<(TaskIndex, TaskStatus)>,
    /// Grows with each change.
    pub version: i64,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// The key.
    pub key: Arc<str>,
    /// The revision this change made; that of the key's newest change where all there is is told.
    pub revision: Revision,
    /// Its value; `None` when it is gone.
    pub value: Option<Bytes>,
    /// Whether all under it is gone too.
    pub with_all_under: bool,
}

/// What happens to an agent.
#[derive(Clone, Debug)]
pub enum Input {
    /// It learns who it is.
    Initialize {
        /// Its settings.
        config: Config,
    },
    /// The application asks for something.
    Asked {
        /// Names the call in its answer.
        call: CallId,
        /// What for.
        ask: Ask,
    },
    /// The application does not wait for it any more.
    Cancel {
        /// The call.
        call: CallId,
    },
    /// The server has answered, or the call to it has failed.
    Answered {
        /// The call to the server.
        rpc: RpcId,
        /// The answer.
        result: Result<Reply, Status>,
        /// A fresh random number.
        entropy: u64,
    },
    /// Time has passed. Early and repeated ticks do nothing.
    Tick,
}

/// What an agent asks of its driver, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Call the server.
    Send {
        /// Names the call in [`Input::Answered`].
        rpc: RpcId,
        /// What for.
        request: Request,
        /// How long it may take.
        deadline: Option<Duration>,
    },
    /// Take a call to the server back.
    Withdraw {
        /// The call.
        rpc: RpcId,
    },
    /// Answer the application.
    Done {
        /// Its call.
        call: CallId,
        /// The answer.
        result: Result<Reply, Status>,
    },
    /// Tell the application, once, that the agent is in error.
    Failed {
        /// Why.
        status: Status,
    },
    /// Tell the application of changes of a watched key.
    Changed {
        /// The key.
        key: Arc<str>,
        /// Whether this is all there is, in place of what was told before.
        whole: bool,
        /// The changes, in order.
        changes: Vec<KeyChange>,
    },
    /// Tell the application that it will hear no more of a watched key.
    WatchEnded {
        /// The key.
        key: Arc<str>,
        /// Why.
        status: Status,
    },
}
