//! A worker as Rondo has it: the product's own machine, driven over the world's network, with every
//! request and answer as bytes. Its elements are numbers that tell who they are.

mod promises;
mod reading;
mod serving;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use rondo_core::dispatcher::Reply;
use rondo_core::ids::{CallId, ConnectionId, IterationId, TaskId};
use rondo_core::invariant::check_worker;
use rondo_core::status::{Code, Status};
use rondo_core::time::Time;
use rondo_core::worker::{self, Ask, Config, Effect, Input, Part, Request, RpcId, RunId, TaskDef};
use rondo_proto::convert::{PROTOCOL_VERSION, WorkerIdentity};

use self::promises::Promises;
use self::reading::Reads;
use self::serving::{Asker, Leaving, serve};
use super::busy::BusyLoop;
use super::element_bytes::{cardinality, pushed, received, told};
use super::production::{Production, Work};
use super::{address, ms, patience, pause};
use crate::mark::Mark;
use crate::swarm::{ElementsShape, UID_OF_ANY_PROCESS};
use crate::turns::InvariantTurns;
use crate::workload::actor::{Act, Actor, Carried, Happening, Role, With};
use crate::workload::elements::{ElementId, MadeBy, OfElements, WorkerLife};
use crate::workload::outstanding::Outstanding;

/// How long elements may take to be fetched once a worker is asked to stop, in ms.
const DRAIN_MS: u64 = 3000;
/// A split that is handed out in vain is lost: its call waits so many times longer.
const SPLIT_PATIENCE: u64 = 5;

/// A worker.
pub struct DataWorker {
    number: u32,
    /// How many processes there were before.
    life: u32,
    /// How many addresses there were before.
    moves: u32,
    address: Arc<str>,
    machine: Option<worker::Worker>,
    calls: Outstanding<(RpcId, Request)>,
    runs: BTreeMap<RunId, Production>,
    asks: BTreeMap<CallId, Asker>,
    /// Who waits for records of a split.
    reads: BTreeMap<CallId, Reads>,
    next_call: u64,
    /// Elements that are about to leave, in order.
    leaving: VecDeque<Leaving>,
    /// Until when it may take to stop.
    drained_by: Option<Time>,
    /// When it begins again, while it has stopped.
    at: Time,
    got_on_at: Time,
    iterations: BTreeMap<TaskId, IterationId>,
    /// Bytes of the longest element so far.
    longest: u64,
    /// The most that ever waited at once.
    most_asks: u64,
    turns: InvariantTurns,
    busy: BusyLoop,
    promises: Promises,
}

impl DataWorker {
    /// The worker of this number, not yet begun.
    pub fn new(number: u32) -> Self {
        Self {
            number,
            life: 0,
            moves: 0,
            address: address(number, 0),
            machine: None,
            calls: Outstanding::new(1),
            runs: BTreeMap::new(),
            asks: BTreeMap::new(),
            reads: BTreeMap::new(),
            next_call: 1,
            leaving: VecDeque::new(),
            drained_by: None,
            at: Time::ZERO,
            got_on_at: Time::ZERO,
            iterations: BTreeMap::new(),
            longest: 0,
            most_asks: 0,
            turns: InvariantTurns::default(),
            busy: BusyLoop::default(),
            promises: Promises::default(),
        }
    }

    const fn now_living(&self) -> WorkerLife {
        WorkerLife { worker: self.number, life: self.life }
    }

    fn begin(&mut self, now: Time, shape: &ElementsShape, with: &mut With<'_>) {
        self.at = Time::NEVER;
        let config = Config {
            heartbeat_interval: ms(with.swarm.pace.worker_heartbeat_ms),
            buffer_bytes: shape.buffer_bytes,
            drain_timeout: ms(DRAIN_MS),
            ..Config::of(self.address.clone(), PROTOCOL_VERSION)
        };
        self.machine = Some(worker::Worker::new(config));
        with.acts.push(Act::Elements(OfElements::Began(self.now_living())));
        self.step(now, Input::Start, with);
    }

    /// Its process is gone; the next one is another.
    fn end(&mut self, with: &mut With<'_>) {
        if self.machine.take().is_some() {
            with.acts.push(Act::Elements(OfElements::Ended(self.now_living())));
        }
        self.life = self.life.saturating_add(1);
        self.calls.clear();
        self.runs.clear();
        self.leaving.clear();
        self.reads.clear();
        self.iterations.clear();
        self.drained_by = None;
        self.promises = Promises::default();
        let gone = Status::new(Code::Unavailable, "the worker has gone");
        for (_, asker) in std::mem::take(&mut self.asks) {
            serve(asker, Err(gone.clone()), with);
        }
    }

