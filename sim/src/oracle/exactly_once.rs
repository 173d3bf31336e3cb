//! When a pass over a source ends by itself, each of its splits has been handed out: exactly once
//! where no worker was declared lost or restarted and no caller left without taking its answer, at
//! least once where lost splits are handed out again. Not counted are splits whose answer could not
//! leave, and those that went to nobody known. A position that is saved passes over none of them. A
//! lost worker that has no unfinished task of the iteration when it asks is told the end for its own
//! sake, and never gets a split. No call is refused for which a split was chosen, as long as the node
//! goes on.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Iteration, Reply, Request, SavedRepetition};
use rondo_core::ids::{CallId, IterationId};
use rondo_core::time::Time;

use super::{Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};

/// A source of an iteration, and the pass over it.
type Pass = (IterationId, i64, i64);

#[derive(Default)]
struct Progress {
    /// Values answered.
    answered: BTreeSet<i64>,
    /// Splits that were produced by calls not answered (yet).
    in_doubt: u64,
}

pub(super) struct ExactlyOnce {
    reissue: bool,
    asking: CallMap<Pass>,
    producing: BTreeSet<CallId>,
    /// Calls of workers that have no task of the iteration.
    without_task: BTreeSet<CallId>,
    passes: BTreeMap<Pass, Progress>,
    /// The latest pass anybody asked for, by iteration and source.
    asked: BTreeMap<(IterationId, i64), i64>,
    /// Iterations that began in the middle, or of which clients hold splits.
    resumed: BTreeSet<IterationId>,
    /// A call that was refused, and for which there was a split.
    refused: Option<CallId>,
}

impl ExactlyOnce {
    pub(super) fn new(reissue: bool) -> Self {
        Self {
            reissue,
            asking: CallMap::default(),
            producing: BTreeSet::new(),
            without_task: BTreeSet::new(),
            passes: BTreeMap::new(),
            asked: BTreeMap::new(),
            resumed: BTreeSet::new(),
            refused: None,
        }
    }

    fn record(&mut self, record: &Record, during: Option<CallId>, shadow: &Shadow) -> Verdict {
        let Record::Dispatcher(record) = record else {
            return Ok(());
        };
        match record {
            dispatcher::Record::ProduceSplit {
                iteration, source, repetition, finished, ..
            } => {
                let pass = (*iteration, i64::from(*source), *repetition);
                if let Some(call) = during.filter(|_| !finished) {
                    let progress = self.passes.entry(pass).or_default();
                    progress.in_doubt = progress.in_doubt.saturating_add(1);
                    self.producing.insert(call);
                }
            }
            // Its caller left without taking the answer. A split's value is its place.
            dispatcher::Record::TakeBackSplit { iteration, source, repetition, place, .. } => {
                let pass = (*iteration, i64::from(*source), *repetition);
                let progress = self.passes.entry(pass).or_default();
                if progress.answered.remove(&place.cast_signed()) {
                    progress.in_doubt = progress.in_doubt.saturating_add(1);
                }
            }
            dispatcher::Record::ResumeIteration { id, .. } => drop(self.resumed.insert(*id)),
            // What clients have is another promise.
            dispatcher::Record::HoldSplits { client, .. } => {
                let client = shadow.state().clients().get(client);
                self.resumed.extend(client.map(|client| client.iteration));
            }
            dispatcher::Record::SavePosition { job, reading, .. } => {
                return reading.iter().try_for_each(|saved| self.saved(job, saved, shadow));
            }
            _ => {}
        }
        Ok(())
    }

    /// A position that is saved passes over no split that nobody has had.
    fn saved(&self, job: &str, saved: &SavedRepetition, shadow: &Shadow) -> Verdict {
        let state = shadow.state();
        let job = state.jobs().values().find(|of| *of.name == *job).map(|of| of.id);
        let is_read = |of: &&Iteration| {
            Some(of.job) == job && of.repetition == saved.repetition && !of.finished
        };
        let Some(of) = state.iterations().values().find(is_read) else {
            return Ok(());
        };
        for (source, at) in (0..).zip(&saved.sources) {
            reached(Check::ExactlyOncePosition);
            let progress = self.passes.get(&(of.id, source, at.repetition));
            let had =
                progress.map_or(0, |had| (had.answered.len() as u64).saturating_add(had.in_doubt));
            if at.index > had && !self.resumed.contains(&of.id) {
                return Err(format!(
                    "a position was saved at split {} of source {source} of iteration {}, of which \
                     {had} had been handed out",
                    at.index, of.id
                ));
            }
        }
        Ok(())
    }

