//! The task itself, the others, and barriers.

use std::time::Duration;

use bytes::Bytes;
use rondo_core::agent::{Ask, JobStatus, Reply, Request, TaskStatus};
use rondo_core::ids::{Incarnation, ServiceIncarnation, TaskIndex};
use rondo_core::status::{Code, Status};
use rondo_core::time;
use rondo_proto::convert;

use super::interface::{Agent, unexpected};

impl Agent {
    /// Registers, once everybody else does, and begins to show that the task lives. Tried again
    /// until the registration timeout is over.
    ///
    /// # Errors
    /// The server's refusal, which puts the agent in error; FAILED_PRECONDITION unless it is
    /// disconnected.
    pub async fn connect(&self) -> Result<ServiceIncarnation, Status> {
        match self.ask_own(Ask::Connect).await? {
            Reply::Life(life) => Ok(life),
            other => Err(unexpected("Connect", &other)),
        }
    }

    /// Waits until all tasks have said which devices they have, each an encoded
    /// `google.protobuf.Any`, and says so for this one.
    ///
    /// # Errors
    /// The server's refusal; FAILED_PRECONDITION unless the task takes part.
    pub async fn wait_for_all_tasks(&self, devices: &[Bytes]) -> Result<(), Status> {
        let devices = convert::encode_devices(devices);
        self.ask_own(Ask::WaitForAllTasks { devices }).await.map(drop)
    }

    /// All tasks' devices in order of the tasks, once [`Agent::wait_for_all_tasks`] was answered;
    /// none before.
    ///
    /// # Errors
    /// INTERNAL when the server's answer was malformed.
    pub fn cluster_device_attributes(&self) -> Result<Vec<Bytes>, Status> {
        let devices = self.view(|view| view.devices.clone()).unwrap_or_default();
        convert::decode_devices(&devices)
    }

    /// How a task of a job stands.
    ///
    /// # Errors
    /// The server's refusal: INVALID_ARGUMENT for a task that there is not.
    pub async fn task_status(&self, job: &str, task: TaskIndex) -> Result<TaskStatus, Status> {
        let request = Request::TaskStatus { job: job.into(), task };
        match self.ask(Ask::Call(request)).await? {
            Reply::Task(status) => Ok(status),
            other => Err(unexpected("GetTaskState", &other)),
        }
    }

    /// Waits until the job's tasks stand otherwise than in this version, -1 for none, and says how.
    ///
    /// # Errors
    /// The server's refusal: INVALID_ARGUMENT for a version that there has not been.
    pub async fn watch_job_state(&self, version: i64) -> Result<JobStatus, Status> {
        match self.ask(Ask::Call(Request::WatchJob { version })).await? {
            Reply::Job(status) => Ok(status),
            other => Err(unexpected("WatchJobState", &other)),
        }
    }

    /// Who of these tasks is alive, this one among them, as soon as all that are have asked.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn alive_tasks(
        &self,
        tasks: &[TaskIndex],
    ) -> Result<Vec<(TaskIndex, Incarnation)>, Status> {
        match self.ask(Ask::Call(Request::AliveTasks { tasks: tasks.to_vec() })).await? {
            Reply::Alive(alive) => Ok(alive),
            other => Err(unexpected("GetAliveTasks", &other)),
        }
    }

    /// Tells the job of an error of this task, which puts this agent in error.
    ///
    /// # Errors
    /// The server's refusal; FAILED_PRECONDITION unless the task takes part.
    pub async fn report_error(&self, code: Code, message: &str) -> Result<(), Status> {
        let message = message.to_owned();
        self.ask_own(Ask::ReportError { code, message }).await.map(drop)
    }

    /// Has the server forget this task's error, and forgets it too: the agent is disconnected.
    ///
    /// # Errors
    /// The server's refusal; FAILED_PRECONDITION unless the agent is in error.
    pub async fn reset(&self) -> Result<(), Status> {
        self.ask_own(Ask::Reset).await.map(drop)
    }

    /// Puts this agent in error without telling the server.
    ///
    /// # Errors
    /// FAILED_PRECONDITION before the agent is initialized.
    pub async fn set_error(&self, status: Status) -> Result<(), Status> {
        self.ask_own(Ask::SetError { status }).await.map(drop)
    }

    /// Leaves, together with everybody else. Nothing of this agent waits any more then.
    ///
    /// # Errors
    /// The server's refusal, after which the agent has left nevertheless; FAILED_PRECONDITION when it
    /// is in error.
    pub async fn shutdown(&self) -> Result<(), Status> {
        self.ask_own(Ask::Shutdown).await.map(drop)
    }

    /// Waits at a barrier for these tasks, or for all when there are none. The first to come says
    /// how long it may take. Returns which instance of the barrier it was, counted from 0.
    ///
    /// # Errors
    /// The server's: DEADLINE_EXCEEDED when not all came in time, and what else ends a barrier.
    pub async fn wait_at_barrier(
        &self,
        id: &str,
        timeout: Duration,
        tasks: &[TaskIndex],
    ) -> Result<i64, Status> {
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let timeout = time::Duration::from_nanos(nanos);
        let ask = Ask::Barrier { id: id.into(), timeout, tasks: tasks.to_vec() };
        match self.ask(ask).await? {
            Reply::Barrier { counter } => Ok(counter),
            other => Err(unexpected("Barrier", &other)),
        }
    }

    /// Ends a barrier that is going on.
    ///
    /// # Errors
    /// The server's refusal: FAILED_PRECONDITION when all have come.
    pub async fn cancel_barrier(&self, id: &str) -> Result<(), Status> {
        self.ask_own(Ask::CancelBarrier { id: id.into() }).await.map(drop)
    }
}
