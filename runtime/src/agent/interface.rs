//! An agent as its application holds it, and how its calls come to the loop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rondo_core::agent::{Ask, Config, Reply, State};
use rondo_core::ids::{CallId, ServiceIncarnation, TaskIndex};
use rondo_core::limits::COORDINATION_TASKS_MAX;
use rondo_core::status::{Code, Status};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::driver::{Happened, Outcome, drive};
use super::way::Way;
use crate::clock::Clock;
use crate::entropy::Entropy;

/// Calls of the application under way at most.
const CALLS_MAX: usize = 1024;
/// Calls about the task itself under way at most; above it, they wait.
const OWN_CALLS_MAX: usize = 16;

/// An agent. Clones are the same one; when the last is dropped it ends, without leaving the job.
#[derive(Clone)]
pub struct Agent {
    pub(super) happened: mpsc::UnboundedSender<Happened>,
    pub(super) view: Arc<Mutex<View>>,
    calls: Arc<AtomicU64>,
    room: Arc<Semaphore>,
    own_room: Arc<Semaphore>,
}

/// How an agent stands, as far as its application may see.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) state: State,
    pub(super) error: Option<Status>,
    pub(super) life: Option<ServiceIncarnation>,
    pub(super) devices: Option<Bytes>,
    pub(super) task: Option<TaskIndex>,
}

impl Agent {
    /// An agent that does not know yet who it is, and its way to the server.
    pub fn start(way: Way, clock: Clock, entropy: Entropy) -> Self {
        let view = View {
            state: State::Uninitialized,
            error: None,
            life: None,
            devices: None,
            task: None,
        };
        let view = Arc::new(Mutex::new(view));
        let happened = drive(way, clock, entropy, Arc::clone(&view));
        Self {
            happened,
            view,
            calls: Arc::new(AtomicU64::new(1)),
            room: Arc::new(Semaphore::new(CALLS_MAX)),
            own_room: Arc::new(Semaphore::new(OWN_CALLS_MAX)),
        }
    }

    /// Says who this task is. `on_error` is called once each time the agent comes to be in error.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a task that no job can have; FAILED_PRECONDITION while the task takes part or is
    /// in error.
    pub async fn initialize(
        &self,
        config: Config,
        on_error: impl Fn(Status) + Send + Sync + 'static,
    ) -> Result<(), Status> {
        check_task(config.task)?;
        let (reply, answer) = oneshot::channel();
        self.tell(Happened::Initialize(Box::new(config), Arc::new(on_error), reply));
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Whether it knows who it is.
    pub fn is_initialized(&self) -> bool {
        self.state() != State::Uninitialized
    }

    /// How it stands.
    pub fn state(&self) -> State {
        self.view(|view| view.state)
    }

    /// Why it is in error, if it is.
    pub fn error(&self) -> Option<Status> {
        self.view(|view| view.error.clone())
    }

    /// The life of the namespace in which the task registered.
    pub fn life(&self) -> Option<ServiceIncarnation> {
        self.view(|view| view.life)
    }

    pub(super) fn view<T>(&self, read: impl FnOnce(&View) -> T) -> T {
        read(&self.view.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks for something about the task itself. Such calls find room whatever else is under way.
    pub(super) async fn ask_own(&self, ask: Ask) -> Outcome {
        let permit = Arc::clone(&self.own_room).acquire_owned().await.map_err(|_| ended())?;
        self.pass(permit, |call, reply| Happened::Asked(call, ask, reply)).await
    }

    /// Asks for anything else.
    pub(super) async fn ask(&self, ask: Ask) -> Outcome {
        let permit = self.permit()?;
        self.pass(permit, |call, reply| Happened::Asked(call, ask, reply)).await
    }

    /// Room for a call.
    pub(super) fn permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            let text = format!("{CALLS_MAX} calls of this agent are under way, which is the bound");
            Status::new(Code::ResourceExhausted, text)
        })
    }

    /// Brings a call to the loop and waits for its answer. Dropping the future takes it back.
    pub(super) async fn pass(
        &self,
        _permit: OwnedSemaphorePermit,
        happened: impl FnOnce(CallId, oneshot::Sender<Outcome>) -> Happened,
    ) -> Outcome {
        let call = CallId::new(self.calls.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        self.tell(happened(call, reply));
        let mut waiting = Waiting { agent: self, call: Some(call) };
        let answer = answer.await;
        waiting.call = None;
        answer.unwrap_or_else(|_| Err(ended()))
    }

    pub(super) fn tell(&self, happened: Happened) {
        // A loop that has ended answers nobody, which whoever waits notices.
        let _ = self.happened.send(happened);
    }
}

/// A call as long as the application waits.
struct Waiting<'a> {
    agent: &'a Agent,
    call: Option<CallId>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.agent.tell(Happened::Cancelled(call));
        }
    }
}

fn ended() -> Status {
    Status::new(Code::Unavailable, "the agent's loop has ended with its runtime")
}

/// What an answer must be, for a call that wants this kind.
pub(super) fn unexpected(what: &str, reply: &Reply) -> Status {
    Status::new(Code::Internal, format!("{what} was answered with {reply:?}"))
}

/// Refuses a task that no job can have.
pub(super) fn check_task(task: TaskIndex) -> Result<(), Status> {
    let index = task.get();
    match usize::try_from(index) {
        Ok(place) if place < COORDINATION_TASKS_MAX => Ok(()),
        _ => {
            let last = COORDINATION_TASKS_MAX.saturating_sub(1);
            let text =
                format!("task is {index}: a job's tasks are counted from 0 to {last} at most");
            Err(Status::new(Code::InvalidArgument, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_no_job_can_have_is_refused_by_its_number() {
        for index in [0, 1, 65_535] {
            assert_eq!(check_task(TaskIndex::new(index)), Ok(()));
        }
        for index in [-1, i32::MIN, 65_536, i32::MAX] {
            let refused = check_task(TaskIndex::new(index)).unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument);
            assert!(refused.message.contains(&format!("task is {index}")), "{refused}");
        }
    }
}