    /// The number of the next call to the machine.
    fn name_call(&mut self) -> CallId {
        let call = CallId::new(self.next_call);
        self.next_call = self.next_call.saturating_add(1);
        call
    }

    fn identity(&self, with: &With<'_>) -> WorkerIdentity {
        WorkerIdentity {
            address: self.address.to_string(),
            tags: Vec::new(),
            // Stock workers have none; it need not be the same in all.
            uid: match with.swarm.stock_workers || self.number.is_multiple_of(2) {
                true => UID_OF_ANY_PROCESS,
                false => i64::from(self.life).saturating_add(1),
            },
            transfer_servers: self.servers(with),
        }
    }

    fn wake(&mut self, now: Time, with: &mut With<'_>) {
        let Some(shape) = with.swarm.elements else {
            return;
        };
        if self.machine.is_none() && now >= self.at {
            self.begin(now, &shape, with);
        }
        while let Some((token, (rpc, _))) = self.calls.take_overdue(now) {
            with.acts.push(Act::GiveUp { token });
            let late = Status::new(Code::DeadlineExceeded, "no answer in time");
            self.told(now, rpc, Err(late), with);
        }
        let due: Vec<RunId> = self.runs.keys().copied().collect();
        for run in due {
            self.work(now, run, &shape, with);
        }
        self.let_leave(now, with);
        let deadline = self.machine.as_ref().and_then(worker::Worker::deadline);
        if deadline.is_some_and(|(at, _)| at <= now) {
            self.step(now, Input::Tick, with);
            let deadline = self.machine.as_ref().and_then(worker::Worker::deadline);
            if let Err(text) = self.busy.woken(now, deadline.map(|(at, _)| at)) {
                with.acts.push(Act::Violated(text));
            }
        }
    }

    /// Does for a production what is due.
    fn work(&mut self, now: Time, run: RunId, shape: &ElementsShape, with: &mut With<'_>) {
        let Some(production) = self.runs.get_mut(&run) else {
            return;
        };
        match production.take_due(now) {
            None => {}
            Some(Work::Open) if !with.calm && with.stream.chance(30) => {
                let result = Err(Status::new(Code::Unavailable, "the files are out of reach"));
                self.step(now, Input::Opened { run, result }, with);
            }
            Some(Work::Open) => {
                self.step(now, Input::Opened { run, result: Ok(cardinality(shape)) }, with);
            }
            Some(Work::Make(from, room_bytes)) => {
                let most = with.stream.below(shape.batch).saturating_add(1);
                let ends_early = with.stream.chance(500);
                let (made, then) = production.make(shape, (from, room_bytes), most, ends_early);
                let (ids, elements): (Vec<ElementId>, Vec<Bytes>) = made.into_iter().unzip();
                let longest = elements.iter().map(|element| element.len() as u64).max();
                self.longest = self.longest.max(longest.unwrap_or(0));
                with.acts.push(Act::Elements(OfElements::Made(ids)));
                self.step(now, Input::Produced { run, elements, then }, with);
            }
        }
    }

    fn step(&mut self, now: Time, input: Input, with: &mut With<'_>) {
        let mut out = Vec::new();
        if let Some(machine) = &mut self.machine {
            machine.step(now, input, &mut out);
        }
        for effect in out {
            self.perform(now, effect, with);
        }
        if self.turns.is_due()
            && let Err(text) = self.look()
        {
            with.acts.push(Act::Violated(text));
        }
    }

    /// What does not hold of the machine, if anything.
    fn look(&self) -> Result<(), String> {
        let Some(machine) = &self.machine else {
            return Ok(());
        };
        check_worker(machine).map_err(|violation| violation.to_string())?;
        // Each production may be given the share of fewer at once, and one element in any case; in
        // rounds one for each consumer. What did not leave goes back besides.
        let tasks = machine.tasks_held() as u64;
        let elements = tasks.saturating_mul(4).saturating_add(self.most_asks);
        let most = machine.config().buffer_bytes.saturating_mul(3);
        let most = most.saturating_add(elements.saturating_mul(self.longest));
        let ready = machine.buffered_bytes();
        if ready > most {
            return Err(format!("bound: {ready} bytes are ready, {most} would be many"));
        }
        Ok(())
    }

