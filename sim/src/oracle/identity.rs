//! An id that anybody was told of stands for one thing for ever: a task for its iteration and
//! worker, a client for one reader, a job for its name, a dataset for its content and compression.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Reply, Request, TaskDef};
use rondo_core::ids::{ClientId, DatasetId, Digest, IterationId, JobId, TaskId};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict, broken_if};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

/// What an answer will be about.
enum Asked {
    Dataset { wished: bool, structure: Digest },
    Job(Option<String>),
    Client(JobId, i64),
    Compression(DatasetId),
    Other,
}

#[derive(Default)]
pub(super) struct Identity {
    asked: CallMap<Asked>,
    tasks: BTreeMap<TaskId, (IterationId, Arc<str>)>,
    clients: BTreeMap<ClientId, (JobId, i64)>,
    jobs: BTreeMap<JobId, Option<String>>,
    datasets: BTreeMap<DatasetId, Digest>,
    /// Ids of datasets that were freed: whoever wishes one may have it again.
    freed: BTreeSet<DatasetId>,
    /// Whether each dataset's elements are compressed, once decided.
    compression: BTreeMap<DatasetId, bool>,
}

impl Identity {
    fn task(&mut self, id: TaskId, iteration: IterationId, worker: &Arc<str>) -> Verdict {
        if self.tasks.contains_key(&id) {
            reached(Check::Identity);
        }
        let told = self.tasks.entry(id).or_insert_with(|| (iteration, worker.clone()));
        match told.0 == iteration && told.1 == *worker {
            true => Ok(()),
            false => Err(format!(
                "task {id} was of iteration {} at {}, and is of {iteration} at {worker}",
                told.0, told.1
            )),
        }
    }

    fn def(&mut self, task: &TaskDef) -> Verdict {
        self.task(task.task, task.iteration, &task.worker_address)
    }

    fn answered(&mut self, asked: &Asked, reply: &Reply) -> Verdict {
        match (asked, reply) {
            (Asked::Dataset { wished, structure }, Reply::Dataset(id)) => {
                let told = self.datasets.insert(id.clone(), *structure);
                let again = self.freed.contains(id);
                let other = |told| !wished || !again && told != *structure;
                let known = told.is_some_and(other);
                broken_if(known, || format!("dataset id {id} stands for two things"))
            }
            (Asked::Job(name), Reply::Job(id)) => {
                let told = self.jobs.insert(*id, name.clone());
                let other = told.is_some_and(|told| told.is_none() || told != *name);
                broken_if(other, || format!("job id {id} stands for two jobs, one named {name:?}"))
            }
            (Asked::Client(job, repetition), Reply::Client(id)) => {
                let told = self.clients.insert(*id, (*job, *repetition));
                broken_if(told.is_some(), || format!("client id {id} was given twice"))
            }
            (Asked::Compression(id), Reply::Compression(Some(disabled))) => {
                let told = *self.compression.entry(id.clone()).or_insert(*disabled);
                broken_if(told != *disabled, || format!("compression of dataset {id} has changed"))
            }
            (_, Reply::ClientHeartbeat(reply)) => reply
                .tasks
                .iter()
                .try_for_each(|task| self.task(task.task, task.iteration, &task.worker_address)),
            (_, Reply::WorkerHeartbeat(reply)) => {
                reply.new_tasks.iter().try_for_each(|task| self.def(task))
            }
            _ => Ok(()),
        }
    }
}

fn asked(request: &Request) -> Asked {
    match request {
        Request::RegisterDataset(request) => Asked::Dataset {
            wished: request.wished.is_some(),
            structure: request.metadata.structure,
        },
        Request::GetRegistered { metadata, .. } => {
            Asked::Dataset { wished: true, structure: metadata.structure }
        }
        Request::GetOrCreateJob(request) => Asked::Job(request.name.clone()),
        Request::GetOrCreateIteration { job, repetition } => Asked::Client(*job, *repetition),
        Request::DisableCompression { dataset, .. } => Asked::Compression(dataset.clone()),
        _ => Asked::Other,
    }
}

impl Oracle for Identity {
    fn name(&self) -> &'static str {
        "identity"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Answered,
            SeenKind::Pushed,
            SeenKind::GivenUp,
            SeenKind::Died,
            SeenKind::Recovered,
            SeenKind::DispatcherRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, _: &Shadow) -> Verdict {
        match seen {
            Seen::Taken { call, request, .. } => {
                self.asked.insert(*call, asked(request));
            }
            Seen::Answered { call, answer, .. } => {
                let asked = self.asked.remove(call).unwrap_or(Asked::Other);
                if let Ok(reply) = answer {
                    return self.answered(&asked, reply);
                }
            }
            Seen::Recorded {
                record: Record::Dispatcher(dispatcher::Record::FreeDataset { id }),
                ..
            } => {
                self.freed.insert(id.clone());
                self.compression.remove(id);
            }
            Seen::Pushed(task) => return self.def(task),
            Seen::GivenUp { call } => drop(self.asked.remove(call)),
            Seen::Died => self.asked.clear(),
            // What was told of that is gone again may be told anew.
            Seen::Recovered { disk_lied: true, .. } => *self = Self::default(),
            _ => {}
        }
        Ok(())
    }
}
