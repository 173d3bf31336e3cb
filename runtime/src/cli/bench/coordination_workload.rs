//! What is asked of a coordination service, and what must be there before it can be asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use tokio::task::JoinSet;

use super::coordination_speech::{Coming, Dialect, Said, Speaker};
use super::load::Calls;
use super::rpc::{Broken, Connection, Drivers};

/// Length of a value, in bytes.
const VALUE_BYTES: usize = 100;
/// Keys that are written to, in turn.
const KEYS: u64 = 1024;
/// The directory of [`Workload::Directory`].
pub(super) const SMALL: Directory = Directory { key: "bench/directory", keys: 100 };
/// The directory of [`Workload::LargeDirectory`].
pub(super) const LARGE: Directory = Directory { key: "bench/large", keys: 16_384 };
/// How long the barrier waits of which all tasks but one stay away.
const LONELY_MS: u32 = 100;
/// How long all other barriers wait, in ms.
const PATIENCE_MS: u32 = 60_000;
/// How `DEADLINE_EXCEEDED` is numbered on the wire.
const DEADLINE_EXCEEDED: u32 = 4;
/// Connections that tasks register over.
const CONNECTIONS: u32 = 8;

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Workload {
    /// Heartbeat of one task after the other
    Heartbeat,
    /// TryGetKeyValue of a key of 100 bytes; etcd: Range of one key
    TryGet,
    /// InsertKeyValue of 100 bytes over what is there, in turn on 1,024 keys; etcd: Put
    Insert,
    /// The same with one connection that makes one call after the other
    InsertOne,
    /// IncrementKeyValue, in turn on 1,024 keys
    Increment,
    /// GetKeyValueDir of 100 keys of 100 bytes; etcd: Range over them
    Directory,
    /// GetKeyValueDir of 16,384 keys of 100 bytes; etcd: Range over them
    LargeDirectory,
    /// Barrier of all tasks, counted and timed from the first call to the last answer
    Barrier,
    /// How much later than due a barrier's timeout is answered
    Timeout,
    /// One connection for each task, which sends a heartbeat every --period
    Connected,
}

