//! A client that does everything clients and workers do, at random, and remembers each answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use prost::Message;
use rondo_proto::tf::data::data_service_metadata::Compression;
use rondo_proto::tf::data::processing_mode_def::ShardingPolicy;
use tonic::{Code, Status};

use crate::dispatcher::Dispatcher;
use crate::graph;
use crate::ledger::{Client, Dataset, Job, Known, Ledger, Source};
use crate::random::Random;

/// Datasets, jobs and iterations made are of sizes up to this.
const ELEMENTS_MAX: u64 = 40;

/// One load: a client and a worker in one.
#[derive(Debug)]
pub struct Load {
    name: String,
    random: Random,
    /// Names made so far: one whose request got no answer is never used again.
    names: u64,
    /// What it was told.
    pub ledger: Ledger,
}

/// Why a load stops.
#[derive(Debug)]
enum Stop {
    /// The connection broke.
    Broken,
    /// The server answers what it should not.
    Wrong(String),
}

impl Load {
    /// A load whose names start with `name`.
    pub fn new(name: String, seed: u64) -> Self {
        Self { name, random: Random::new(seed), names: 0, ledger: Ledger::default() }
    }

    /// Works until the connection breaks, and counts its answers. Before `dying` is set, that is a
    /// broken promise too.
    pub fn run(&mut self, dispatcher: &Dispatcher, dying: &AtomicBool, answers: &AtomicU64) {
        loop {
            match self.act(dispatcher) {
                Ok(()) => {
                    self.ledger.updates += 1;
                    answers.fetch_add(1, Ordering::SeqCst);
                }
                Err(Stop::Wrong(_) | Stop::Broken) if dying.load(Ordering::SeqCst) => return,
                Err(Stop::Broken) => return self.ledger.broken.push("the connection broke".into()),
                Err(Stop::Wrong(reason)) => return self.ledger.broken.push(reason),
            }
        }
    }

    fn act(&mut self, dispatcher: &Dispatcher) -> Result<(), Stop> {
        if self.ledger.worker.is_none() {
            return self.worker_heartbeat(dispatcher);
        }
        match self.random.below(100) {
            0..4 => self.register(dispatcher),
            4..7 => self.compression(dispatcher),
            7..11 => self.job(dispatcher),
            11..15 => self.iteration(dispatcher),
            15..25 => self.heartbeat(dispatcher),
            25..27 => self.release(dispatcher),
            27..31 => self.worker_heartbeat(dispatcher),
            31..36 => self.finish(dispatcher),
            _ => self.split(dispatcher),
        }
    }

    fn new_name(&mut self) -> String {
        self.names += 1;
        format!("{}-{}", self.name, self.names)
    }

    fn register(&mut self, dispatcher: &Dispatcher) -> Result<(), Stop> {
        let elements = self.random.below(ELEMENTS_MAX);
        let (definition, elements) = if self.random.one_in(8) {
            // Above the bound for definitions in the journal itself.
            let size = 70_000 + self.random.below(200_000) / 8 * 8;
            (graph::slices(usize::try_from(size).expect("fits")), size / 8)
        } else {
            (graph::range(0, i64::try_from(elements).expect("fits"), 1), elements)
        };
        let metadata = graph::metadata(Compression::Snappy, -2);
        let wished = self.new_name();
        let wished = self.random.one_in(2).then_some(wished);
        let id = answer(dispatcher.register(wished.as_deref(), definition.clone(), &metadata))?;
        let same = wished.is_none_or(|wished| wished == id);
        let known = self.ledger.datasets.contains_key(&id);
        let dataset = Dataset {
            definition,
            metadata: metadata.encode_to_vec().into(),
            elements,
            compression_disabled: None,
        };
        if same && !known {
            self.ledger.datasets.insert(id, dataset);
            return Ok(());
        }
        Err(Stop::Wrong(format!("registering a dataset gave id {id}, known: {known}")))
    }

