//! A worker, its dispatcher, its data and those who read from it, and the promises that the worker keeps.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rondo_core::ids::{DatasetId, IterationId, TaskId};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};
use rondo_core::worker::{
    Answer, Ask, Effect, ElementAsk, From, Input, Part, Reply, Request, RpcId, RunId, ShardBy,
    TaskDef, Then,
};

use crate::course::{CACHE_BYTES, CONSUMERS, Course, Ending};
use crate::happening::{Behind, How, TASKS};
use crate::world::{VERSION, World, element, task};

pub(crate) const BUFFER_BYTES: u64 = 64;
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);
pub(crate) const DISPATCHER: Duration = Duration::from_secs(30);
pub(crate) const DRAIN: Duration = Duration::from_secs(20);
/// The longest pause between two attempts to get a split.
const PAUSE: Duration = Duration::from_secs(2);
/// Splits of an iteration.
const SPLITS: i64 = 3;

/// How far a worker has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Starting,
    Registered,
    Stopped,
}

/// A call for which the worker has no answer yet.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) task: i64,
    /// The task's serial number.
    pub(crate) serial: u64,
    /// The consumer or trainer, and the round it asks for.
    pub(crate) who: (usize, i64),
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// For an element, and when it may be told to ask again.
    Element(Option<Time>),
    Dataset,
}

/// A worker in its world, and what is known of it.
pub(crate) struct Life {
    pub(crate) world: World,
    pub(crate) stage: Stage,
    /// When it must have stopped.
    pub(crate) drained_by: Option<Time>,
    pub(crate) held: BTreeMap<i64, Course>,
    /// Tasks that the worker lets go of in this step.
    pub(crate) parted: Vec<Course>,
    /// Tasks that the dispatcher deleted, each with its iteration if the worker had it.
    pub(crate) deleted: BTreeMap<i64, Option<i64>>,
    /// Deleted tasks that were pushed again, and the heartbeat that asks about them.
    pub(crate) again: BTreeMap<i64, Option<RpcId>>,
    pub(crate) waiting: BTreeMap<u64, Waiting>,
    /// Refusals that this step may bring, by the task's serial number.
    pub(crate) excuses: Vec<(u64, Code)>,
    /// Tasks, by serial number, for which calls to the dispatcher are under way.
    pub(crate) asked_for: BTreeMap<RpcId, Vec<u64>>,
    pub(crate) opening: Vec<RunId>,
    pub(crate) making: Vec<(RunId, From, u64)>,
    pub(crate) last_rpc: RpcId,
    /// When the dispatcher answered a heartbeat last.
    pub(crate) heard: Time,
    new: Vec<(i64, i64)>,
    to_delete: BTreeSet<i64>,
    splits: BTreeMap<i64, i64>,
    serial: u64,
}

/// A task of an iteration, as the dispatcher tells of it.
fn def(id: i64, iteration: i64) -> TaskDef {
    let name = format!("{id} {iteration}");
    let part = match id {
        1 => Part::Splits,
        3 => Part::Shard { by: ShardBy::Data, index: 1, of: 2 },
        _ => Part::Whole,
    };
    // Also the iteration's number may be the one that a dispatcher gave before it lost its state.
    let number = if id == 2 { id } else { iteration * TASKS + id };
    TaskDef {
        iteration: IterationId::new(number),
        definition: (id != 3).then(|| Bytes::from(name.clone())),
        dataset: DatasetId::new(name),
        consumers: (id == 4).then_some(CONSUMERS as i64),
        uses_cache: id == 5,
        ..task(id, part)
    }
}

/// The nth, counted round.
fn nth<T>(all: impl IntoIterator<Item = T>, which: usize) -> Option<T> {
    let all: Vec<T> = all.into_iter().collect();
    let at = which.checked_rem(all.len())?;
    all.into_iter().nth(at)
}

