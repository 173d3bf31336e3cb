//! The durable state in parts, so that a snapshot can be written and read piece by piece.

use crate::log::{ApplyError, missing};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::by_split::BySplit;
use super::position::{Position, Restoration};
use super::retired::RetiredJob;
use super::state::{Client, Counters, Dataset, Iteration, Job, State, Task, Worker};
use super::versions::DatasetVersions;

/// One piece of a snapshot. Parts come in an order in which whatever is derived from two of them
/// is derived when the second one comes.
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
    /// A named position.
    Position(Position),
    /// A job that waits at a position.
    Restoration(Restoration),
    /// A named job that was freed.
    RetiredJob(RetiredJob),
    /// The versions of a dataset that was replaced.
    DatasetVersions(DatasetVersions),
}

impl State {
    /// The state in parts.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        parts.push(Part::Counters(self.counters.clone()));
        parts.extend(self.datasets.values().cloned().map(Part::Dataset));
        parts.extend(
            self.workers
                .values()
                .map(|worker| Part::Worker(Worker { tasks: BTreeSet::new(), ..worker.clone() })),
        );
        parts.extend(self.jobs.values().cloned().map(Part::Job));
        parts.extend(self.iterations.values().map(|iteration| {
            // What its clients hold follows from them, too.
            let by_split = BySplit { held: 0, ..iteration.by_split.clone() };
            Part::Iteration(Iteration { clients: BTreeSet::new(), by_split, ..iteration.clone() })
        }));
        parts.extend(self.clients.values().cloned().map(Part::Client));
        parts.extend(self.tasks.values().cloned().map(Part::Task));
        parts.extend(self.positions.values().cloned().map(Part::Position));
        parts.extend(self.restorations.values().cloned().map(Part::Restoration));
        parts.extend(self.retired.iter().cloned().map(Part::RetiredJob));
        parts.extend(self.versions.values().cloned().map(Part::DatasetVersions));
        parts
    }

    /// Takes one part of a snapshot.
    ///
    /// # Errors
    /// When the part names what no part before it brought.
    pub fn restore(&mut self, part: Part) -> Result<(), ApplyError> {
        match part {
            Part::Counters(counters) => self.counters = counters,
            Part::Dataset(dataset) => self.restore_dataset(dataset),
            Part::Worker(worker) => {
                self.index.worker_by_address.insert(worker.address.clone(), worker.id);
                self.workers.insert(worker.id, worker);
            }
            Part::Job(job) => self.add_job(job),
            Part::Iteration(iteration) => self.restore_iteration(iteration)?,
            Part::Client(client) => self.restore_client(client)?,
            Part::Task(task) => self.restore_task(task)?,
            Part::Position(position) => {
                self.positions.insert(position.name.clone(), position);
            }
            Part::Restoration(restoration) => {
                self.restorations.insert(restoration.job.clone(), restoration);
            }
            Part::RetiredJob(job) => self.retired.insert(job),
            Part::DatasetVersions(versions) => {
                self.versions.insert(versions.name.clone(), versions);
            }
        }
        Ok(())
    }

    fn restore_dataset(&mut self, mut dataset: Dataset) {
        dataset.definition = self.index.share_definition(&dataset.definition);
        self.index.idle.dataset_added(&dataset);
        self.datasets.insert(dataset.id.clone(), dataset);
    }

    fn restore_iteration(&mut self, iteration: Iteration) -> Result<(), ApplyError> {
        let job = self.jobs.get(&iteration.job).ok_or_else(|| missing("job", iteration.job))?;
        self.index.add_iteration(&iteration, job);
        self.iterations.insert(iteration.id, iteration);
        Ok(())
    }

    fn restore_client(&mut self, mut client: Client) -> Result<(), ApplyError> {
        // Snapshots of former releases do not say it.
        client.has_held |= !client.splits.is_empty();
        self.change_iteration(client.iteration, |iteration| {
            iteration.clients.insert(client.id);
            let held = u64::try_from(client.splits.len()).unwrap_or(u64::MAX);
            iteration.by_split.held = iteration.by_split.held.saturating_add(held);
        })?;
        self.clients.insert(client.id, client);
        Ok(())
    }

    fn restore_task(&mut self, task: Task) -> Result<(), ApplyError> {
        let worker = self.workers.get_mut(&task.worker);
        let worker = worker.ok_or_else(|| missing("worker", task.worker))?;
        if !task.finished {
            worker.tasks.insert(task.id);
            self.index.task_of.insert((task.worker, task.iteration), task.id);
        }
        self.index.tasks_on.insert((task.worker, task.iteration, task.id));
        self.tasks.insert(task.id, task);
        Ok(())
    }
}
