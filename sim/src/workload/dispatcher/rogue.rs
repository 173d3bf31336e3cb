//! A client that keeps to no rules: it makes up values, repeats itself, speaks for others.

use rondo_core::dispatcher::{
    ClientHeartbeat, Compression, GetOrCreateJob, Request, ShardingPolicy, TargetWorkers,
    WorkerHeartbeat,
};
use rondo_core::ids::{ClientId, DatasetId, Digest, IterationId, JobId, TaskId};
use rondo_core::time::Time;

use super::plan::job_name;
use super::{address, dataset, patience, pause};
use crate::fault::Fault;
use crate::workload::actor::{Act, Actor, Happening, Role, With};
use crate::workload::kind::Kind;
use crate::workload::outstanding::Outstanding;

/// Calls made at once by a flood.
const FLOOD: u64 = 12;

/// What it does wrong, besides asking at all.
const TRICKS: [Fault; 9] = [
    Fault::RepeatRequest,
    Fault::StaleRequest,
    Fault::RoundsOutOfOrder,
    Fault::ConsumerOutOfRange,
    Fault::AfterRelease,
    Fault::AddressTwice,
    Fault::Flood,
    Fault::Malformed,
    Fault::Cancel,
];

/// A client that misbehaves.
#[derive(Clone, Debug)]
pub struct Rogue {
    number: u32,
    at: Time,
    calls: Outstanding<()>,
    last: Option<Request>,
    released: Option<ClientId>,
}

impl Rogue {
    /// The rogue of this number.
    pub const fn new(number: u32) -> Self {
        Self { number, at: Time::ZERO, calls: Outstanding::new(1), last: None, released: None }
    }

    fn call(&mut self, now: Time, request: Request, with: &mut With<'_>) -> u64 {
        let token = self.calls.add(patience(now, with), ());
        self.last = Some(request.clone());
        with.acts.push(Act::Call { token, request });
        token
    }

    fn act(&mut self, now: Time, with: &mut With<'_>) {
        let strengths = TRICKS.map(|trick| with.swarm.faults.strength(trick));
        let Some(trick) = with.stream.weighed(&strengths).and_then(|at| TRICKS.get(at)) else {
            return;
        };
        let acted = self.play(now, *trick, with);
        if acted.is_some() {
            with.tally.fault(*trick);
        }
    }

    fn play(&mut self, now: Time, trick: Fault, with: &mut With<'_>) -> Option<()> {
        let request = match trick {
            Fault::RepeatRequest => self.last.clone()?,
            Fault::StaleRequest => self.stale(with)?,
            Fault::RoundsOutOfOrder => rounds_out_of_order(with)?,
            Fault::ConsumerOutOfRange => consumer_out_of_range(with)?,
            Fault::AfterRelease => self.after_release(with)?,
            Fault::AddressTwice => self.address_twice(with),
            Fault::Flood => {
                for _ in 0..FLOOD {
                    let request = meaningful(with)?;
                    self.call(now, request, with);
                }
                return Some(());
            }
            Fault::Cancel => {
                let request = meaningful(with)?;
                let token = self.call(now, request, with);
                self.calls.take(token);
                with.acts.push(Act::GiveUp { token });
                return Some(());
            }
            _ => malformed(with),
        };
        self.call(now, request, with);
        Some(())
    }

    /// Something about an old client, or a new one that somebody else is.
    fn stale(&mut self, with: &mut With<'_>) -> Option<Request> {
        let place = with.stream.below(8);
        let client = *with.known.clients.at(place)?;
        Some(match with.stream.below(4) {
            0 => {
                self.released = Some(client);
                Request::ReleaseClient { client }
            }
            1 => rounds(client, None, None),
            2 => Request::WorkerUpdate {
                worker_address: address(0, 0).to_string(),
                // The first one nobody knows, or no more.
                progress: vec![(TaskId::new(1), true), (*with.known.tasks.at(place)?, true)],
            },
            _ => Request::GetOrCreateIteration { job: *with.known.jobs.at(place)?, repetition: 0 },
        })
    }

    fn after_release(&mut self, with: &mut With<'_>) -> Option<Request> {
        let client = self.released?;
        Some(match with.stream.below(2) {
            0 => rounds(client, Some(1), Some(2)),
            _ => Request::ReleaseClient { client },
        })
    }

    /// A worker that has another's address.
    fn address_twice(&self, with: &mut With<'_>) -> Request {
        let worker = u32::try_from(with.stream.below(u64::from(with.swarm.workers))).unwrap_or(0);
        Request::WorkerHeartbeat(WorkerHeartbeat {
            address: address(worker, 0).to_string(),
            current_tasks: with.known.tasks.at(0).copied().into_iter().collect(),
            tags: vec![format!("rogue{}", self.number)],
            uid: i64::from(self.number).saturating_add(900_000),
            transfer_servers: Vec::new(),
        })
    }
}

fn rounds(client: ClientId, current: Option<i64>, blocked: Option<i64>) -> Request {
    Request::ClientHeartbeat(ClientHeartbeat {
        client,
        current_round: current,
        blocked_round: blocked,
        target_processing_time_ns: 0,
    })
}

fn rounds_out_of_order(with: &mut With<'_>) -> Option<Request> {
    let client = *with.known.clients.at(with.stream.below(4))?;
    let odd = [0, 3, -5, i64::MAX, i64::MIN, 40];
    let current = with.stream.pick(&odd).copied();
    let blocked = with.stream.pick(&odd).copied().filter(|_| with.stream.chance(500));
    Some(rounds(client, current, blocked))
}

