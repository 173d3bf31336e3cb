//! The worker's machine: takes what happens, and says what to do.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::calls::Purpose;
use super::completions::Completions;
use super::config::Config;
use super::consumers::Consumers;
use super::registration::Rhythm;
use super::retry::Retry;
use super::task::Task;
use super::types::{Effect, Input, RpcId, RunId};
use crate::ids::{DatasetId, IterationId, TaskId};
use crate::time::Time;

/// How far a worker's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for its driver to listen.
    New,
    /// It asks for the dispatcher's version.
    Version,
    /// It tells the dispatcher of itself.
    FirstHeartbeat,
    /// The dispatcher knows it.
    Registered,
    /// It does nothing any more.
    Stopped,
}

/// A worker.
#[derive(Clone, Debug)]
pub struct Worker {
    pub(super) config: Config,
    pub(super) stage: Stage,
    /// Registering is tried again.
    pub(super) starting: Option<Retry>,
    pub(super) rhythm: Rhythm,
    /// The dispatcher has not answered since.
    pub(super) away_since: Option<Time>,
    /// Calls to the dispatcher under way, with what for.
    pub(super) rpcs: BTreeMap<RpcId, Purpose>,
    pub(super) last_rpc: u64,
    pub(super) tasks: BTreeMap<TaskId, Box<Task>>,
    /// Tasks that the dispatcher has deleted, with their iterations and datasets if they were here.
    pub(super) deleted: BTreeMap<TaskId, Option<(IterationId, DatasetId)>>,
    /// Deleted tasks that the dispatcher has pushed again, and whether a heartbeat that asks about
    /// them is under way. Until its answer comes, nobody knows whether they are over.
    pub(super) pushed_again: BTreeMap<TaskId, bool>,
    /// The tasks that elements are made for.
    pub(super) runs: BTreeMap<RunId, TaskId>,
    pub(super) last_run: u64,
    /// Consumers' calls under way.
    pub(super) consumers: Consumers,
    /// Tasks for which something is to be done at a time.
    pub(super) alarms: BTreeMap<TaskId, Time>,
    /// The bytes that are ready in all tasks.
    pub(super) ready_bytes: u64,
    pub(super) completions: Completions,
    /// It stops, no later than then.
    pub(super) drained_by: Option<Time>,
}

/// Why a worker wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// To try to register again.
    Register,
    /// To show that it lives.
    Heartbeat,
    /// To tell the dispatcher again which tasks are over.
    Complete,
    /// To do something for a task.
    Task(TaskId),
    /// To stop, whatever is under way.
    Stop,
}

impl Worker {
    /// A worker that is not known to anybody.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            stage: Stage::New,
            starting: None,
            rhythm: Rhythm::new(),
            away_since: None,
            rpcs: BTreeMap::new(),
            last_rpc: 0,
            tasks: BTreeMap::new(),
            deleted: BTreeMap::new(),
            pushed_again: BTreeMap::new(),
            runs: BTreeMap::new(),
            last_run: 0,
            consumers: Consumers::new(),
            alarms: BTreeMap::new(),
            ready_bytes: 0,
            completions: Completions::new(),
            drained_by: None,
        }
    }

    /// Its settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Elements that are ready in all tasks together, in bytes.
    pub const fn buffered_bytes(&self) -> u64 {
        self.ready_bytes
    }

    /// How many tasks it holds.
    pub fn tasks_held(&self) -> usize {
        self.tasks.len()
    }

    /// Takes one input and pushes what must be done into `out`, in order.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Effect>) {
        match input {
            Input::Start => self.start(out),
            Input::Asked { call, client, ask } => {
                if let Err(status) = self.asked(now, (client, call), ask, out) {
                    out.push(Effect::Answer { call, result: Err(status) });
                }
            }
            Input::Cancel { call } => self.cancel(now, call, out),
            Input::Left { call } => self.left(now, call, out),
            Input::Answered { rpc, result, entropy } => {
                self.answered(now, rpc, (result, entropy), out);
            }
            Input::Opened { run, result } => self.opened(now, run, result, out),
            Input::Produced { run, elements, then } => {
                self.produced(now, run, (elements, then), out);
            }
            Input::Drain => self.drain(now, out),
            Input::Tick => self.tick(now, out),
        }
        self.stop_if_drained(now, out);
    }

    fn tick(&mut self, now: Time, out: &mut Vec<Effect>) {
        self.tick_registration(now, out);
        self.tick_completions(now, out);
        self.wake_tasks(now, out);
    }

    /// When to call [`Worker::step`] with [`Input::Tick`] next, and what for.
    pub fn deadline(&self) -> Option<(Time, Wake)> {
        if self.stage == Stage::Stopped {
            return None;
        }
        let task = self.alarms.iter().map(|(id, at)| (*at, *id)).min();
        let wakes = [
            (self.starting_at(), Wake::Register),
            (self.rhythm.due, Wake::Heartbeat),
            (self.completions.retry_at, Wake::Complete),
            (self.drained_by, Wake::Stop),
        ];
        let wakes = wakes.into_iter().filter_map(|(at, wake)| Some((at?, wake)));
        wakes.chain(task.map(|(at, id)| (at, Wake::Task(id)))).min()
    }
}