impl Life {
    pub(crate) fn new() -> Self {
        let world = World::new(|config| {
            config.buffer_bytes = BUFFER_BYTES;
            config.cache_bytes = CACHE_BYTES;
            config.heartbeat_interval = HEARTBEAT;
            config.dispatcher_timeout = DISPATCHER;
            config.drain_timeout = DRAIN;
        });
        let mut life = Self {
            heard: world.now,
            world,
            stage: Stage::Starting,
            drained_by: None,
            held: BTreeMap::new(),
            parted: Vec::new(),
            deleted: BTreeMap::new(),
            again: BTreeMap::new(),
            waiting: BTreeMap::new(),
            excuses: Vec::new(),
            asked_for: BTreeMap::new(),
            opening: Vec::new(),
            making: Vec::new(),
            last_rpc: RpcId(0),
            new: Vec::new(),
            to_delete: BTreeSet::new(),
            splits: BTreeMap::new(),
            serial: 0,
        };
        life.step(Input::Start);
        life
    }

    pub(crate) fn step(&mut self, input: Input) {
        self.world.step(input);
        self.observe();
    }

    fn call(&mut self, ask: Ask) -> (u64, Option<Result<Answer, Status>>) {
        let call = self.world.call(ask);
        (call, self.world.answers.remove(&call))
    }

    /// The task that elements are made for in a run.
    pub(crate) fn course_of(&mut self, run: RunId) -> Option<&mut Course> {
        self.held.values_mut().find(|course| course.run == Some(run))
    }

    pub(crate) fn ask(&mut self, id: i64, who: usize, allow_skip: bool) {
        let mut who = (who, 0);
        let mut ask = ElementAsk { allow_skip, ..crate::world::ask(id) };
        if id == 4 {
            who.0 %= CONSUMERS;
            let Some(round) = self.next_round(who.0) else { return };
            who.1 = round;
            ask.round = Some((who.0 as i64, round));
        }
        if id == 5 {
            ask.trainer = format!("trainer {}", who.0);
        }
        let right = self.told_at_once(id);
        let open = self.held.values().filter(|course| !course.is_exhausted()).count();
        let skips = allow_skip && open > 1 && self.held.get(&id).is_some_and(Course::is_first_come);
        let skip_at = skips.then(|| self.world.now.after(Duration::from_millis(5)));
        self.call_for(Ask::Element(ask), right, (id, who, Kind::Element(skip_at)));
    }

    /// Makes a call that is answered at once with what is right, or waits.
    fn call_for(
        &mut self,
        ask: Ask,
        right: Option<Result<Answer, Code>>,
        (task, who, kind): (i64, (usize, i64), Kind),
    ) {
        let (call, answer) = self.call(ask);
        match right {
            Some(right) => {
                assert_eq!(answer.map(|it| it.map_err(|status| status.code)), Some(right));
            }
            None => {
                let serial = self.held[&task].serial;
                self.waiting.insert(call, Waiting { task, serial, who, kind });
                self.world.answers.extend(answer.map(|answer| (call, answer)));
            }
        }
        self.observe();
    }

    /// The round that a consumer asks for, if it does not wait.
    fn next_round(&mut self, who: usize) -> Option<i64> {
        let Some(course) = self.held.get_mut(&4) else { return Some(0) };
        if self.waiting.values().any(|it| it.task == 4 && it.who.0 == who) {
            return None;
        }
        let (agreed, place) = (course.agreed(), &mut course.places[who]);
        // A round may be asked for again as long as the next one has not begun.
        let asks_again = std::mem::take(&mut place.asks_again) && agreed < place.round;
        let round = place.round - i64::from(asks_again);
        place.asked = place.asked.max(round);
        Some(round)
    }

    /// The answer to a request for an element of a task that none is waited for.
    fn told_at_once(&self, id: i64) -> Option<Result<Answer, Code>> {
        match self.stage {
            Stage::Stopped => return Some(Err(Code::Cancelled)),
            Stage::Starting => return Some(Err(Code::Unavailable)),
            Stage::Registered => {}
        }
        let Some(course) = self.held.get(&id) else {
            let is_over = self.deleted.contains_key(&id) && !self.again.contains_key(&id);
            return Some(if is_over { Ok(Answer::End) } else { Err(Code::Unavailable) });
        };
        let is_sent_away = self.drained_by.is_some() && !course.owes();
        let has_ended = course.ending.is_some() || course.may_have_failed;
        (is_sent_away && !has_ended).then_some(Err(Code::Cancelled))
    }