impl Workload {
    /// Its name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// A directory and how many keys are in it.
#[derive(Clone, Copy)]
pub(super) struct Directory {
    /// The directory.
    pub(super) key: &'static str,
    keys: u64,
}

impl Directory {
    /// The keys.
    pub(super) fn keys(self) -> impl Iterator<Item = String> {
        (0..self.keys).map(move |number| format!("{}/{number}", self.key))
    }
}

/// A service to be measured, all of whose tasks have registered.
pub(super) struct Job {
    speaker: Speaker,
    tasks: u32,
    /// Over which they registered: a task whose connection breaks may count as gone.
    connections: Vec<Connection>,
    _drivers: Drivers,
}

impl Job {
    /// Registers so many tasks with the service at `address`.
    ///
    /// # Errors
    /// When the service refuses one, or cannot be reached.
    pub(super) async fn register(
        address: SocketAddr,
        dialect: Dialect,
        tasks: u32,
    ) -> Result<Self, Broken> {
        let mut drivers = Drivers::new();
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Connection::open(address, &mut drivers).await?);
        }
        let mut speaker = Speaker::new(dialect);
        let mut registrations = JoinSet::new();
        for (task, connection) in (0..tasks).zip(connections.iter().cycle()) {
            let mut connection = connection.clone();
            registrations.spawn(async move {
                connection.call(speaker.path(Said::Register), &speaker.register(task)).await
            });
        }
        while let Some(answered) = registrations.join_next().await {
            let answer = answered??;
            if answer.code != 0 {
                return Err(format!("registration: {} {}", answer.code, answer.text).into());
            }
            speaker.registered(answer.message)?;
        }
        Ok(Self { speaker, tasks, connections, _drivers: drivers })
    }

    /// Puts into the service what the workload needs, and says what to call.
    ///
    /// # Errors
    /// When the service refuses something, or cannot be reached.
    pub(super) async fn prepare(&mut self, workload: Workload) -> Result<Arc<dyn Calls>, Broken> {
        let (speaker, tasks) = (self.speaker, self.tasks);
        let value = value();
        Ok(match workload {
            Workload::Heartbeat | Workload::Connected => {
                made(speaker, Said::Heartbeat, move |serial| {
                    speaker.heartbeat(task_of(serial, tasks))
                })
            }
            Workload::TryGet => {
                self.insert(key_of(0), value).await?;
                made(speaker, Said::TryGet, move |_| speaker.try_get(key_of(0)))
            }
            Workload::Insert | Workload::InsertOne => made(speaker, Said::Insert, move |serial| {
                speaker.insert(key_of(serial), value.clone())
            }),
            Workload::Increment => made(speaker, Said::Increment, move |serial| {
                speaker.increment(format!("bench/count/{}", serial % KEYS))
            }),
            Workload::Directory => self.fill(SMALL, &value).await?,
            Workload::LargeDirectory => self.fill(LARGE, &value).await?,
            Workload::Barrier => made(speaker, Said::Barrier, move |serial| {
                let id = format!("bench/all/{}", serial / u64::from(tasks)).into();
                let coming = Coming { id, timeout_ms: PATIENCE_MS };
                speaker.barrier(&coming, task_of(serial, tasks))
            }),
            Workload::Timeout => Arc::new(Lonely { speaker, tasks }),
        })
    }

    /// Puts a directory's keys, and says how to ask for it.
    async fn fill(
        &mut self,
        directory: Directory,
        value: &Bytes,
    ) -> Result<Arc<dyn Calls>, Broken> {
        for key in directory.keys() {
            self.insert(key, value.clone()).await?;
        }
        let speaker = self.speaker;
        Ok(made(speaker, Said::Directory, move |_| speaker.directory(directory.key.into())))
    }

    async fn insert(&mut self, key: String, value: Bytes) -> Result<(), Broken> {
        let (path, message) = (self.speaker.path(Said::Insert), self.speaker.insert(key, value));
        let connection = self.connections.first_mut().ok_or("no connection")?;
        let answer = connection.call(path, &message).await?;
        match answer.code {
            0 => Ok(()),
            code => Err(format!("InsertKeyValue: {code} {}", answer.text).into()),
        }
    }
}

/// The key that the call of this number writes to.
pub(super) fn key_of(serial: u64) -> String {
    format!("bench/key/{}", serial % KEYS)
}

/// What a key gets.
pub(super) fn value() -> Bytes {
    Bytes::from_static(&[b'v'; VALUE_BYTES])
}

fn task_of(serial: u64, tasks: u32) -> u32 {
    u32::try_from(serial % u64::from(tasks)).unwrap_or_default()
}

fn made(
    speaker: Speaker,
    said: Said,
    message: impl Fn(u64) -> Bytes + Send + Sync + 'static,
) -> Arc<dyn Calls> {
    Arc::new(Made { path: speaker.path(said), message })
}

/// Calls whose messages are made by their numbers.
pub(super) struct Made<F> {
    /// The method's path.
    pub(super) path: &'static str,
    /// The message of the call of a number.
    pub(super) message: F,
}

impl<F: Fn(u64) -> Bytes + Send + Sync + 'static> Calls for Made<F> {
    fn path(&self) -> &'static str {
        self.path
    }

    fn message(&self, serial: u64) -> Bytes {
        (self.message)(serial)
    }
}

/// One task at a barrier to which the others never come.
struct Lonely {
    speaker: Speaker,
    tasks: u32,
}

impl Calls for Lonely {
    fn path(&self) -> &'static str {
        self.speaker.path(Said::Barrier)
    }

    fn message(&self, serial: u64) -> Bytes {
        let id = format!("bench/lonely/{serial}").into();
        let coming = Coming { id, timeout_ms: LONELY_MS };
        self.speaker.barrier(&coming, task_of(serial, self.tasks))
    }

    fn code(&self) -> u32 {
        DEADLINE_EXCEEDED
    }

    fn due_after(&self) -> Duration {
        Duration::from_millis(u64::from(LONELY_MS))
    }
}
