//! Somebody at the command line: looks, saves positions and goes back to them, registers datasets that
//! nobody may ever read, and deletes jobs, datasets and workers.

use rondo_core::dispatcher::{GetOrCreateJob, Reply, Request, ShardingPolicy, TargetWorkers};
use rondo_core::ids::DatasetId;
use rondo_core::time::Time;

use super::plan::job_name;
use super::{dataset, patience, pause};
use crate::swarm::DatasetShape;
use crate::workload::actor::{Act, Actor, Happening, Role, With};
use crate::workload::kind::Kind;
use crate::workload::outstanding::Outstanding;

const KINDS: [Kind; 11] = [
    Kind::Report,
    Kind::GetWorkers,
    Kind::GetConfig,
    Kind::SavePosition,
    Kind::RestorePosition,
    Kind::DeletePosition,
    Kind::ListPositions,
    Kind::RegisterDataset,
    Kind::DeleteJob,
    Kind::DeleteDataset,
    Kind::RemoveWorker,
];

/// An operator.
#[derive(Clone, Debug)]
pub struct Operator {
    number: u32,
    at: Time,
    calls: Outstanding<()>,
    /// Datasets that the operator registered, and workers that it saw lost.
    own: Vec<DatasetId>,
    lost: Vec<String>,
}