    pub(crate) fn ask_for_dataset(&mut self, id: i64) {
        let right = if self.drained_by.is_some() {
            Some(Code::Unavailable)
        } else {
            match self.stage {
                Stage::Stopped => Some(Code::Cancelled),
                Stage::Starting => Some(Code::Unavailable),
                Stage::Registered => (!self.held.contains_key(&id)).then_some(Code::Unavailable),
            }
        };
        let ask = Ask::Dataset { task: TaskId::new(id) };
        self.call_for(ask, right.map(Err), (id, (0, 0), Kind::Dataset));
    }

    pub(crate) fn ask_for_tasks(&mut self) {
        let (_, answer) = self.call(Ask::Tasks);
        let held = self.held.values().map(|course| (course.def.task, course.def.iteration));
        assert_eq!(answer, Some(Ok(Answer::Tasks(held.collect()))));
        self.observe();
    }

    pub(crate) fn push(&mut self, id: i64, iteration: i64) {
        let was_deleted = self.deleted.get(&id) == Some(&Some(iteration));
        if was_deleted && !self.held.contains_key(&id) {
            self.again.insert(id, None);
        } else {
            self.hold(id, iteration);
        }
        let (_, answer) = self.call(Ask::Process(def(id, iteration)));
        assert_eq!(answer, Some(Ok(Answer::Done)));
        self.observe();
    }

    /// The worker takes a task on, in place of another one with its number.
    fn hold(&mut self, id: i64, iteration: i64) {
        if self.held.get(&id).is_some_and(|course| course.iteration == iteration) {
            return;
        }
        // Those who wait for the one before are told that it is no more, whatever came of it.
        self.excuses.extend(self.held.get(&id).map(gone));
        self.let_go(id);
        self.deleted.remove(&id);
        self.serial += 1;
        self.held.insert(id, Course::new(def(id, iteration), iteration, self.serial));
    }

    /// The worker lets go of a task: those who wait are told that it is no more. Returns its iteration.
    fn let_go(&mut self, id: i64) -> Option<i64> {
        let course = self.held.remove(&id)?;
        let iteration = course.iteration;
        self.parted.push(course);
        Some(iteration)
    }

    pub(crate) fn order(&mut self, id: i64, iteration: i64) {
        self.new.push((id, iteration));
    }

    pub(crate) fn order_deletion(&mut self, id: i64) {
        self.to_delete.insert(id);
    }

    pub(crate) fn cancel(&mut self, which: usize) {
        let leaving = self.held.values().flat_map(Course::leaving);
        let Some(call) = nth(self.waiting.keys().copied().chain(leaving), which) else { return };
        if self.waiting.remove(&call).is_none() {
            let _ = self.held.values_mut().any(|course| course.take_back(call));
        }
        self.world.cancel(call);
        self.observe();
    }

    pub(crate) fn left(&mut self, which: usize) {
        let Some(call) = nth(self.held.values().flat_map(Course::leaving), which) else { return };
        let _ = self.held.values_mut().any(|course| course.leave(call));
        self.world.left(call);
        self.observe();
    }

    pub(crate) fn open(&mut self, which: usize, works: bool) {
        let Some(run) = nth(self.opening.clone(), which) else { return };
        self.opening.retain(|opening| *opening != run);
        let result = if works { Ok(-1) } else { Err(Status::new(Code::NotFound, "no file")) };
        if let Some(course) = self.course_of(run) {
            (course.is_open, course.run) = (works, works.then_some(run));
            let serial = course.serial;
            self.excuses.extend((!works).then_some((serial, Code::NotFound)));
        }
        self.step(Input::Opened { run, result });
    }

    pub(crate) fn make(&mut self, which: usize, count: u64, behind: Behind) {
        let Some((run, from, room)) = nth(self.making.clone(), which) else { return };
        self.making.retain(|(making, ..)| *making != run);
        let is_draining = self.drained_by.is_some();
        let Some(course) = self.course_of(run) else { return };
        let count = if from == From::Rest { 0 } else { count };
        let (mut elements, mut bytes) = (Vec::new(), 0);
        for nth in 0..count {
            // Of different lengths.
            let size = 8 + (nth + count) % 3;
            if nth > 0 && bytes + size > room {
                break;
            }
            bytes += size;
            let number = course.make(size);
            elements.push(element(number, usize::try_from(size - 8).unwrap()));
        }
        let then = match behind {
            Behind::More if from != From::Rest => Then::More,
            Behind::Failed => {
                course.ending = Some(Ending::Failed(Code::DataLoss));
                Then::Failed(Status::new(Code::DataLoss, "damaged"))
            }
            _ => {
                course.come_to_an_end(is_draining);
                Then::End
            }
        };
        self.step(Input::Produced { run, elements, then });
    }