    fn compression(&mut self, dispatcher: &Dispatcher) -> Result<(), Stop> {
        let Some(id) = self.random.pick(self.ledger.datasets.keys()).cloned() else {
            return Ok(());
        };
        let wish = self.random.one_in(2);
        let decision = answer(dispatcher.disable_compression(&id, wish))?;
        let dataset = self.ledger.datasets.get_mut(&id).expect("picked from it");
        let told = dataset.compression_disabled;
        dataset.compression_disabled = decision;
        let right = decision.is_some() && (told.is_none() || told == decision);
        right_or(right, || format!("compression of {id} was {told:?}, is {decision:?}"))
    }

    fn job(&mut self, dispatcher: &Dispatcher) -> Result<(), Stop> {
        let existing = self.random.one_in(2);
        let known = self.random.pick(self.ledger.jobs.keys()).cloned();
        let name = match known.filter(|_| existing) {
            Some(name) => name,
            None => self.new_name(),
        };
        let Some(dataset) = self.random.pick(self.ledger.datasets.keys()).cloned() else {
            return Ok(());
        };
        // A job keeps its dataset, whatever later calls say.
        let told = self.ledger.jobs.get(&name).cloned();
        let dataset = told.as_ref().map_or(dataset, |job| job.dataset.clone());
        let id = answer(dispatcher.job(&dataset, Some(&name), ShardingPolicy::Dynamic))?;
        self.ledger.jobs.entry(name.clone()).or_insert(Job { id, dataset });
        right_or(told.as_ref().is_none_or(|told| told.id == id), || {
            format!("job {name} was {told:?}, is {id}")
        })
    }

    fn iteration(&mut self, dispatcher: &Dispatcher) -> Result<(), Stop> {
        let Some(job) = self.random.pick(self.ledger.jobs.values()).cloned() else {
            return Ok(());
        };
        let repetition = i64::try_from(self.random.below(3)).expect("fits");
        let id = answer(dispatcher.iteration(job.id, repetition))?;
        let client = Client { iteration: None, tasks: Vec::new(), released: Known::No };
        let again = self.ledger.clients.insert(id, client).is_some();
        right_or(!again, || format!("client id {id} was given twice"))?;
        // Its heartbeat tells the iteration.
        let tasks = answer(dispatcher.heartbeat(id))?.task_info;
        let iteration = tasks.first().map(|task| task.iteration_id);
        let client = self.ledger.clients.get_mut(&id).expect("just put there");
        client.iteration = iteration;
        client.tasks = tasks.iter().map(|task| task.task_id).collect();
        let iteration =
            iteration.ok_or_else(|| Stop::Wrong(format!("client {id} has no tasks")))?;
        self.know_source(iteration, &job);
        Ok(())
    }

    /// Starts to follow an iteration's source, unless its job's dataset is in doubt.
    fn know_source(&mut self, iteration: i64, job: &Job) {
        if let Some(dataset) = self.ledger.datasets.get(&job.dataset) {
            let source = Source { elements: dataset.elements, repetition: 0, next: 0, in_doubt: 0 };
            self.ledger.sources.entry(iteration).or_insert(source);
        }
    }

    fn heartbeat(&mut self, dispatcher: &Dispatcher) -> Result<(), Stop> {
        let Some(id) = self.random.pick(self.ledger.clients.keys()).copied() else {
            return Ok(());
        };
        let result = dispatcher.heartbeat(id);
        let client = self.ledger.clients.get_mut(&id).expect("picked from it");
        match result {
            Err(status) if client.released != Known::No && status.code() == Code::NotFound => {
                Ok(())
            }
            Ok(told) if client.released != Known::Yes => {
                let tasks = told.task_info.iter().map(|task| task.task_id).collect();
                client
                    .answered(tasks)
                    .map_err(|reason| Stop::Wrong(format!("client {id}: {reason}")))
            }
            Ok(_) => Err(Stop::Wrong(format!("client {id} is back after its release"))),
            Err(status) => Err(stop(status)),
        }
    }