fn consumer_out_of_range(with: &mut With<'_>) -> Option<Request> {
    let task = *with.known.tasks.at(with.stream.below(4))?;
    let consumer_index = with.stream.pick(&[0, -1, 3, i64::MAX]).copied()?;
    let round = with.stream.pick(&[0, 1, -1, i64::MAX]).copied()?;
    Some(Request::MaybeRemoveTask { task, consumer_index, round })
}

/// What a client might ask, about something that is there.
fn meaningful(with: &mut With<'_>) -> Option<Request> {
    let kinds = [Kind::GetWorkers, Kind::Report, Kind::GetSplit, Kind::GetMetadata];
    let place = with.stream.below(3);
    Some(match with.swarm.weights.pick(&kinds, with.stream) {
        Some(Kind::Report) => Request::Report,
        Some(Kind::GetSplit) => Request::GetSplit {
            iteration: *with.known.iterations.at(place)?,
            repetition: 0,
            source: 0,
            asker: None,
        },
        Some(Kind::GetMetadata) => {
            Request::GetMetadata { dataset: with.known.datasets.at(place)?.clone() }
        }
        _ => Request::GetWorkers,
    })
}

/// Fields with what nobody would send.
fn malformed(with: &mut With<'_>) -> Request {
    let odd = [-1, 0, i64::MAX, i64::MIN];
    let number = with.stream.pick(&odd).copied().unwrap_or(-1);
    let iteration = with.known.iterations.at(0).copied().unwrap_or(IterationId::new(number));
    let job = with.known.jobs.at(0).copied().unwrap_or(JobId::new(number));
    match with.stream.below(10) {
        0 => Request::GetSplit { iteration, repetition: number, source: 0, asker: None },
        1 => Request::GetSplit { iteration, repetition: 0, source: number, asker: None },
        2 => Request::GetOrCreateIteration { job, repetition: number },
        7 => odd_job(Some(number), with),
        8 => odd_job(None, with),
        9 => odd_dataset(with),
        3 => Request::GetDefinition { dataset: DatasetId::new("../nothing") },
        4 => Request::GetSplit {
            iteration: IterationId::new(number),
            repetition: 0,
            source: 0,
            asker: Some("nobody:1".into()),
        },
        5 => Request::WorkerUpdate {
            worker_address: String::new(),
            progress: vec![(TaskId::new(number), true)],
        },
        _ => Request::RestorePosition { name: "none".into(), job: "none".into(), wanted: None },
    }
}

/// A job that nobody can want, or that has a name of others and not what they agreed on.
fn odd_job(consumers: Option<i64>, with: &mut With<'_>) -> Request {
    let names = u64::from(with.swarm.job_names);
    // Mostly a name that nobody else uses: who first uses one decides for all.
    let number = match with.stream.chance(250) {
        true => with.stream.below(names),
        false => names.saturating_add(with.stream.below(2)),
    };
    let policies = [ShardingPolicy::Hint, ShardingPolicy::File, ShardingPolicy::FileOrData];
    let sharding = with.stream.pick(&policies).copied().unwrap_or(ShardingPolicy::Hint);
    let targets = [TargetWorkers::Any, TargetWorkers::Unspecified, TargetWorkers::Local];
    let target_workers = with.stream.pick(&targets).copied().unwrap_or(TargetWorkers::Any);
    let dataset = with.known.datasets.at(number).cloned();
    Request::GetOrCreateJob(GetOrCreateJob {
        dataset: dataset.unwrap_or_else(|| DatasetId::new("nothing")),
        same_dataset: false,
        sharding,
        name: Some(job_name(number)),
        consumers,
        use_cross_trainer_cache: with.stream.chance(500),
        target_workers,
    })
}

/// A dataset under an id that others gave to another one.
fn odd_dataset(with: &mut With<'_>) -> Request {
    let shape = with.swarm.datasets.iter().find(|shape| shape.wished.is_some());
    let Some(shape) = shape.or(with.swarm.datasets.first()) else {
        return Request::Report;
    };
    let mut request = dataset::registration(shape);
    match with.stream.below(3) {
        0 => request.metadata.cardinality = 7,
        1 => request.metadata.compression = Compression::Unspecified,
        _ => request.metadata.structure = Digest::new([9; 32]),
    }
    Request::RegisterDataset(request)
}

impl Actor for Rogue {
    fn role(&self) -> Role {
        Role::Rogue
    }

    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>) {
        match what {
            Happening::Wake | Happening::Reborn { .. } => {
                self.calls.give_up_overdue(now, with.acts);
                if now >= self.at {
                    self.at = now.after(pause(with.stream, with.swarm.pace.act_ms));
                    if !with.calm {
                        self.act(now, with);
                    }
                }
            }
            Happening::Answered { token, .. } => drop(self.calls.take(token)),
            Happening::Coordinated { .. }
            | Happening::Pushed(_)
            | Happening::Asked { .. }
            | Happening::Told { .. }
            | Happening::Element(_) => {}
        }
    }

    fn wake_at(&self) -> Time {
        self.at.min(self.calls.deadline())
    }

    fn state(&self) -> String {
        format!("waits for {:?}", self.calls)
    }
}
