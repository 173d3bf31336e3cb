//! Rondo's own coordination service as a source of clusters: what it tells of its job, and the addresses that
//! tasks announce there.

use std::time::Duration;

use bytes::Bytes;
use rondo_core::agent::{Config, PutCondition, Reply, Request, State, TaskStatus};
use rondo_core::cluster::{ADDRESS_KEYS, Coordinated, Error, Fault, Standing, address_key};
use rondo_core::ids::{Incarnation, TaskIndex};
use rondo_core::limits::{CLUSTER_DOCUMENT_BYTES_MAX, NAME_BYTES_MAX};
use rondo_core::status::{Code, Status};
use rondo_proto::convert;
use tokio::time::{Instant, sleep};

use super::may_pass;
use crate::transport::{Client, MessageStream, Transport};

/// How long is waited before a task that is not connected is asked for again; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// And no longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What a service tells of its job: how all tasks stand, and what is announced.
pub(super) async fn ask(server: &str, timeout: Duration) -> Result<Coordinated, String> {
    let client = Client::new();
    let ask = |request| one(&client, server, 0, request, timeout);
    let (tasks, keys) = tokio::join!(
        ask(Request::WatchJob { version: -1 }),
        ask(Request::Directory { key: ADDRESS_KEYS.into() })
    );
    match (tasks.map_err(|status| status.to_string())?, keys.map_err(|status| status.to_string())?)
    {
        (Reply::Job(job), Reply::Entries(entries)) => Ok(Coordinated {
            tasks: job.tasks.into_iter().filter_map(standing).collect(),
            keys: entries.into_iter().map(|(key, value)| (key, value.to_vec())).collect(),
        }),
        (tasks, keys) => Err(format!("answered with {tasks:?} and {keys:?}")),
    }
}

/// A task's number and how it stands. No task has a negative one.
fn standing((task, status): (TaskIndex, TaskStatus)) -> Option<(u32, Standing)> {
    let standing = match (status.state, status.error) {
        (State::Running, _) => Standing::Connected,
        (State::Error, error) => {
            Standing::Error(error.map(|error| error.to_string()).unwrap_or_default())
        }
        (State::Uninitialized | State::Disconnected, _) => Standing::Absent,
    };
    Some((u32::try_from(task.get()).ok()?, standing))
}

/// A request as anybody may make it, or as about this task.
fn encoded(task: u32, request: &Request) -> (&'static str, Bytes) {
    let task = TaskIndex::new(i32::try_from(task).unwrap_or(i32::MAX));
    let config = Config::of("", task, Incarnation::new(0));
    convert::encode_agent_request(&config, None, request)
}

async fn one(
    client: &Client,
    server: &str,
    task: u32,
    request: Request,
    timeout: Duration,
) -> Result<Reply, Status> {
    let (path, message) = encoded(task, &request);
    let answer = client.unary(server, path, message, timeout).await?;
    if answer.len() > CLUSTER_DOCUMENT_BYTES_MAX {
        let text = format!(
            "{} bytes, more than the {CLUSTER_DOCUMENT_BYTES_MAX} that an answer may have",
            answer.len()
        );
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    convert::decode_agent_reply(&request, &answer)
}

/// Announces where a task listens, to all who resolve the cluster by this service (`HOST:PORT`), for as long
/// as the task is connected. Waits until it is.
///
/// # Errors
/// MALFORMED for an address that is none. When the time is up: NOT_READY for a task that is not connected,
/// UNREACHABLE where the service does not answer. What else it refuses, at once.
pub async fn announce(
    server: &str,
    task: u32,
    address: &str,
    timeout: Duration,
) -> Result<(), Error> {
    if address.is_empty() || address.len() > NAME_BYTES_MAX {
        let text = format!("{} bytes, an address has 1 to {NAME_BYTES_MAX}", address.len());
        return Err(Error::new(Fault::Malformed, "address", text));
    }
    let (client, deadline) = (Client::new(), Instant::now() + timeout);
    let (mut pause, mut before) = (PAUSE_MIN, None);
    loop {
        let put = Request::Put {
            key: address_key(task),
            value: Bytes::copy_from_slice(address.as_bytes()),
            condition: PutCondition::Always,
            leased: true,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let error = match one(&client, server, task, put, left).await {
            Ok(_) => return Ok(()),
            // A call that the deadline cut off tells less than the one before.
            Err(status) if status.code == Code::DeadlineExceeded => {
                return Err(before.unwrap_or_else(|| refused(server, &status)));
            }
            Err(status) => refused(server, &status),
        };
        if !may_pass(error.fault) || Instant::now() + pause >= deadline {
            return Err(error);
        }
        before = Some(error);
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn refused(server: &str, status: &Status) -> Error {
    let fault = match status.code {
        Code::FailedPrecondition => Fault::NotReady,
        Code::Unavailable | Code::DeadlineExceeded => Fault::Unreachable,
        Code::PermissionDenied | Code::Unauthenticated => Fault::Forbidden,
        Code::Unimplemented => Fault::Unsupported,
        _ => Fault::Malformed,
    };
    Error::new(fault, server, status.to_string())
}

/// Tells when a cluster that a service serves may have changed.
pub struct Announced {
    stream: MessageStream,
    _client: Client,
}

impl Announced {
    /// Begins to listen. The first [`Self::changed`] ends when the service listens too, and so comes at once.
    pub fn listen(server: &str) -> Self {
        let client = Client::new();
        let (path, message) = encoded(0, &Request::Watch { key: ADDRESS_KEYS.into(), from: None });
        Self { stream: client.streaming(server, path, message), _client: client }
    }

    /// Waits for a change of what tasks announce: one came with its address, moved, left or died. May be
    /// dropped and called again.
    ///
    /// # Errors
    /// Why nothing more is heard.
    pub async fn changed(&mut self) -> Result<(), Status> {
        let gone = || Status::new(Code::Unavailable, "the service has ended the stream");
        self.stream.next().await?.map(drop).ok_or_else(gone)
    }
}