    fn release(&mut self, dispatcher: &Dispatcher) -> Result<(), Stop> {
        let living = |(id, client): (&i64, &Client)| (client.released == Known::No).then_some(*id);
        let living: Vec<i64> = self.ledger.clients.iter().filter_map(living).collect();
        let Some(id) = self.random.pick(living.iter()).copied() else {
            return Ok(());
        };
        let result = answer(dispatcher.release(id));
        let client = self.ledger.clients.get_mut(&id).expect("picked from it");
        client.released = if result.is_ok() { Known::Yes } else { Known::InDoubt };
        result
    }

    fn worker_heartbeat(&mut self, dispatcher: &Dispatcher) -> Result<(), Stop> {
        let address = format!("{}:1", self.name);
        let running = |(id, finished): (&i64, &Known)| (*finished == Known::No).then_some(*id);
        let running: Vec<i64> = self.ledger.tasks.iter().filter_map(running).collect();
        let told = answer(dispatcher.worker_heartbeat(&address, &running))?;
        self.ledger.worker = Some(address.clone());
        if let Some(id) = told.tasks_to_delete.iter().find(|id| running.contains(id)) {
            return Err(Stop::Wrong(format!("running task {id} is to be deleted")));
        }
        for task in told.new_tasks {
            let known = self.ledger.tasks.get(&task.task_id).copied();
            right_or(task.worker_address == address, || {
                format!("{address} gets the task {task:?}")
            })?;
            right_or(known != Some(Known::Yes), || {
                format!("finished task {} is back", task.task_id)
            })?;
            self.ledger.tasks.insert(task.task_id, Known::No);
            self.ledger.iterations.insert(task.task_id, task.iteration_id);
        }
        Ok(())
    }

    fn finish(&mut self, dispatcher: &Dispatcher) -> Result<(), Stop> {
        let Some(address) = self.ledger.worker.clone() else {
            return Ok(());
        };
        let running = |(id, finished): (&i64, &Known)| (*finished == Known::No).then_some(*id);
        let some: Vec<i64> = self.ledger.tasks.iter().filter_map(running).take(3).collect();
        let result = answer(dispatcher.finish(&address, &some));
        let known = if result.is_ok() { Known::Yes } else { Known::InDoubt };
        self.ledger.tasks.extend(some.into_iter().map(|id| (id, known)));
        result
    }

    /// Asks for a split for a task that the worker runs: for others it is told the end at once.
    fn split(&mut self, dispatcher: &Dispatcher) -> Result<(), Stop> {
        let Ledger { tasks, iterations, sources, .. } = &self.ledger;
        let runs = |id: &i64| {
            let mut running = tasks.iter().filter(|(_, finished)| **finished == Known::No);
            running.any(|(task, _)| iterations.get(task) == Some(id))
        };
        let read: Vec<i64> = sources.keys().copied().filter(runs).collect();
        let Some(id) = self.random.pick(read.iter()).copied() else {
            return Ok(());
        };
        let source = self.ledger.sources.get_mut(&id).expect("picked from it");
        source.in_doubt += 1;
        let split = answer(dispatcher.split(id, source.repetition, 0))?;
        source.in_doubt -= 1;
        source.answered(split).map_err(|reason| Stop::Wrong(format!("iteration {id}: {reason}")))
    }
}

fn answer<T>(result: Result<T, Status>) -> Result<T, Stop> {
    result.map_err(stop)
}

/// A status made on this side, because the connection broke, has a cause; the server's has none.
fn stop(status: Status) -> Stop {
    if std::error::Error::source(&status).is_some() {
        Stop::Broken
    } else {
        Stop::Wrong(status.to_string())
    }
}

fn right_or(right: bool, reason: impl FnOnce() -> String) -> Result<(), Stop> {
    if right { Ok(()) } else { Err(Stop::Wrong(reason())) }
}
