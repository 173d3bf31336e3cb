//! The durable state in parts, so that a snapshot can be written and read piece by piece.

use super::state::{Client, Counters, Dataset, Iteration, Job, Task, Worker};

/// One piece of a snapshot. Parts come in an order in which each names only parts before it.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The next ids.
    Counters(Counters),
    /// A dataset.
    Dataset(Dataset),
    /// A worker, with its tasks left out: they follow from the tasks.
    Worker(Worker),
    /// A job.
    Job(Job),
    /// An iteration, with its clients left out: they follow from the clients.
    Iteration(Iteration),
    /// A client.
    Client(Client),
    /// A task.
    Task(Task),
}

