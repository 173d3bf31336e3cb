//! Under static sharding the workers divide the data by their indices: each counts as many workers as the
//! list has entries, its index is that of an entry for it, and no two have one index.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Config, Reply, ShardingPolicy, TaskDef};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict, broken_if};
use crate::checks::{Check, reached};

pub(super) struct Shards {
    /// The entries for workers, as the node is configured.
    entries: Vec<String>,
    /// Which worker was told each index.
    told: BTreeMap<i64, Arc<str>>,
}

impl Shards {
    pub(super) fn new(settings: &Config) -> Self {
        Self { entries: settings.worker_addresses.clone(), told: BTreeMap::new() }
    }

    fn def(&mut self, task: &TaskDef) -> Verdict {
        let TaskDef { task: id, worker_address: address, workers, worker_index: index, .. } = task;
        if matches!(task.sharding, ShardingPolicy::Off | ShardingPolicy::Dynamic) {
            return broken_if((*workers, *index) != (0, 0), || {
                format!("task {id} has index {index} of {workers} and no static sharding")
            });
        }
        reached(Check::Shards);
        let count = self.entries.len();
        broken_if(usize::try_from(*workers) != Ok(count), || {
            format!("task {id} counts {workers} workers, and {count} are listed")
        })?;
        let entry = usize::try_from(*index).ok().and_then(|index| self.entries.get(index));
        broken_if(!entry.is_some_and(|entry| is_for(entry, address)), || {
            format!("{address} has index {index} in task {id}, whose entry is {entry:?}")
        })?;
        let holder = self.told.entry(*index).or_insert_with(|| address.clone());
        broken_if(holder != address, || {
            format!("{address} has index {index} in task {id}, which is that of {holder}")
        })
    }

    /// The index of a worker that is forgotten is free.
    fn forgotten(&mut self, record: &Record, shadow: &Shadow) {
        if let Record::Dispatcher(dispatcher::Record::FreeWorker { id }) = record
            && let Some(worker) = shadow.state().workers().get(id)
        {
            self.told.retain(|_, address| *address != worker.address);
        }
    }
}

/// Whether an entry names a worker: by its address, or by its host where the port is not known beforehand.
fn is_for(entry: &str, address: &str) -> bool {
    let host = address.split(':').next();
    match entry.split_once(':') {
        Some((of, port)) if port.starts_with('%') => host == Some(of),
        Some(_) => entry == address,
        None => host == Some(entry),
    }
}

impl Oracle for Shards {
    fn name(&self) -> &'static str {
        "shards"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Answered,
            SeenKind::Pushed,
            SeenKind::Recovered,
            SeenKind::Configured,
            SeenKind::DispatcherRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        match seen {
            Seen::Answered { answer: Ok(Reply::WorkerHeartbeat(reply)), .. } => {
                return reply.new_tasks.iter().try_for_each(|task| self.def(task));
            }
            Seen::Pushed(task) => return self.def(task),
            Seen::Recorded { record, .. } => self.forgotten(record, shadow),
            Seen::Configured(settings) => *self = Self::new(settings),
            Seen::Recovered { disk_lied: true, .. } => self.told.clear(),
            _ => {}
        }
        Ok(())
    }
}
