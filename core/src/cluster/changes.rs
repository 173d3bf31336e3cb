//! What changed between two looks at a cluster.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::spec::ClusterSpec;

/// A task: its job, its index, its address.
pub type Task = (String, u32, String);

/// How a cluster changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The version that it has now: 1 for the first look, one more with each change.
    pub version: u64,
    /// Tasks that came.
    pub added: Vec<Task>,
    /// Tasks that are gone.
    pub removed: Vec<Task>,
    /// Tasks with another address than before, which is given.
    pub moved: Vec<Task>,
}

/// The last look at a cluster.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    last: Option<ClusterSpec>,
    version: u64,
}

impl Changes {
    /// Nothing was looked at yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The cluster as it was last seen, with its version.
    pub fn last(&self) -> Option<(u64, &ClusterSpec)> {
        self.last.as_ref().map(|spec| (self.version, spec))
    }

    /// Takes a look; `None` if nothing changed since the last one.
    pub fn look(&mut self, now: &ClusterSpec) -> Option<Change> {
        let nothing = ClusterSpec::new();
        let before = self.last.as_ref().unwrap_or(&nothing);
        if self.last.as_ref() == Some(now) {
            return None;
        }
        let mut change = Change { version: self.version + 1, ..Change::default() };
        for (job, index, address) in now.iter() {
            let task = (job.to_string(), index, address.to_string());
            match before.task_address(job, index) {
                Err(_) => change.added.push(task),
                Ok(known) if known != address => change.moved.push(task),
                Ok(_) => {}
            }
        }
        let is_gone = |(job, index, _): &(&str, u32, &str)| now.task_address(job, *index).is_err();
        let gone = before.iter().filter(is_gone);
        change.removed = gone
            .map(|(job, index, address)| (job.to_string(), index, address.to_string()))
            .collect();
        self.version = change.version;
        self.last = Some(now.clone());
        Some(change)
    }
}
