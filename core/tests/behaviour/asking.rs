//! Turns happenings into requests, by what the model says exists.

use rondo_core::dispatcher::{
    Compression, GetOrCreateJob, HoldSplits, RegisterDataset, Request, ShardingPolicy, SplitPlan,
    SplitProgress, SplitSource, TargetWorkers, WorkerHeartbeat,
};
use rondo_core::ids::{ClientId, DatasetId, Digest, IterationId, JobId, TaskId};
use rondo_core::status::Code;

use crate::happening::{At, Happening, Round, Tasks};
use crate::model::Kept;
use crate::world;

/// The request that a happening makes of a dispatcher that keeps this.
pub(crate) fn request(kept: &Kept, happening: &Happening) -> Request {
    Among(kept).request(happening)
}

/// The request that the service makes of a registration before it reads the definition.
pub(crate) fn without_definition(request: &Request) -> Option<Request> {
    let Request::RegisterDataset(registration) = request else { return None };
    let dataset = registration.wished.clone().filter(|_| !registration.own)?;
    Some(Request::GetRegistered { dataset, metadata: registration.metadata.clone() })
}

/// Finding what a happening is about among what exists.
struct Among<'a>(&'a Kept);

impl Among<'_> {
    fn request(&self, happening: &Happening) -> Request {
        let kept = self.0;
        match happening {
            Happening::Register { .. } => Request::RegisterDataset(registration(happening)),
            Happening::Version { dataset, job, position } => Request::GetVersionToRead {
                dataset: self.a_dataset(*dataset),
                job: job.map(Into::into),
                position: position.map(Into::into),
            },
            Happening::Read { dataset, what } => read(self.a_dataset(*dataset), *what),
            Happening::Job { dataset, .. } => job(happening, self.a_dataset(*dataset)),
            Happening::Join { job, repetition } => Request::GetOrCreateIteration {
                job: one_of(kept.jobs.iter().map(|job| job.id), *job, JobId::new(1)),
                repetition: *repetition,
            },
            Happening::Client { client, current, blocked } => {
                let client = self.a_client(*client);
                world::rounds(client, self.round(client, current), self.round(client, blocked))
            }
            Happening::Release { client } => {
                Request::ReleaseClient { client: self.a_client(*client) }
            }
            Happening::Worker { address, tasks, uid } => {
                let tasks = self.current_tasks(address, tasks);
                Request::WorkerHeartbeat(heartbeat(address, &tasks, *uid))
            }
            Happening::Update { tasks } => {
                let progress = tasks.iter().map(|(task, done)| (self.a_task(*task), *done));
                let progress: Vec<_> = progress.collect();
                world::update(self.reporter(&progress), &progress)
            }
            Happening::Split { iteration, repetition, source, asker } => Request::GetSplit {
                iteration: self.a_splitting_iteration(*iteration),
                repetition: *repetition,
                source: *source,
                asker: asker.map(Into::into),
            },
            Happening::Hold { client, hold, progress, group } => {
                let client = self.a_client(*client);
                let progress = progress.iter().map(|said| self.progress(client, *said)).collect();
                Request::HoldSplits(HoldSplits { client, hold: *hold, progress, group: *group })
            }
            Happening::EndReader { client, job } => {
                Request::EndReader { client: self.a_client_ever(*client), job: (*job).into() }
            }
            Happening::Remove { task, consumer, round } => {
                world::removal(self.a_coordinated_task(*task), *consumer, *round)
            }
            other => self.of_people(other),
        }
    }

    /// The request of an operator.
    fn of_people(&self, happening: &Happening) -> Request {
        match happening {
            Happening::Save { name, job } => {
                Request::SavePosition { name: (*name).into(), job: (*job).into() }
            }
            Happening::Restore { name, job, wanted } => Request::RestorePosition {
                name: (*name).into(),
                job: (*job).into(),
                wanted: wanted.map(|dataset| Box::new(wanted_job(job, self.a_dataset(dataset)))),
            },
            Happening::Delete { name } => Request::DeletePosition { name: (*name).into() },
            Happening::Positions => Request::ListPositions,
            Happening::DeleteJob { name } => Request::DeleteJob { name: (*name).into() },
            Happening::DeleteDataset { dataset } => {
                Request::DeleteDataset { dataset: self.a_dataset(*dataset) }
            }
            Happening::RemoveWorker { address } => {
                Request::RemoveWorker { address: (*address).into() }
            }
            _ => Request::GetWorkers,
        }
    }

    fn a_splitting_iteration(&self, at: At) -> IterationId {
        let splitting = self.0.iterations.iter().filter(|i| !i.sources.is_empty());
        let any = self.0.iterations.iter().take(1);
        let ids = splitting.chain(any).map(|iteration| iteration.id);
        one_of(ids, at, IterationId::new(1))
    }

    fn a_dataset(&self, at: At) -> DatasetId {
        one_of(self.0.datasets.keys().cloned(), at, DatasetId::new("none"))
    }

    /// One of all clients there were.
    fn a_client_ever(&self, at: At) -> ClientId {
        let ever = (0..self.0.clients_ever).map(|index| ClientId::new(self.0.above + 3000 + index));
        one_of(ever, at, ClientId::new(1))
    }

    fn a_client(&self, at: At) -> ClientId {
        one_of(self.0.clients.keys().copied(), at, ClientId::new(-1))
    }

    /// How far a client is in one of the splits it holds, or in one that it does not hold.
    fn progress(&self, client: ClientId, said: (At, u64, bool)) -> SplitProgress {
        let (at, more, finished) = said;
        let held = self.0.clients.get(&client).map(|client| client.splits.clone());
        let held = held.unwrap_or_default().into_iter();
        let (place, records) = one_of(held, at, (1, 0));
        SplitProgress { place, records: (records + more).saturating_sub(1), finished }
    }

    fn a_task(&self, at: At) -> TaskId {
        one_of(self.0.tasks.keys().copied(), at, TaskId::new(i64::MAX))
    }

    /// The worker of the first task of a report. The other tasks may be another's.
    fn reporter(&self, progress: &[(TaskId, bool)]) -> &str {
        let task = progress.first().and_then(|(task, _)| self.0.tasks.get(task));
        task.map_or("w0:1", |task| &task.address)
    }

    fn a_coordinated_task(&self, at: At) -> TaskId {
        let kept = self.0;
        let coordinated = kept.iterations.iter().filter(|i| kept.job_of(i).consumers.is_some());
        let tasks = coordinated.flat_map(|i| i.active.iter().copied());
        one_of(tasks.chain(kept.tasks.keys().copied().take(1)), at, TaskId::new(-1))
    }

    /// A round near the one proposed to this client, if any is.
    fn round(&self, client: ClientId, round: &Round) -> Option<i64> {
        let client = self.0.clients.get(&client);
        let iteration = client.and_then(|client| self.0.iteration(client.iteration));
        let target = iteration.and_then(|i| i.pending.front()).map_or(3, |front| front.target);
        match round {
            Round::Absent => None,
            Round::NearTarget(distance) => Some(target.saturating_add(*distance)),
            Round::At(round) => Some(*round),
        }
    }

    fn current_tasks(&self, address: &str, tasks: &Tasks) -> Vec<TaskId> {
        let all = &self.0.tasks;
        match tasks {
            Tasks::None => Vec::new(),
            Tasks::Some(at) => at.iter().map(|at| self.a_task(*at)).collect(),
            Tasks::Right => {
                let own = all.iter().filter(|(_, task)| task.address == address && !task.finished);
                own.map(|(id, _)| *id).collect()
            }
        }
    }
}