impl Operator {
    /// The operator of this number.
    pub const fn new(number: u32) -> Self {
        Self {
            number,
            at: Time::ZERO,
            calls: Outstanding::new(1),
            own: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// What an answer shows to be deleted later.
    fn note(&mut self, answer: &Reply, with: &With<'_>) {
        match answer {
            Reply::Dataset(id) if !self.own.contains(id) => self.own.push(id.clone()),
            Reply::Report(report) if with.swarm.weights.of(Kind::RemoveWorker) > 0 => {
                let lost = report.workers.iter().filter(|worker| worker.lost);
                let (busy, idle): (Vec<_>, Vec<_>) = lost.partition(|worker| worker.tasks > 0);
                let shown = if idle.is_empty() { busy } else { idle };
                self.lost = shown.into_iter().map(|worker| worker.address.clone()).collect();
            }
            _ => {}
        }
    }

    fn deletion(&mut self, kind: Kind, job: String, with: &mut With<'_>) -> Option<Request> {
        match kind {
            Kind::DeleteJob => Some(Request::DeleteJob { name: job }),
            Kind::DeleteDataset => {
                let dataset = with.stream.pick(&self.own)?.clone();
                Some(Request::DeleteDataset { dataset })
            }
            _ => Some(self.removal(with)),
        }
    }

    /// Removes a worker that was seen lost. Whoever saw none looks, or is wrong about one that lives.
    fn removal(&mut self, with: &mut With<'_>) -> Request {
        if let Some(address) = with.stream.pick(&self.lost).cloned() {
            self.lost.clear();
            return Request::RemoveWorker { address };
        }
        if with.stream.chance(950) {
            return Request::Report;
        }
        let address = format!("w{}:1", with.stream.below(u64::from(with.swarm.workers)));
        Request::RemoveWorker { address }
    }

    /// What the operator asks next: whoever has just seen a lost worker often removes it.
    fn kind(&self, with: &mut With<'_>) -> Option<Kind> {
        let removes = !self.lost.is_empty() && with.stream.chance(700);
        let kinds = if removes { &[Kind::RemoveWorker] } else { KINDS.as_slice() };
        with.swarm.weights.pick(kinds, with.stream)
    }

    /// One that consumers read, or one of the few that are its own; some under numbers that the
    /// dispatcher has yet to come by.
    fn dataset(&self, with: &mut With<'_>) -> Option<DatasetShape> {
        let mut shape = with.stream.pick(&with.swarm.datasets)?.clone();
        if with.stream.chance(500) {
            let length = with.stream.between(100, 105);
            shape.sources = Some(vec![length, self.number.into()]);
            shape.wished = match length {
                100 | 101 => Some(format!("own{length}")),
                102 | 103 => None,
                _ => Some(with.stream.between(1005, 1150).to_string()),
            };
        }
        Some(shape)
    }

    fn act(&mut self, now: Time, with: &mut With<'_>) {
        let job = job_name(with.stream.below(u64::from(with.swarm.job_names)));
        let name = format!("p{}", with.stream.below(2));
        let request = match self.kind(with) {
            None => return,
            Some(Kind::SavePosition) => Request::SavePosition { name, job },
            Some(Kind::RestorePosition) => restoration(name, job, with),
            Some(Kind::DeletePosition) => Request::DeletePosition { name },
            Some(Kind::ListPositions) => Request::ListPositions,
            Some(Kind::GetWorkers) => Request::GetWorkers,
            Some(Kind::GetConfig) => Request::GetConfig,
            Some(Kind::RegisterDataset) => match self.dataset(with) {
                Some(shape) => registration(&shape, with),
                None => return,
            },
            Some(kind @ (Kind::DeleteJob | Kind::DeleteDataset | Kind::RemoveWorker)) => {
                match self.deletion(kind, job, with) {
                    Some(request) => request,
                    None => return,
                }
            }
            Some(_) => Request::Report,
        };
        let token = self.calls.add(patience(now, with), ());
        with.acts.push(Act::Call { token, request });
    }
}

/// Restores a position, now and then as a reader does that is to read one dataset and no other.
fn restoration(name: String, job: String, with: &mut With<'_>) -> Request {
    let wished = with.stream.pick(&with.swarm.datasets).and_then(|shape| shape.wished.clone());
    let dataset = wished.filter(|_| with.stream.chance(333)).map(DatasetId::new);
    let wanted = dataset.map(|dataset| {
        Box::new(GetOrCreateJob {
            dataset,
            same_dataset: true,
            sharding: ShardingPolicy::Dynamic,
            name: Some(job.clone()),
            consumers: None,
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Auto,
        })
    });
    Request::RestorePosition { name, job, wanted }
}

/// Registers a dataset, or now and then replaces one, or asks what a reader is to read.
fn registration(shape: &DatasetShape, with: &mut With<'_>) -> Request {
    let mut request = dataset::registration(shape);
    match with.stream.below(8) {
        0 | 1 => {
            dataset::change(&mut request, with.stream.below(3));
            Request::RegisterDataset(request)
        }
        2 if request.wished.is_some() => Request::GetVersionToRead {
            dataset: request.wished.unwrap_or_else(|| DatasetId::new("none")),
            job: Some(job_name(with.stream.below(u64::from(with.swarm.job_names)))),
            position: with.stream.chance(250).then(|| format!("p{}", with.stream.below(2))),
        },
        _ => Request::RegisterDataset(request),
    }
}

impl Actor for Operator {
    fn role(&self) -> Role {
        Role::Operator
    }

    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>) {
        match what {
            Happening::Wake | Happening::Reborn { .. } => {
                self.calls.give_up_overdue(now, with.acts);
                if now >= self.at && self.calls.is_empty() {
                    let mean_ms = with.swarm.pace.act_ms.saturating_mul(2);
                    self.at = now.after(pause(with.stream, mean_ms));
                    if !with.calm {
                        self.act(now, with);
                    }
                }
            }
            Happening::Answered { token, answer } => {
                if let (Some(()), Ok(reply)) = (self.calls.take(token), &answer) {
                    self.note(reply, with);
                    if !self.lost.is_empty() {
                        self.at = now;
                    }
                }
            }
            Happening::Coordinated { .. }
            | Happening::Pushed(_)
            | Happening::Asked { .. }
            | Happening::Told { .. }
            | Happening::Element(_) => {}
        }
    }

    fn wake_at(&self) -> Time {
        match self.calls.is_empty() {
            true => self.at,
            false => self.calls.deadline(),
        }
    }

    fn state(&self) -> String {
        format!("operator {} waits for {:?}", self.number, self.calls)
    }
}
