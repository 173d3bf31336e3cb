//! Each split that a worker was given is with a process that lives, or is counted. When another process
//! follows at a worker's address, the splits of the one before are counted as lost or wait to be handed
//! out again as soon as the new one is answered; they are not taken from a process that lives because
//! of one that has gone. A split whose caller left before the answer did goes back.
//!
//! The truth is the world's own: it knows which process of a worker sent a call, and when one ended.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::control::Record;
use rondo_core::dispatcher::{self, Reply, Request, State, WorkerHeartbeat};
use rondo_core::ids::{CallId, IterationId, TaskId, WorkerId};
use rondo_core::time::{Duration, Time};

use super::{Caller, Oracle, Seen, SeenKind, Shadow, Verdict};
use crate::call_map::CallMap;
use crate::checks::{Check, reached};
use crate::swarm::UID_OF_ANY_PROCESS;

/// A process that was heard so recently is not silent, whatever the settings are.
const HEARD_LATELY: Duration = Duration::from_secs(3);
/// Heartbeats of a former process in a row after which it may have its address back.
const OF_FORMER_MAX: u32 = 2;

/// A process of an actor: the actor and which of its lives.
type Process = (u32, u32);

/// A source, and the pass over it.
type Pass = (u32, i64);

/// A heartbeat that the dispatcher has taken.
#[derive(Debug)]
struct Beat {
    by: Process,
    stale: bool,
    address: String,
    uid: i64,
    tasks: BTreeSet<TaskId>,
}

/// What is known of the processes of one actor since the dispatcher began.
#[derive(Debug, Default)]
struct Lives {
    /// Those that were heard, and the tasks that each named.
    named: BTreeMap<u32, BTreeSet<TaskId>>,
    /// When the newest of them was heard last, and heartbeats of former ones since.
    heard: Option<Time>,
    of_former: u32,
    /// The newest that is gone.
    gone: Option<u32>,
}

#[derive(Default)]
pub(super) struct Balance {
    /// Whether workers are the models, whose processes the world can tell apart.
    is_on: bool,
    lives: BTreeMap<u32, Lives>,
    /// Addresses that a process of another address has used.
    disputed: BTreeSet<String>,
    asking: CallMap<Process>,
    beats: CallMap<Beat>,
    /// The task that each call was given a split for, and the split's source and pass.
    given: CallMap<(TaskId, Pass)>,
    /// How many splits each process took for a task.
    held: BTreeMap<TaskId, BTreeMap<Process, u64>>,
    /// How many splits were given for a task and never left, less those taken back.
    undelivered: BTreeMap<TaskId, BTreeMap<Pass, i64>>,
    /// What must be counted once the record is applied: by iteration, how many splits were counted
    /// before, and how many more there must be.
    due: Vec<(IterationId, u64, u64)>,
}

impl Balance {
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    fn taken(&mut self, now: Time, call: CallId, by: Caller, request: &Request) {
        match request {
            Request::GetSplit { .. } if by.honest && !by.stale => {
                self.asking.insert(call, (by.actor, by.life));
            }
            Request::WorkerHeartbeat(heartbeat) => self.beat(now, call, by, heartbeat),
            _ => {}
        }
    }

    fn beat(&mut self, now: Time, call: CallId, by: Caller, heartbeat: &WorkerHeartbeat) {
        if !by.honest {
            self.disputed.insert(heartbeat.address.clone());
        }
        let beat = Beat {
            by: (by.actor, by.life),
            stale: by.stale,
            address: heartbeat.address.clone(),
            uid: heartbeat.uid,
            tasks: heartbeat.current_tasks.iter().copied().collect(),
        };
        let lives = self.lives.entry(by.actor).or_default();
        let newest = lives.named.last_key_value().map(|(life, _)| *life);
        if newest.is_some_and(|newest| by.life < newest) {
            lives.of_former = lives.of_former.saturating_add(1);
        } else {
            (lives.heard, lives.of_former) = (Some(now), 0);
        }
        self.beats.insert(call, beat);
    }

    /// Notes what a process named, when it is known that the dispatcher has heard it.
    fn heard(&mut self, call: CallId, state: &State) -> Verdict {
        let Some(beat) = self.beats.remove(&call) else {
            return Ok(());
        };
        let (actor, life) = beat.by;
        let is_told = !beat.stale && !self.disputed.contains(&beat.address);
        let of = self.lives.entry(actor).or_default();
        of.named.entry(life).or_default().extend(beat.tasks.iter().copied());
        let Some(lives) = self.lives.get(&actor) else {
            return Ok(());
        };
        let before = lives.named.range(..life).next_back();
        match before.filter(|_| is_told) {
            None => Ok(()),
            Some((former, named)) => self.check_former((actor, *former), named, &beat, state),
        }
    }