/// One of these, or now and then something that does not exist.
fn one_of<T>(those: impl Iterator<Item = T>, at: At, nonsense: T) -> T {
    let mut those: Vec<T> = those.collect();
    let at = at.index(those.len() * 8 + 1);
    match at == those.len() * 8 {
        true => nonsense,
        false => those.swap_remove(at % those.len()),
    }
}

fn read(dataset: DatasetId, what: u8) -> Request {
    match what {
        0 => Request::GetMetadata { dataset },
        1 => Request::GetDefinition { dataset },
        other => Request::DisableCompression { dataset, disable: other == 2 },
    }
}

/// Stock workers say no uid, and serve no records by split.
fn heartbeat(address: &str, tasks: &[TaskId], uid: i64) -> WorkerHeartbeat {
    let worker = match uid {
        -1 => world::worker(address, tasks),
        _ => world::serving_worker(address, tasks),
    };
    WorkerHeartbeat { uid, ..worker }
}

fn registration(happening: &Happening) -> RegisterDataset {
    let Happening::Register { wished, content, structure, compressed, replaces } = happening else {
        unreachable!("no registration")
    };
    let range = |start, stop, step| SplitSource { start, stop, step };
    let sources = match content {
        0 => vec![range(0, 3, 1)],
        1 => vec![range(0, 2, 1), range(10, 4, -3)],
        2 => vec![range(5, 5, 1)],
        3 => vec![range(0, i64::MAX, 1)],
        4 => vec![range(0, 4, 1), range(0, 0, 1), range(-3, 9, 5)],
        6 => vec![range(0, 7, 2)],
        _ => vec![],
    };
    let mut request = world::dataset(&sources);
    if *content == 5 {
        let message = "cannot".into();
        request.plan = SplitPlan::Unsplittable { code: Code::Unimplemented, message };
    }
    if matches!(content, 4 | 6) {
        request.definition.inline = None;
    }
    request.own = matches!(content, 0 | 1 | 6);
    request.replaces = *replaces;
    request.wished = wished.map(DatasetId::new);
    request.metadata.structure = Digest::new([*structure; 32]);
    if !compressed {
        request.metadata.compression = Compression::Off;
    }
    request
}

/// The job that a reader wants to read from a position.
fn wanted_job(name: &str, dataset: DatasetId) -> GetOrCreateJob {
    GetOrCreateJob {
        dataset,
        same_dataset: true,
        sharding: ShardingPolicy::Dynamic,
        name: Some(name.into()),
        consumers: None,
        use_cross_trainer_cache: false,
        target_workers: TargetWorkers::Auto,
    }
}

fn job(happening: &Happening, dataset: DatasetId) -> Request {
    let Happening::Job { sharding, name, same_dataset, consumers, cached, .. } = happening else {
        unreachable!("no job")
    };
    let sharding = match sharding {
        0 | 6 => ShardingPolicy::Off,
        2 => ShardingPolicy::File,
        3 => ShardingPolicy::Data,
        _ => ShardingPolicy::Dynamic,
    };
    Request::GetOrCreateJob(GetOrCreateJob {
        dataset,
        same_dataset: *same_dataset,
        sharding,
        name: name.map(String::from),
        consumers: *consumers,
        use_cross_trainer_cache: *cached,
        target_workers: TargetWorkers::Auto,
    })
}
