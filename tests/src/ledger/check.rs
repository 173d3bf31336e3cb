//! Whether a server still stands by a ledger: by its picture of itself, and by its answers.

use std::collections::{BTreeMap, BTreeSet};

use rondo_proto::admin::DispatcherStatus;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use tonic::{Code, Status};

use super::{Client, Known, Ledger};
use crate::dispatcher::Dispatcher;

impl Ledger {
    /// Compares everything with the server's picture of itself; tells what it has forgotten.
    pub fn check_picture(&self, picture: &DispatcherStatus) -> Vec<String> {
        let mut wrong = Vec::new();
        self.check_datasets(picture, &mut wrong);
        self.check_jobs(picture, &mut wrong);
        self.check_clients(picture, &mut wrong);
        self.check_sources(picture, &mut wrong);
        self.check_worker(picture, &mut wrong);
        wrong
    }

    fn check_datasets(&self, picture: &DispatcherStatus, wrong: &mut Vec<String>) {
        let found: BTreeMap<&str, _> =
            picture.datasets.iter().map(|found| (found.id.as_str(), found)).collect();
        for (id, dataset) in &self.datasets {
            let size = u64::try_from(dataset.definition.len()).unwrap_or(u64::MAX);
            match found.get(id.as_str()) {
                None => wrong.push(format!("dataset {id} is forgotten")),
                Some(found) if found.size_bytes != size => {
                    wrong.push(format!("dataset {id} has {} bytes, not {size}", found.size_bytes));
                }
                Some(found)
                    if dataset
                        .compression_disabled
                        .is_some_and(|told| found.compression_disabled != Some(told)) =>
                {
                    let (told, now) = (dataset.compression_disabled, found.compression_disabled);
                    wrong.push(format!(
                        "dataset {id}: compression disabled was {told:?}, is {now:?}"
                    ));
                }
                Some(_) => {}
            }
        }
    }

    fn check_jobs(&self, picture: &DispatcherStatus, wrong: &mut Vec<String>) {
        let found: BTreeMap<&str, i64> =
            picture.jobs.iter().map(|job| (job.name.as_str(), job.id)).collect();
        for (name, job) in &self.jobs {
            let now = found.get(name.as_str());
            if now != Some(&job.id) {
                wrong.push(format!("job {name} was {}, is {now:?}", job.id));
            }
        }
    }

    fn check_clients(&self, picture: &DispatcherStatus, wrong: &mut Vec<String>) {
        let found: BTreeMap<i64, i64> =
            picture.clients.iter().map(|client| (client.id, client.iteration)).collect();
        for (id, client) in &self.clients {
            match (client.released, found.get(id)) {
                (Known::No, None) => wrong.push(format!("client {id} is forgotten")),
                (Known::Yes, Some(_)) => {
                    wrong.push(format!("client {id} is back after its release"))
                }
                (_, Some(now)) if client.iteration.is_some_and(|told| told != *now) => {
                    wrong.push(format!(
                        "client {id} was in iteration {:?}, is in {now}",
                        client.iteration
                    ));
                }
                _ => {}
            }
        }
    }

    fn check_sources(&self, picture: &DispatcherStatus, wrong: &mut Vec<String>) {
        let found: BTreeMap<i64, _> =
            picture.iterations.iter().map(|found| (found.id, &found.sources)).collect();
        for (id, source) in &self.sources {
            let Some(now) = found.get(id).and_then(|sources| sources.first()) else {
                wrong.push(format!("iteration {id} is forgotten, or has no source"));
                continue;
            };
            let same_pass = now.repetition == source.repetition
                && (source.next..=source.next + source.in_doubt).contains(&now.produced);
            // The request in doubt may have been the one that met the end.
            let next_pass = now.repetition == source.repetition + 1
                && now.produced == 0
                && source.in_doubt > 0
                && source.next + source.in_doubt > source.elements;
            if !same_pass && !next_pass {
                let (pass, produced) = (now.repetition, now.produced);
                wrong.push(format!(
                    "iteration {id}: {source:?}, but it is at {produced} in pass {pass}"
                ));
            }
        }
    }

    fn check_worker(&self, picture: &DispatcherStatus, wrong: &mut Vec<String>) {
        if let Some(address) = &self.worker
            && !picture.workers.iter().any(|worker| worker.address == *address)
        {
            wrong.push(format!("worker {address} is forgotten"));
        }
        let states: BTreeMap<i64, &str> =
            picture.tasks.iter().map(|task| (task.id, task.state.as_str())).collect();
        for (id, finished) in &self.tasks {
            let now = states.get(id).copied();
            let right = match finished {
                Known::Yes => now == Some("finished"),
                Known::No => now == Some("running"),
                Known::InDoubt => now.is_some(),
            };
            if !right {
                wrong.push(format!("task {id}: finished was {finished:?}, its state is {now:?}"));
            }
        }
    }