    fn perform(&mut self, now: Time, effect: Effect, with: &mut With<'_>) {
        match effect {
            Effect::Send { rpc, request } => self.send(now, rpc, request, with),
            Effect::Answer { call, result } => self.answer(now, call, result, with),
            Effect::Open { run, definition, part, compressed } => {
                self.open(now, run, &definition, (part, compressed), with);
            }
            Effect::Produce { run, from, room_bytes } => {
                let at = now.after(ms(make_ms(with)));
                let by = self.now_living();
                if let Some(production) = self.runs.get_mut(&run) {
                    let task = production.task;
                    // A worker may have two tasks of an iteration, one of which was given up: only
                    // here is it told which of them has the split.
                    if let (Some(split), Some(iteration)) =
                        (production.begins(from), self.iterations.get(&task))
                    {
                        let took = OfElements::Took(by, task, *iteration, split);
                        with.acts.push(Act::Elements(took));
                    }
                    production.work = Some((at, Work::Make(from, room_bytes)));
                }
            }
            Effect::Close { run } => drop(self.runs.remove(&run)),
            Effect::Registered => self.got_on_at = now,
            Effect::Observe(_) => {}
            Effect::Failed { .. } => {
                // Whoever started it starts it again.
                self.end(with);
                self.at = now.after(pause(with.stream, with.swarm.pace.pause_ms));
            }
            Effect::Drained { left_behind } => self.stopped(now, left_behind, with),
        }
    }

    fn stopped(&mut self, now: Time, left_behind: u64, with: &mut With<'_>) {
        let is_early = self.drained_by.is_some_and(|by| now < by);
        if let Err(text) = self.promises.stops(is_early) {
            with.acts.push(Act::Violated(text));
        }
        with.tally.mark(Mark::WorkerStoppedInOrder);
        if left_behind > 0 {
            with.tally.mark(Mark::ElementsLeftBehind);
        }
        let stopped = OfElements::Stopped(self.now_living(), is_early, left_behind);
        with.acts.push(Act::Elements(stopped));
        // What is on its way out still leaves.
        for leaving in &mut self.leaving {
            leaving.at = now;
        }
        self.let_leave(now, with);
        self.end(with);
        self.at = now.after(pause(with.stream, with.swarm.pace.down_ms));
    }

    fn send(&mut self, now: Time, rpc: RpcId, request: Request, with: &mut With<'_>) {
        self.promises.sends(&request);
        if let Request::Update { completed } = &request {
            for task in completed {
                with.acts.push(Act::Elements(OfElements::Over(self.now_living(), *task)));
            }
        }
        let until = match request {
            Request::Split { .. } => {
                now.after(ms(with.swarm.net.patience_ms.saturating_mul(SPLIT_PATIENCE)))
            }
            _ => patience(now, with),
        };
        let asked = received(&self.identity(with), &request);
        let token = self.calls.add(until, (rpc, request));
        if let Some(request) = asked {
            with.acts.push(Act::Call { token, request });
        }
    }

    fn open(
        &mut self,
        now: Time,
        run: RunId,
        definition: &Bytes,
        (part, compressed): (Part, bool),
        with: &mut With<'_>,
    ) {
        let Some(task) = tag_of(definition) else {
            return;
        };
        let made = MadeBy { by: self.now_living(), run: run.0 };
        let mut production = Production::new(made, task, compressed);
        production.work = Some((now.after(ms(make_ms(with))), Work::Open));
        self.runs.insert(run, production);
        let iteration = self.iterations.get(&task).copied().unwrap_or(IterationId::new(-1));
        let opened = OfElements::Opened(made, task, iteration, part == Part::Whole);
        with.acts.push(Act::Elements(opened));
    }

    /// Knows a task from now on. Its definition says from here on which it is: whoever opens it is not
    /// told otherwise.
    fn know(&mut self, task: &mut TaskDef) {
        self.promises.knows(&[task.task]);
        self.iterations.insert(task.task, task.iteration);
        if let Some(definition) = &task.definition {
            let tag = task.task.get().to_le_bytes();
            task.definition = Some([definition.as_ref(), tag.as_slice()].concat().into());
        }
    }