    pub(crate) fn late(&mut self, which: usize) {
        if let Some(run) = nth(self.world.closed.clone(), which) {
            let elements = vec![element(u64::MAX, 0)];
            self.step(Input::Produced { run, elements, then: Then::End });
            self.step(Input::Opened { run, result: Err(Status::new(Code::NotFound, "late")) });
        }
        let rpc = RpcId(self.last_rpc.0 + 1 + which as u64);
        self.step(Input::Answered { rpc, result: Ok(Reply::Split(Some(99))), entropy: 0 });
    }

    pub(crate) fn drain(&mut self) {
        if self.drained_by.is_none() && self.stage != Stage::Stopped {
            self.drained_by = Some(self.world.now.after(DRAIN));
        }
        self.step(Input::Drain);
    }

    /// Lets time pass, and wakes the worker when it wants to be woken.
    pub(crate) fn wait(&mut self, span_ms: u64) {
        let until = self.world.now.after(Duration::from_millis(span_ms));
        let mut woken = 0;
        while let Some((at, _)) = self.world.worker.deadline().filter(|(at, _)| *at <= until) {
            self.world.now = self.world.now.max(at);
            self.step(Input::Tick);
            woken += 1;
            assert!(woken < 10_000, "no time passes: {:?}", self.world.worker.deadline());
        }
        self.world.now = until;
        self.check_times();
    }

    pub(crate) fn answer(&mut self, which: usize, how: How) {
        let Some((rpc, request)) = nth(self.world.sent.clone(), which) else { return };
        // A worker that is refused at first never does anything.
        let is_first = self.stage == Stage::Starting && how != How::Unknown;
        let how = if is_first && how != How::Well { How::Away } else { how };
        let result = match how {
            How::Well => Ok(self.reply(rpc, &request)),
            How::Away => Err(Status::new(Code::Unavailable, "away")),
            How::Proxy => Err(Status::new(Code::Internal, "a proxy's")),
            How::Unknown => Err(Status::new(Code::NotFound, "none")),
            // To an update anything is an answer.
            How::Nonsense => match request {
                Request::Version => Ok(Reply::Done),
                _ => Ok(Reply::Version(1)),
            },
        };
        self.note(rpc, &request, how);
        self.world.answer(rpc, result);
        self.observe();
    }

    /// The dispatcher's answer, when it answers well.
    fn reply(&mut self, rpc: RpcId, request: &Request) -> Reply {
        match request {
            Request::Version => Reply::Version(VERSION),
            Request::Heartbeat { tasks } => self.orders(rpc, tasks),
            Request::Update { .. } => Reply::Done,
            Request::Split { iteration } => {
                let next = self.splits.entry(iteration.get()).or_default();
                *next += 1;
                Reply::Split((*next <= SPLITS).then_some(*next))
            }
            Request::Compression { dataset } => Reply::Compression(dataset.as_str().ends_with('1')),
            Request::Definition { dataset } => {
                Reply::Definition(Bytes::copy_from_slice(dataset.as_str().as_bytes()))
            }
        }
    }

    fn orders(&mut self, rpc: RpcId, named: &[TaskId]) -> Reply {
        let to_delete = std::mem::take(&mut self.to_delete);
        // It deletes what the heartbeat names, and nothing else.
        let deleted = named.iter().copied().filter(|id| to_delete.contains(&id.get()));
        let deleted: Vec<TaskId> = deleted.collect();
        let new = std::mem::take(&mut self.new);
        if self.stage != Stage::Stopped {
            self.again.retain(|_, asked| *asked != Some(rpc));
            for id in deleted.iter().map(|id| id.get()) {
                let of = self.let_go(id);
                self.deleted.insert(id, of);
            }
            new.iter().for_each(|(id, iteration)| self.hold(*id, *iteration));
        }
        let new = new.into_iter().map(|(id, iteration)| def(id, iteration)).collect();
        Reply::Tasks { new, deleted }
    }

