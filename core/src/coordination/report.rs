//! A picture of the coordination service for people and scripts: what `rondo status` and
//! `rondo why` print.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// All namespaces at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Namespaces, by id.
    pub namespaces: Vec<NamespaceReport>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamespaceReport {
    /// Its name.
    pub name: String,
    /// Counts its lives, from 1.
    pub life: u64,
    /// The present life, as clients know it, in decimal.
    pub incarnation: String,
    /// Number of tasks, once known.
    pub tasks_expected: Option<u32>,
    /// How many tasks are connected.
    pub tasks_connected: u64,
    /// Tasks that never registered in this life, as ranges.
    pub never_registered: String,
    /// Tasks that registered, by number.
    pub tasks: Vec<CoordinationTaskReport>,
    /// What is waited for, the longest first: barriers, then keys.
    pub waits: Vec<WaitReport>,
    /// The error with which every poll ends.
    pub error: Option<String>,
    /// Keys.
    pub keys: u64,
    /// Keys and values, in bytes.
    pub size_bytes: u64,
    /// Counts changes of keys.
    pub revision: u64,
    /// Calls that wait.
    pub waiting_calls: u64,
    /// How long a task may be silent before it counts as dead; absent where a server of a former release
    /// does not say it.
    pub heartbeat_timeout_ms: Option<u64>,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoordinationTaskReport {
    /// Its number.
    pub task: i32,
    /// How it stands: `registering`, `connected`, `disconnected` or `error`.
    pub state: String,
    /// For how long, in ms.
    pub since_ms: u64,
    /// Its newest incarnation, in decimal.
    pub incarnation: String,
    /// Whether it may come back after its death.
    pub recoverable: bool,
    /// The address it last spoke from.
    pub peer: Option<String>,
    /// Time since its last sign of life to this process, in ms; absent before the first.
    pub silent_ms: Option<u64>,
    /// What it last did besides.
    pub last_did: Option<String>,
    /// How long ago, in ms.
    pub last_did_ms: Option<u64>,
    /// Its error.
    pub error: Option<String>,
    /// How far it is, by its progress key.
    pub progress: Option<String>,
    /// For how long it has been there, in ms.
    pub progress_ms: Option<u64>,
    /// In what way it is stuck.
    pub stuck: Option<String>,
}

/// Something that is waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitReport {
    /// `barrier` or `key`.
    pub kind: String,
    /// The barrier with its instance, or the key.
    pub what: String,
    /// How long the first one has waited, in ms.
    pub waiting_ms: u64,
    /// Time until it fails, in ms; absent if it never does.
    pub remaining_ms: Option<u64>,
    /// Tasks that have come, as ranges; empty for a key.
    pub came: String,
    /// Tasks that are missing, as ranges; empty for a key.
    pub missing: String,
    /// What is known of missing tasks.
    pub about_missing: String,
    /// How long each task that came has waited, in ms, by its number.
    pub waits: Vec<TaskWait>,
    /// Calls that wait.
    pub calls: u64,
}

/// How long a task has waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskWait {
    /// Its number.
    pub task: i32,
    /// For so long, in ms.
    pub waiting_ms: u64,
}