    fn answered(
        &mut self,
        now: Time,
        token: u64,
        answer: Result<Reply, Status>,
        with: &mut With<'_>,
    ) {
        if let Some((rpc, request)) = self.calls.take(token) {
            let mut result = answer.and_then(|reply| told(&request, reply));
            let by = self.now_living();
            self.promises.hears(&request, &result);
            if let (Request::Heartbeat { .. }, Ok(worker::Reply::Tasks { new, deleted })) =
                (&request, &mut result)
            {
                self.got_on_at = now;
                let asks = self.asks.iter().filter_map(|(call, of)| Some((*call, of.task?)));
                self.promises.deletes(deleted, asks);
                for task in deleted {
                    with.acts.push(Act::Elements(OfElements::Dropped(by, *task)));
                }
                new.iter_mut().for_each(|task| self.know(task));
            }
            if let (Request::Split { iteration }, Ok(worker::Reply::Split(None))) =
                (&request, &result)
            {
                with.acts.push(Act::Elements(OfElements::HeardEnd(by, *iteration)));
            }
            let is_beat = matches!(request, Request::Heartbeat { .. }) && result.is_ok();
            self.told(now, rpc, result, with);
            self.promises.has_deleted();
            if is_beat {
                self.maybe_stop(now, with);
            }
        }
        self.wake(now, with);
    }

    fn told(
        &mut self,
        now: Time,
        rpc: RpcId,
        result: Result<worker::Reply, Status>,
        with: &mut With<'_>,
    ) {
        let entropy = with.stream.below(u64::MAX);
        self.step(now, Input::Answered { rpc, result, entropy }, with);
    }

    /// Somebody asks it to stop, now and then.
    fn maybe_stop(&mut self, now: Time, with: &mut With<'_>) {
        let leaves = with.swarm.elements.map_or(0, |shape| shape.leaves);
        if !with.calm && self.drained_by.is_none() && with.stream.chance(leaves) {
            self.drained_by = Some(now.after(ms(DRAIN_MS)));
            self.step(now, Input::Drain, with);
        }
    }
}

/// The task that a definition was marked with.
fn tag_of(definition: &Bytes) -> Option<TaskId> {
    let tag: &[u8; 8] = definition.last_chunk()?;
    Some(TaskId::new(i64::from_le_bytes(*tag)))
}

/// When nothing goes wrong any more there is no need to take long.
fn make_ms(with: &With<'_>) -> u64 {
    let make_ms = with.swarm.elements.map_or(0, |shape| shape.make_ms);
    if with.calm { make_ms.min(5) } else { make_ms }
}

impl Actor for DataWorker {
    fn role(&self) -> Role {
        Role::Worker
    }

    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>) {
        match what {
            Happening::Wake => {}
            Happening::Answered { token, answer } => self.answered(now, token, answer, with),
            Happening::Pushed(task) => {
                if let Some(Ask::Process(mut task)) = pushed(&task) {
                    self.know(&mut task);
                    let call = self.name_call();
                    let client = ConnectionId::new(0);
                    self.step(now, Input::Asked { call, client, ask: Ask::Process(task) }, with);
                }
            }
            Happening::Element(Carried::Requested { from, token, message }) => {
                self.asked(now, (from, token), &message, with);
            }
            Happening::Element(Carried::Withdrawn { from, token }) => {
                self.withdrawn(now, (from, token), with);
            }
            Happening::Reborn { fresh } => {
                self.end(with);
                if fresh {
                    self.moves = self.moves.saturating_add(1);
                    self.address = address(self.number, self.moves);
                }
                self.at = now;
            }
            Happening::Asked { from, token, read } => {
                self.asked_to_read(now, (from, token), &read, with)
            }
            Happening::Told { .. }
            | Happening::Element(Carried::Fetched { .. })
            | Happening::Coordinated { .. } => {}
        }
        self.wake(now, with);
    }

    fn wake_at(&self) -> Time {
        let deadline = self.machine.as_ref().and_then(worker::Worker::deadline);
        let works = self.runs.values().filter_map(|run| run.work.map(|(at, _)| at));
        let leaves = self.leaving.front().map_or(Time::NEVER, |leaving| leaving.at);
        let own = deadline.map_or(Time::NEVER, |(at, _)| at).min(leaves).min(self.at);
        works.fold(own, Time::min).min(self.calls.deadline())
    }

    fn got_on_at(&self) -> Time {
        self.got_on_at
    }

    fn state(&self) -> String {
        let Self { calls, runs, asks, .. } = self;
        format!("waits for {calls:?}, makes {runs:?}, is asked {asks:?}")
    }

    fn address(&self) -> Option<Arc<str>> {
        Some(self.address.clone())
    }

    fn lost(&self) -> Option<OfElements> {
        self.machine.as_ref().map(|_| OfElements::Ended(self.now_living()))
    }
}
