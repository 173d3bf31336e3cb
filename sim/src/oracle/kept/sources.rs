//! How far the splits of each source were handed out, as the records say, by code of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_core::dispatcher::{Record, State};
use rondo_core::ids::{ClientId, IterationId, JobId, Lsn};

use crate::oracle::Verdict;

/// The pass over a source, and the splits of it that were handed out.
type Place = (i64, u64);

/// A change of an iteration's places.
#[derive(Clone, Debug)]
enum Change {
    Begun(Vec<Place>),
    /// A split of a source, or the end of its pass.
    Produced(u32, i64, bool),
    /// Clients hold the splits of the first source up to here.
    Held(u64),
    Freed,
}

/// The changes of all iterations, with their records, oldest first.
#[derive(Debug, Default)]
pub(super) struct Sources {
    changes: Vec<(Lsn, IterationId, Change)>,
    /// The places of each iteration's sources after all changes.
    places: BTreeMap<IterationId, Vec<Place>>,
    /// The newest job of each name, and the job of each iteration. Both numbers stand for one for ever.
    jobs: BTreeMap<Arc<str>, JobId>,
    of_job: BTreeMap<IterationId, JobId>,
    /// The iteration of each client. The number of a client stands for one for ever.
    clients: BTreeMap<ClientId, IterationId>,
}

impl Sources {
    /// A record was written.
    pub(super) fn record(&mut self, lsn: Lsn, record: &Record) {
        self.note_job(record);
        let (iteration, change) = match record {
            Record::DeleteJob { name, .. } => return self.delete_job(lsn, name),
            Record::CreateIteration { id, sources, .. } => {
                (*id, Change::Begun(vec![(0, 0); sources.len()]))
            }
            Record::CreateFinishedIteration { id, .. } => (*id, Change::Begun(Vec::new())),
            Record::ResumeIteration { id, sources, .. } => {
                let places = sources.iter().map(|source| (source.repetition, source.index));
                (*id, Change::Begun(places.collect()))
            }
            Record::ProduceSplit { iteration, source, repetition, finished, .. } => {
                (*iteration, Change::Produced(*source, *repetition, *finished))
            }
            Record::AcquireClient { id, iteration, .. } => {
                self.clients.insert(*id, *iteration);
                return;
            }
            Record::HoldSplits { client, taken, .. } => {
                match (self.clients.get(client), taken.iter().max()) {
                    (Some(iteration), Some(last)) => {
                        (*iteration, Change::Held(last.saturating_add(1)))
                    }
                    _ => return,
                }
            }
            Record::FreeIteration { id, .. } => (*id, Change::Freed),
            _ => return,
        };
        apply(&mut self.places, iteration, &change);
        self.changes.push((lsn, iteration, change));
    }

    fn note_job(&mut self, record: &Record) {
        match record {
            Record::CreateJob { id, name, .. } => drop(self.jobs.insert(name.clone(), *id)),
            Record::CreateIteration { id, job, .. }
            | Record::CreateFinishedIteration { id, job, .. }
            | Record::ResumeIteration { id, job, .. } => drop(self.of_job.insert(*id, *job)),
            _ => {}
        }
    }

    /// All iterations of the job go with it.
    fn delete_job(&mut self, lsn: Lsn, name: &str) {
        let job = self.jobs.get(name);
        let is_of = |id: &&IterationId| job.is_some() && self.of_job.get(*id) == job;
        let iterations: Vec<IterationId> = self.places.keys().filter(is_of).copied().collect();
        for id in iterations {
            apply(&mut self.places, id, &Change::Freed);
            self.changes.push((lsn, id, Change::Freed));
        }
    }

    /// Only the records up to this one are left.
    pub(super) fn recovered(&mut self, upto: Lsn) {
        if self.changes.last().is_some_and(|(lsn, _, _)| *lsn > upto) {
            self.changes.retain(|(lsn, _, _)| *lsn <= upto);
            self.places.clear();
            for (_, iteration, change) in &self.changes {
                apply(&mut self.places, *iteration, change);
            }
        }
    }

    /// Whether a state has the same iterations, with the same places.
    ///
    /// # Errors
    /// The first difference.
    pub(super) fn check(&self, state: &State) -> Verdict {
        if !state.iterations().keys().eq(self.places.keys()) {
            let kept: Vec<_> = state.iterations().keys().collect();
            let own: Vec<_> = self.places.keys().collect();
            return Err(format!("the iterations are {kept:?}, and should be {own:?}"));
        }
        for (iteration, own) in state.iterations().values().zip(self.places.values()) {
            let kept = iteration.sources.iter().map(|source| (source.repetition, source.index));
            if !kept.clone().eq(own.iter().copied()) {
                let (id, kept) = (iteration.id, kept.collect::<Vec<_>>());
                return Err(format!(
                    "the sources of iteration {id} are at {kept:?}, and should be at {own:?}"
                ));
            }
        }
        Ok(())
    }
}

fn apply(places: &mut BTreeMap<IterationId, Vec<Place>>, id: IterationId, change: &Change) {
    let of = |source: u32| usize::try_from(source).unwrap_or(usize::MAX);
    match change {
        Change::Begun(begun) => drop(places.insert(id, begun.clone())),
        Change::Produced(source, pass, finished) => {
            let place = places.get_mut(&id).and_then(|places| places.get_mut(of(*source)));
            if let Some(place) = place {
                let given = if place.0 == *pass { place.1 } else { 0 };
                *place = if *finished { (*pass + 1, 0) } else { (*pass, given + 1) };
            }
        }
        Change::Held(upto) => {
            let place = places.get_mut(&id).and_then(|places| places.first_mut());
            // They hold splits of the first pass only, also when workers are in a later one.
            if let Some(place) = place.filter(|place| place.0 == 0) {
                place.1 = place.1.max(*upto);
            }
        }
        Change::Freed => drop(places.remove(&id)),
    }
}