    /// Another process has followed, and names nothing that the one before has named: nothing is with
    /// that one any more.
    fn check_former(
        &self,
        former: Process,
        named: &BTreeSet<TaskId>,
        beat: &Beat,
        state: &State,
    ) -> Verdict {
        let own = self.lives.get(&beat.by.0).and_then(|lives| lives.named.get(&beat.by.1));
        if own.is_some_and(|own| !own.is_disjoint(named)) {
            return Ok(());
        }
        let of_worker = |id: &&TaskId| {
            let task = state.tasks().get(id).filter(|task| !task.finished);
            let worker = task.and_then(|task| state.workers().get(&task.worker));
            worker.is_some_and(|worker| *worker.address == *beat.address)
        };
        let with = |id: &TaskId| self.held.get(id).and_then(|of| of.get(&former)).copied();
        reached(Check::BalanceFollowed);
        let mut kept = named.iter().filter(of_worker);
        match kept.find_map(|id| Some((id, with(id).filter(|count| *count > 0)?))) {
            None => Ok(()),
            Some((task, count)) => Err(format!(
                "another process followed at {}, and {count} splits of task {task} that the one \
                 before took are neither lost nor to be handed out again",
                beat.address
            )),
        }
    }

    fn record(
        &mut self,
        now: Time,
        record: &Record,
        during: Option<CallId>,
        state: &State,
    ) -> Verdict {
        let Record::Dispatcher(record) = record else {
            return Ok(());
        };
        match *record {
            dispatcher::Record::ProduceSplit {
                task: Some(task),
                finished: false,
                source,
                repetition,
                ..
            }
            | dispatcher::Record::RepeatSplit { task: Some(task), source, repetition, .. } => {
                self.given.extend(during.map(|call| (call, (task, (source, repetition)))));
            }
            dispatcher::Record::TakeBackSplit { task: Some(task), source, repetition, .. } => {
                self.taken_back(task, (source, repetition));
            }
            dispatcher::Record::FinishTask { id } => {
                self.held.remove(&id);
                return self.finished(id, state);
            }
            dispatcher::Record::RestartTasks { worker, .. } => {
                self.check_restart(now, during, worker, state)?;
                self.settle(worker, state);
            }
            dispatcher::Record::LoseWorker { id, .. } => self.settle(id, state),
            _ => {}
        }
        Ok(())
    }

    /// A task is over: no split was given for it that never left.
    fn finished(&mut self, id: TaskId, state: &State) -> Verdict {
        let undelivered = self.undelivered.remove(&id).unwrap_or_default();
        let task = state.tasks().get(&id);
        let of = task.and_then(|task| state.iterations().get(&task.iteration));
        let Some(of) = of.filter(|of| !of.collected && !of.finished) else {
            return Ok(());
        };
        // A pass that somebody has gone on from is over for all.
        let goes_on = |(source, pass): Pass| {
            let at = usize::try_from(source).ok().and_then(|at| of.sources.get(at));
            at.is_some_and(|at| at.repetition == pass)
        };
        reached(Check::BalanceOver);
        let mut left = undelivered.into_iter().filter(|(pass, count)| *count > 0 && goes_on(*pass));
        match left.next() {
            None => Ok(()),
            Some((pass, count)) => {
                Err(format!("task {id} is over, and {count} splits of {pass:?} for it never left"))
            }
        }
    }

    /// A split goes back: its answer never left or, if all of the pass have left, its caller did not take
    /// the answer.
    fn taken_back(&mut self, task: TaskId, pass: Pass) {
        let undelivered = self.undelivered.get(&task).and_then(|of| of.get(&pass));
        let waits = self.given.values().any(|given| *given == (task, pass));
        if waits || undelivered.is_some_and(|count| *count > 0) {
            return self.count_undelivered(task, pass, -1);
        }
        let held = self.held.get_mut(&task).and_then(|held| held.values_mut().next_back());
        if let Some(held) = held {
            *held = held.saturating_sub(1);
        }
    }

    fn count_undelivered(&mut self, task: TaskId, pass: Pass, more: i64) {
        let count = self.undelivered.entry(task).or_default().entry(pass).or_default();
        *count = count.saturating_add(more);
    }

    /// What a worker's tasks have is lost now: it is counted.
    fn settle(&mut self, worker: WorkerId, state: &State) {
        let mut counts: BTreeMap<IterationId, u64> = BTreeMap::new();
        for task in state.tasks().values().filter(|task| task.worker == worker && !task.finished) {
            let held = self.held.remove(&task.id).unwrap_or_default();
            self.undelivered.remove(&task.id);
            // A split on its way is counted with the others: no process has it beside that.
            self.given.retain(|_, (id, _)| *id != task.id);
            let count = counts.entry(task.iteration).or_default();
            *count = held.values().fold(*count, |sum, held| sum.saturating_add(*held));
        }
        for (id, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            if let Some(of) = state.iterations().get(&id).filter(|of| !of.finished) {
                self.due.push((id, counted(of), count));
            }
        }
    }