    /// Notes what an answer of the dispatcher changes.
    fn note(&mut self, rpc: RpcId, request: &Request, how: How) {
        let now = self.world.now;
        let asked_for = self.asked_for.remove(&rpc).unwrap_or_default();
        let mut courses =
            self.held.values_mut().filter(|course| asked_for.contains(&course.serial));
        match request {
            Request::Version => {}
            Request::Heartbeat { .. } => self.heard = now,
            Request::Update { completed } => {
                let is_told = match how {
                    How::Well | How::Nonsense => true,
                    How::Unknown => completed.len() == 1,
                    How::Away | How::Proxy => false,
                };
                courses.for_each(|course| course.is_told = is_told);
            }
            Request::Split { iteration } => {
                let next = self.splits.get(&iteration.get()).copied().unwrap_or(0);
                courses.for_each(|course| note_split(course, now, how, next));
            }
            Request::Compression { dataset } if how == How::Well => {
                let compressed = Some(dataset.as_str().ends_with('1'));
                courses.for_each(|course| course.compressed = compressed);
            }
            Request::Compression { .. } | Request::Definition { .. } => {
                let is_definition = matches!(request, Request::Definition { .. });
                let code = match how {
                    How::Well => return,
                    How::Unknown => Code::NotFound,
                    // Of a definition consumers are told that it is worth asking again.
                    How::Proxy | How::Nonsense if !is_definition => Code::Internal,
                    How::Away | How::Proxy | How::Nonsense => Code::Unavailable,
                };
                self.excuses.extend(courses.next().map(|course| (course.serial, code)));
            }
        }
    }

    /// The refusals that go on as long as their cause lasts.
    fn excuse_what_is_wrong(&mut self) {
        let is_draining = self.drained_by.is_some();
        self.excuses.extend(self.parted.iter().filter(|it| !it.is_exhausted()).map(gone));
        for course in self.held.values() {
            let serial = course.serial;
            if let Some(Ending::Failed(code)) = course.ending {
                self.excuses.push((serial, code));
            }
            if course.may_have_failed {
                self.excuses.push((serial, Code::Internal));
            }
            if course.ending == Some(Ending::Over) {
                let code = match (course.def.consumers, course.def.uses_cache) {
                    (Some(_), _) => Some(Code::FailedPrecondition),
                    (None, true) => Some(Code::InvalidArgument),
                    (None, false) => None,
                };
                self.excuses.extend(code.map(|code| (serial, code)));
            }
            if is_draining {
                self.excuses.extend([(serial, Code::Cancelled), (serial, Code::Unavailable)]);
            }
        }
    }

    /// Everything that was seen of the worker in this step.
    fn observe(&mut self) {
        self.excuse_what_is_wrong();
        self.collect();
        self.excuses.clear();
        self.parted.clear();
        self.check_requests();
        self.check_runs();
        // It may say more in the step in which it stops.
        for effect in std::mem::take(&mut self.world.told) {
            self.told(&effect);
        }
    }

    fn told(&mut self, effect: &Effect) {
        match effect {
            Effect::Registered => {
                assert_eq!(self.stage, Stage::Starting, "registered twice");
                self.stage = Stage::Registered;
            }
            Effect::Failed { .. } => {
                assert_eq!(self.stage, Stage::Starting, "a worker that is known goes on");
                self.stage = Stage::Stopped;
            }
            Effect::Drained { left_behind } => self.check_drained(*left_behind),
            other => panic!("{other:?}"),
        }
    }
}

/// The refusal to those who wait for a task that is gone.
const fn gone(course: &Course) -> (u64, Code) {
    (course.serial, Code::Cancelled)
}

/// The dispatcher has handed out a split, or has not.
fn note_split(course: &mut Course, now: Time, how: How, next: i64) {
    match how {
        How::Well => {
            course.split = (next <= SPLITS).then_some(next);
            (course.no_more_splits, course.splits_away) = (next > SPLITS, None);
            course.may_have_failed = false;
        }
        How::Unknown => course.ending = Some(Ending::Failed(Code::NotFound)),
        How::Away | How::Proxy | How::Nonsense => {
            let until = course.splits_away.get_or_insert(now).after(DISPATCHER);
            if now >= until {
                course.ending = Some(Ending::Failed(Code::Internal));
            } else if now.after(PAUSE) > until {
                course.may_have_failed = true;
            }
        }
    }
}
