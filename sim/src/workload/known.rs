//! What clients and workers were told so far, so that requests are mostly about something.

use std::collections::{BTreeMap, VecDeque};

use rondo_core::dispatcher::Reply;
use rondo_core::ids::{ClientId, DatasetId, IterationId, JobId, TaskId};

/// How many ids of a kind are remembered.
const REMEMBERED: usize = 8;

/// The newest ids of each kind that anybody was told.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Datasets.
    pub datasets: Newest<DatasetId>,
    /// Jobs.
    pub jobs: Newest<JobId>,
    /// Clients.
    pub clients: Newest<ClientId>,
    /// Iterations.
    pub iterations: Newest<IterationId>,
    /// Tasks.
    pub tasks: Newest<TaskId>,
    /// How many coordinated reads the consumers have gone through together.
    pub generation: u64,
    /// How many iterations have been read by split.
    pub read_by_split: u64,
    /// How many iterations have been read by element.
    pub read_by_element: u64,
    /// The present size of the group that reads by split, and how many sizes it had before; none while it
    /// is all of it.
    pub group: Option<(u32, u64)>,
    /// How many tasks the present job of each namespace has, where that changes.
    pub sizes: BTreeMap<u32, u32>,
}

impl Known {
    /// How many iterations have been read, where all read the same ones.
    pub fn read_both_ways(&self) -> u64 {
        self.read_by_split.max(self.read_by_element)
    }

    /// Learns from an answer.
    pub fn learn(&mut self, reply: &Reply) {
        match reply {
            Reply::Dataset(id) => self.datasets.add(id.clone()),
            Reply::Job(id) => self.jobs.add(*id),
            Reply::Client(id) => self.clients.add(*id),
            Reply::ClientHeartbeat(reply) => {
                if let Some(task) = reply.tasks.last() {
                    self.tasks.add(task.task);
                    self.iterations.add(task.iteration);
                }
            }
            Reply::WorkerHeartbeat(reply) => {
                for task in &reply.new_tasks {
                    self.tasks.add(task.task);
                    self.iterations.add(task.iteration);
                }
            }
            _ => {}
        }
    }
}

/// The newest few of a kind.
#[derive(Clone, Debug)]
pub struct Newest<T>(VecDeque<T>);

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: PartialEq> Newest<T> {
    /// Adds one.
    pub fn add(&mut self, one: T) {
        if self.0.contains(&one) {
            return;
        }
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(one);
    }

    /// The one at a place counted from the newest, round and round.
    pub fn at(&self, place: u64) -> Option<&T> {
        let len = self.0.len() as u64;
        let back = place.checked_rem(len)?;
        let index = usize::try_from(len.saturating_sub(1).saturating_sub(back)).ok()?;
        self.0.get(index)
    }
}