    /// Asks the server about some of it in clients' own words; tells what it has forgotten.
    pub fn check_answers(&self, dispatcher: &Dispatcher, sample: &Sample) -> Vec<String> {
        let mut wrong = Vec::new();
        let picked = |key: &str| sample.datasets.as_ref().is_none_or(|picked| picked.contains(key));
        for (id, dataset) in self.datasets.iter().filter(|(id, _)| picked(id)) {
            expect(&mut wrong, dispatcher.definition(id), &dataset.definition, || {
                format!("definition of {id}")
            });
            expect(&mut wrong, dispatcher.metadata(id), &dataset.metadata, || {
                format!("metadata of {id}")
            });
            if let Some(told) = dataset.compression_disabled {
                let now = dispatcher.disable_compression(id, !told);
                expect(&mut wrong, now, &Some(told), || format!("compression of {id}"));
            }
        }
        let picked = |key: &str| sample.jobs.as_ref().is_none_or(|picked| picked.contains(key));
        for (name, job) in self.jobs.iter().filter(|(name, _)| picked(name)) {
            let now = dispatcher.job(&job.dataset, Some(name), ShardingPolicy::Dynamic);
            expect(&mut wrong, now, &job.id, || format!("job {name}"));
        }
        let picked = |key: &i64| sample.clients.as_ref().is_none_or(|picked| picked.contains(key));
        for (id, client) in self.clients.iter().filter(|(id, _)| picked(id)) {
            check_client(&mut wrong, dispatcher, *id, client);
        }
        wrong
    }
}

/// What [`Ledger::check_answers`] asks about; `None` means everything.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Datasets by id.
    pub datasets: Option<BTreeSet<String>>,
    /// Jobs by name.
    pub jobs: Option<BTreeSet<String>>,
    /// Clients by id.
    pub clients: Option<BTreeSet<i64>>,
}

fn expect<T: PartialEq + std::fmt::Debug>(
    wrong: &mut Vec<String>,
    now: Result<T, Status>,
    told: &T,
    what: impl Fn() -> String,
) {
    match now {
        Ok(now) if now == *told => {}
        Ok(now) => wrong.push(format!("{} was {}, is {}", what(), short(told), short(&now))),
        Err(status) => wrong.push(format!("{}: {status}", what())),
    }
}

fn short(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").chars().take(200).collect()
}

fn check_client(wrong: &mut Vec<String>, dispatcher: &Dispatcher, id: i64, client: &Client) {
    match (client.released, dispatcher.heartbeat(id)) {
        (Known::Yes, Err(status)) if status.code() == Code::NotFound => {}
        (Known::InDoubt, Err(status)) if status.code() == Code::NotFound => {}
        (Known::No | Known::InDoubt, Ok(answer)) => {
            let tasks = answer.task_info.iter().map(|task| task.task_id).collect();
            if let Err(reason) = client.clone().answered(tasks) {
                wrong.push(format!("client {id}: {reason}"));
            }
        }
        (released, now) => {
            let now = now.map(|_| "alive");
            wrong.push(format!(
                "client {id}: released was {released:?}, its heartbeat says {now:?}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dataset, Job, Source};
    use super::*;
    use bytes::Bytes;
    use rondo_proto::admin::{
        ClientStatus, DatasetStatus, IterationStatus, JobStatus, SourceStatus, TaskStatus,
        WorkerStatus,
    };

    fn ledger() -> Ledger {
        let dataset = Dataset {
            definition: Bytes::from_static(b"four"),
            metadata: Bytes::new(),
            elements: 10,
            compression_disabled: Some(true),
        };
        let mut ledger = Ledger { worker: Some("a:1".into()), ..Ledger::default() };
        ledger.datasets.insert("d".into(), dataset);
        ledger.jobs.insert("j".into(), Job { id: 5000, dataset: "d".into() });
        let client = |released| Client { iteration: Some(2000), tasks: vec![], released };
        ledger.clients.insert(3000, client(Known::No));
        ledger.clients.insert(3001, client(Known::Yes));
        ledger.sources.insert(2000, Source { elements: 10, repetition: 0, next: 3, in_doubt: 1 });
        ledger.tasks.insert(4000, Known::Yes);
        ledger.tasks.insert(4001, Known::No);
        ledger
    }

    fn picture() -> DispatcherStatus {
        let task = |id, state: &str| TaskStatus { id, state: state.into(), ..Default::default() };
        let source = SourceStatus { repetition: 0, produced: 4, total: 10 };
        DispatcherStatus {
            datasets: vec![DatasetStatus {
                id: "d".into(),
                size_bytes: 4,
                compression_disabled: Some(true),
                ..Default::default()
            }],
            workers: vec![WorkerStatus { address: "a:1".into(), ..Default::default() }],
            freed_jobs: Vec::new(),
            jobs: vec![JobStatus { id: 5000, name: "j".into(), ..Default::default() }],
            iterations: vec![IterationStatus {
                id: 2000,
                sources: vec![source],
                ..Default::default()
            }],
            tasks: vec![task(4000, "finished"), task(4001, "running")],
            clients: vec![ClientStatus { id: 3000, iteration: 2000, ..ClientStatus::default() }],
        }
    }

    #[test]
    fn a_true_picture_is_accepted() {
        assert_eq!(ledger().check_picture(&picture()), [""; 0]);
    }

    #[test]
    fn every_lie_in_a_picture_is_found() {
        let lies: [fn(&mut DispatcherStatus); 12] = [
            |picture| picture.datasets.clear(),
            |picture| picture.datasets[0].size_bytes = 5,
            |picture| picture.datasets[0].compression_disabled = None,
            |picture| picture.jobs.clear(),
            |picture| picture.jobs[0].id = 5001,
            |picture| picture.clients.clear(),
            |picture| picture.clients[0].iteration = 2001,
            |picture| picture.clients.push(ClientStatus { id: 3001, ..Default::default() }),
            |picture| picture.iterations[0].sources[0].produced = 2,
            |picture| picture.iterations[0].sources[0].repetition = 1,
            |picture| picture.workers.clear(),
            |picture| picture.tasks[0].state = "running".into(),
        ];
        for (index, lie) in lies.iter().enumerate() {
            let mut picture = picture();
            lie(&mut picture);
            assert_eq!(ledger().check_picture(&picture).len(), 1, "lie {index}");
        }
    }
}