    /// What the last record made lost is lost or to be handed out again.
    fn check_due(&mut self, state: &State) -> Verdict {
        for (id, before, count) in std::mem::take(&mut self.due) {
            reached(Check::BalanceCounted);
            let after = state.iterations().get(&id).map(counted);
            if after.is_some_and(|after| after < before.saturating_add(count)) {
                return Err(format!(
                    "{count} splits of iteration {id} were with a process that has gone; \
                     {before} were counted before, and {after:?} after"
                ));
            }
        }
        Ok(())
    }

    /// The tasks of a worker begin anew: not because of a process that was heard before the one that
    /// lives.
    fn check_restart(
        &self,
        now: Time,
        during: Option<CallId>,
        worker: WorkerId,
        state: &State,
    ) -> Verdict {
        let Some(beat) = during.and_then(|call| self.beats.get(&call)) else {
            return Ok(());
        };
        let (actor, life) = beat.by;
        let Some(lives) = self.lives.get(&actor) else {
            return Ok(());
        };
        let newest = lives.named.last_key_value().map_or(life, |(newest, _)| *newest);
        let lives_on = lives.gone.is_none_or(|gone| gone < newest);
        let lately = lives.heard.is_some_and(|heard| now.since(heard) <= HEARD_LATELY);
        let was_heard = lives.named.contains_key(&life);
        let is_there = state.workers().get(&worker).is_some_and(|worker| !worker.lost);
        let is_late = life < newest && was_heard && lives.of_former <= OF_FORMER_MAX;
        let is_named = beat.uid != UID_OF_ANY_PROCESS && !self.disputed.contains(&beat.address);
        reached(Check::BalanceRestart);
        match is_late && is_named && lives_on && lately && is_there {
            false => Ok(()),
            true => Err(format!(
                "the tasks of {} begin anew because of its process {life}, and process {newest} lives",
                beat.address
            )),
        }
    }

    fn answered(&mut self, call: CallId, reply: &Reply, state: &State) -> Verdict {
        let (asking, given) = (self.asking.remove(&call), self.given.remove(&call));
        match reply {
            Reply::Split(Some(_)) => {
                if let Some((process, (task, _))) = asking.zip(given) {
                    let held = self.held.entry(task).or_default().entry(process).or_default();
                    *held = held.saturating_add(1);
                }
                Ok(())
            }
            Reply::WorkerHeartbeat(_) => self.heard(call, state),
            _ => Ok(()),
        }
    }

    fn forget(&mut self, call: CallId) -> Option<(TaskId, Pass)> {
        self.asking.remove(&call);
        self.beats.remove(&call);
        self.given.remove(&call)
    }

    /// Another process of the dispatcher knows no more than what was recorded.
    fn begin_anew(&mut self) {
        let gone = std::mem::take(&mut self.lives).into_iter();
        let gone =
            gone.map(|(actor, lives)| (actor, Lives { gone: lives.gone, ..Lives::default() }));
        let disputed = std::mem::take(&mut self.disputed);
        *self = Self { is_on: self.is_on, lives: gone.collect(), disputed, ..Self::default() };
    }
}

/// Splits of an iteration that are lost, in doubt or to be handed out again, or were.
fn counted(of: &dispatcher::Iteration) -> u64 {
    of.splits.lost.saturating_add(of.splits.again.count())
}

impl Oracle for Balance {
    fn name(&self) -> &'static str {
        "balance"
    }

    /// Everything, since what a record leads to is looked for as soon as anything else is seen.
    fn watches(&self) -> &'static [SeenKind] {
        SeenKind::ALL
    }

    fn see(&mut self, now: Time, seen: &Seen<'_>, shadow: &Shadow) -> Verdict {
        if !self.is_on {
            return Ok(());
        }
        self.check_due(shadow.state())?;
        match seen {
            Seen::Taken { call, by, request } => self.taken(now, *call, *by, request),
            Seen::Recorded { record, during, .. } => {
                return self.record(now, record, *during, shadow.state());
            }
            Seen::Answered { call, answer: Ok(reply), .. } => {
                return self.answered(*call, reply, shadow.state());
            }
            Seen::Answered { call, .. } => drop(self.forget(*call)),
            Seen::GivenUp { call } => {
                // The record that takes it back may have come before this.
                if let Some((task, pass)) = self.forget(*call) {
                    self.count_undelivered(task, pass, 1);
                }
            }
            Seen::ProcessGone { actor } => {
                let lives = self.lives.entry(*actor).or_default();
                lives.gone = lives.named.last_key_value().map(|(life, _)| *life).max(lives.gone);
            }
            Seen::Died => self.begin_anew(),
            _ => {}
        }
        Ok(())
    }
}