    fn answered(&mut self, call: CallId, reply: &Reply, shadow: &Shadow) -> Verdict {
        let Some(pass) = self.asking.remove(&call) else {
            return Ok(());
        };
        let produced = self.producing.remove(&call);
        let without_task = self.without_task.remove(&call);
        match reply {
            Reply::Split(Some(value)) if without_task => {
                Err(format!("split {value} of {pass:?} went to a worker without a task"))
            }
            Reply::Split(None) if without_task => Ok(()),
            Reply::Split(Some(value)) => {
                let progress = self.passes.entry(pass).or_default();
                let is_new = progress.answered.insert(*value);
                if produced {
                    progress.in_doubt = progress.in_doubt.saturating_sub(1);
                }
                if !is_new && !self.reissue {
                    return Err(format!("split {value} of {pass:?} was handed out twice"));
                }
                Ok(())
            }
            Reply::Split(None) => self.ended(pass, shadow),
            _ => Ok(()),
        }
    }

    /// Somebody was told that a pass is over: it is complete unless somebody went on before.
    fn ended(&self, pass: Pass, shadow: &Shadow) -> Verdict {
        let (iteration, source, repetition) = pass;
        let latest = self.asked.get(&(iteration, source)).copied().unwrap_or(0);
        if latest > repetition || self.resumed.contains(&iteration) {
            return Ok(());
        }
        let Some(of) = shadow.state().iterations().get(&iteration).filter(|of| !of.collected)
        else {
            return Ok(());
        };
        let position = usize::try_from(source).ok().and_then(|at| of.sources.get(at));
        let Some(total) = position.map(|position| position.source.len()) else {
            return Ok(());
        };
        reached(Check::ExactlyOncePass);
        let progress = self.passes.get(&pass);
        let (answered, in_doubt) =
            progress.map_or((0, 0), |progress| (progress.answered.len() as u64, progress.in_doubt));
        match answered.saturating_add(in_doubt) >= total {
            true => Ok(()),
            false => Err(format!(
                "pass {repetition} over source {source} of iteration {iteration} ended with \
                 {answered} of {total} splits handed out and {in_doubt} in doubt"
            )),
        }
    }
}

impl ExactlyOnce {
    /// A node that stops refuses everything first; one that takes a call or records something goes
    /// on.
    fn check_refused(&mut self, seen: &Seen<'_>) -> Verdict {
        match (seen, self.refused) {
            (Seen::Taken { .. } | Seen::Recorded { .. }, Some(call)) => {
                return Err(format!("call {call} was refused, and nobody gets its split"));
            }
            (Seen::Halted { .. } | Seen::Died, _) => self.refused = None,
            _ => {}
        }
        Ok(())
    }
}

/// Whether the worker at an address is lost, or not registered, and has no unfinished task of an iteration.
fn lacks_task(address: &str, iteration: IterationId, shadow: &Shadow) -> bool {
    let state = shadow.state();
    let mut workers = state.workers().values();
    let Some(worker) = workers.find(|worker| *worker.address == *address) else {
        return true;
    };
    if !worker.lost {
        return false;
    }
    let mut tasks = state.tasks().values();
    !tasks.any(|it| it.iteration == iteration && it.worker == worker.id && !it.finished)
}

impl Oracle for ExactlyOnce {
    fn name(&self) -> &'static str {
        "exactly-once"
    }

    fn watches(&self) -> &'static [SeenKind] {
        &[
            SeenKind::Taken,
            SeenKind::Answered,
            SeenKind::GivenUp,
            SeenKind::Halted,
            SeenKind::Died,
            SeenKind::Configured,
            SeenKind::DispatcherRecord,
            SeenKind::CoordinationRecord,
        ]
    }

    fn see(&mut self, _: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        self.check_refused(seen)?;
        match seen {
            Seen::Taken {
                call,
                request: Request::GetSplit { iteration, repetition, source, asker },
                ..
            } => {
                if asker.as_deref().is_some_and(|asker| lacks_task(asker, *iteration, shadow)) {
                    self.without_task.insert(*call);
                }
                self.asking.insert(*call, (*iteration, *source, *repetition));
                let latest = self.asked.entry((*iteration, *source)).or_default();
                *latest = (*latest).max(*repetition);
            }
            Seen::Recorded { record, during, .. } => {
                return self.record(record, *during, shadow);
            }
            Seen::Answered { call, answer: Ok(reply), .. } => {
                return self.answered(*call, reply, shadow);
            }
            // What it produced stays in doubt.
            Seen::Answered { call, .. } => {
                self.asking.remove(call);
                self.without_task.remove(call);
                self.refused = self.refused.or(self.producing.take(call));
            }
            Seen::GivenUp { call } => {
                self.asking.remove(call);
                self.without_task.remove(call);
                self.producing.remove(call);
            }
            Seen::Configured(config) => self.reissue |= config.reissue_lost_splits,
            Seen::Died => {
                self.asking.clear();
                self.without_task.clear();
                self.producing.clear();
            }
            _ => {}
        }
        Ok(())
    }
}
