//! The promises that a worker keeps in each step, and at its end.

use rondo_core::ids::IterationId;
use rondo_core::status::{Code, Status};
use rondo_core::worker::{Answer, Event, From, Part, Request};

use crate::course::{CONSUMERS, Course, Ending};
use crate::happening::{Behind, How};
use crate::life::{BUFFER_BYTES, HEARTBEAT, Kind, Life, Stage, Waiting};
use crate::world::number;

/// Elements that each pass of the end asks of each task.
const ASKS: usize = 8;
/// Passes after which nobody waits any more, and all has been read.
const PASSES: usize = 200;

impl Life {
    /// Takes the answers that there are.
    pub(crate) fn collect(&mut self) {
        for (call, outcome) in std::mem::take(&mut self.world.answers) {
            let waiting = self.waiting.remove(&call);
            let waiting = waiting.unwrap_or_else(|| panic!("nobody waits for call {call}"));
            match outcome {
                Ok(Answer::Element(bytes)) => {
                    let course = self.held.get_mut(&waiting.task).unwrap();
                    course.deliver(call, waiting.who, number(&bytes));
                }
                Ok(Answer::End) => self.check_end(&waiting),
                Ok(Answer::Skip) => self.check_skip(&waiting),
                Ok(Answer::Dataset(definition)) => {
                    let course = &self.held[&waiting.task];
                    let name = course.def.dataset.as_str().as_bytes();
                    assert_eq!((waiting.kind, &*definition), (Kind::Dataset, name));
                }
                Ok(other) => panic!("call {call} is answered with {other:?}"),
                Err(status) => self.check_refusal(call, &waiting, &status),
            }
        }
    }

    /// Nobody hears of the end before all elements have left and the dispatcher knows.
    fn check_end(&self, waiting: &Waiting) {
        let held = self.held.get(&waiting.task).filter(|course| course.serial == waiting.serial);
        let parted = self.parted.iter().find(|course| course.serial == waiting.serial);
        let is_told = match (held, parted) {
            (Some(course), _) => course.is_exhausted() && course.is_told,
            // The dispatcher deletes what it knows to be over.
            (None, Some(course)) => course.is_exhausted(),
            (None, None) => false,
        };
        assert!(is_told, "the end of task {} comes too early: {held:?} {parted:?}", waiting.task);
    }

    fn check_skip(&mut self, waiting: &Waiting) {
        let course = self.held.get_mut(&waiting.task).unwrap();
        if course.def.consumers.is_some() {
            return course.deliver_in_round(waiting.who, None);
        }
        let Kind::Element(Some(at)) = waiting.kind else { panic!("a skip of {waiting:?}") };
        assert!(at <= self.world.now && course.ready_count() == 0);
    }

    fn check_refusal(&mut self, call: u64, waiting: &Waiting, status: &Status) {
        let excuse = (waiting.serial, status.code);
        assert!(self.excuses.contains(&excuse), "call {call} of {waiting:?}: {status}");
        let Some(course) = self.held.get_mut(&waiting.task) else { return };
        if course.serial != waiting.serial {
            return;
        }
        if course.may_have_failed && status.code == Code::Internal {
            course.ending = Some(Ending::Failed(Code::Internal));
        }
        if self.drained_by.is_some() {
            return;
        }
        if waiting.kind != Kind::Dataset {
            assert_eq!(course.ready_count(), 0, "{call} is refused where an element is ready");
            let has_one = course.def.uses_cache && course.has_for_trainer(waiting.who.0);
            let is_new = course.run.is_none();
            assert!(!has_one || is_new, "{call} is refused where an element is there");
        }
    }

    /// Calls to the dispatcher are right, and no more than are needed.
    pub(crate) fn check_requests(&mut self) {
        let new = self.world.sent.iter().filter(|(rpc, _)| *rpc > self.last_rpc).cloned();
        for (rpc, request) in new.collect::<Vec<_>>() {
            self.last_rpc = rpc;
            let is_done = matches!(request, Request::Update { .. });
            assert!(self.stage != Stage::Stopped || is_done, "it has stopped: {request:?}");
            let asked_for = match &request {
                Request::Version => Vec::new(),
                Request::Heartbeat { tasks } => {
                    let held: Vec<i64> = self.held.keys().copied().collect();
                    assert_eq!(tasks.iter().map(|id| id.get()).collect::<Vec<_>>(), held);
                    self.again.values_mut().for_each(|asked| *asked = Some(rpc));
                    Vec::new()
                }
                Request::Update { completed } => {
                    let courses = completed.iter().map(|id| &self.held[&id.get()]);
                    let courses = courses.inspect(|course| {
                        assert!(course.is_exhausted() && !course.is_told, "{course:?}");
                    });
                    courses.map(|course| course.serial).collect()
                }
                Request::Split { iteration } => vec![self.check_split(*iteration)],
                Request::Compression { .. } | Request::Definition { .. } => {
                    vec![self.check_opening(&request)]
                }
            };
            assert!(self.is_first_of_its_kind(&request, &asked_for), "{request:?} once more");
            self.asked_for.insert(rpc, asked_for);
        }
    }

    /// Whether no other call for the same is under way.
    fn is_first_of_its_kind(&self, request: &Request, asked_for: &[u64]) -> bool {
        let kind = std::mem::discriminant(request);
        let is_of_a_task = matches!(
            request,
            Request::Split { .. } | Request::Compression { .. } | Request::Definition { .. }
        );
        let same = self.world.sent.iter().filter(|(rpc, other)| {
            let is_same = self.asked_for.get(rpc).is_some_and(|it| it == asked_for);
            std::mem::discriminant(other) == kind && (!is_of_a_task || is_same)
        });
        same.count() <= usize::from(!is_of_a_task)
    }

    /// A split is asked for when the one before was read, and not by a worker that stops.
    fn check_split(&mut self, iteration: IterationId) -> u64 {
        let mut courses = self.held.values_mut();
        let course = courses.find(|course| course.def.iteration == iteration).unwrap();
        course.may_have_failed = false;
        assert_eq!((course.def.part, course.split), (Part::Splits, None), "{course:?}");
        assert!(course.is_open && course.ending.is_none() && !course.no_more_splits, "{course:?}");
        assert_eq!(self.drained_by, None, "a worker that stops takes no splits");
        course.serial
    }

    fn check_opening(&self, request: &Request) -> u64 {
        let (Request::Compression { dataset } | Request::Definition { dataset }) = request else {
            panic!("{request:?}")
        };
        let course = self.held.values().find(|course| course.def.dataset == *dataset).unwrap();
        assert_eq!((course.compressed, course.run), (None, None), "{course:?}");
        self.check_is_waited_for(course.serial);
        course.serial
    }

    fn check_is_waited_for(&self, serial: u64) {
        let is_waited_for = self.waiting.values().any(|waiting| waiting.serial == serial);
        assert!(is_waited_for, "nothing is done for a task before somebody asks");
    }

    /// Datasets are opened, and elements made, as it was agreed with the dispatcher.
    pub(crate) fn check_runs(&mut self) {
        for (run, part, compressed) in std::mem::take(&mut self.world.opening) {
            let definition = self.world.definitions[&run].clone();
            let mut courses = self.held.values_mut();
            let course = courses.find(|it| it.def.dataset.as_str().as_bytes() == definition);
            let course = course.unwrap();
            assert_eq!((course.run, course.compressed), (None, Some(compressed)));
            assert_eq!(course.def.part, part);
            course.run = Some(run);
            let serial = course.serial;
            self.check_is_waited_for(serial);
            self.opening.push(run);
        }
        let ready: u64 = self.held.values().map(|course| course.ready_bytes()).sum();
        let (closed, is_draining) = (self.world.closed.clone(), self.drained_by.is_some());
        for (run, from, room) in std::mem::take(&mut self.world.wanted) {
            assert!(self.making.iter().all(|(making, ..)| *making != run), "two at once");
            let course = self.course_of(run).unwrap();
            assert!(course.is_open && course.ending.is_none(), "{course:?}");
            match from {
                From::Stream => assert_ne!(course.def.part, Part::Splits),
                From::Split(split) => assert_eq!(course.split, Some(split)),
                From::Rest => {
                    let is_last = course.no_more_splits || is_draining;
                    assert!(is_last && course.split.is_none(), "{course:?}");
                }
            }
            let left = BUFFER_BYTES.saturating_sub(ready);
            assert!(room <= left || from == From::Rest, "{room} bytes are wanted, {left} are left");
            self.making.push((run, from, room));
        }
        self.making.retain(|(run, ..)| !closed.contains(run));
        self.opening.retain(|run| !closed.contains(run));
    }

    /// It stops when everything was handed out and told, or when its time is over.
    pub(crate) fn check_drained(&mut self, left_behind: u64) {
        let by = self.drained_by.expect("nobody has asked it to stop");
        assert_ne!(self.stage, Stage::Stopped, "it stops twice");
        let owing = self.held.values().filter(|course| course.owes());
        assert_eq!(left_behind, owing.map(|course| course.ready_count()).sum());
        assert!(self.waiting.is_empty(), "{:?} are not answered", self.waiting);
        if self.world.now < by && self.stage == Stage::Registered {
            let is_done = |it: &Course| {
                let is_told = it.is_told || !it.is_exhausted();
                is_told && it.leaving().next().is_none() && !it.owes()
            };
            assert!(self.held.values().all(is_done), "it stops too early: {:?}", self.held);
        }
        self.stage = Stage::Stopped;
    }

    /// Everything comes in its time.
    pub(crate) fn check_times(&self) {
        let now = self.world.now;
        let late = self.waiting.values().filter(|waiting| match waiting.kind {
            Kind::Element(Some(at)) => at <= now,
            Kind::Element(None) | Kind::Dataset => false,
        });
        assert_eq!(late.count(), 0, "they are told to ask again after 5 ms");
        if self.drained_by.is_some_and(|by| by <= now) {
            assert_eq!(self.stage, Stage::Stopped, "it stops in its time");
        }
        let is_under_way =
            self.world.sent.iter().any(|it| matches!(it.1, Request::Heartbeat { .. }));
        if self.stage == Stage::Registered && !is_under_way {
            let next = self.world.worker.deadline().map(|(at, _)| at);
            let due = self.heard.after(HEARTBEAT);
            assert!(next.is_some_and(|at| at <= due), "the next heartbeat is at {next:?}");
        }
        let lost = self.world.observed.iter().filter(|it| is_lost(it)).count();
        let found = self.world.observed.iter().filter(|it| is_found(it)).count();
        assert!(lost == found || lost == found + 1, "each outage is told of once");
    }

    /// Lets everything work until nobody waits and all first-come tasks have been read.
    pub(crate) fn come_to_rest(&mut self) {
        for _ in 0..PASSES {
            let works = self.stage == Stage::Registered && self.drained_by.is_none();
            let unread =
                self.held.values().filter(|it| works && it.is_first_come() && !is_read(it));
            let unread: Vec<i64> = unread.map(|course| course.def.task.get()).collect();
            if unread.is_empty() && self.waiting.is_empty() {
                break;
            }
            for id in unread {
                (0..ASKS).for_each(|who| self.ask(id, who, false));
            }
            // A consumer that reads in rounds waits for the other.
            if self.waiting.values().any(|waiting| waiting.task == 4) {
                (0..CONSUMERS).for_each(|who| self.ask(4, who, false));
            }
            self.pass();
        }
        assert!(self.waiting.is_empty(), "{:?} wait for ever", self.waiting);
        if self.stage == Stage::Registered && self.drained_by.is_none() {
            self.check_all_was_read();
        }
    }

    fn check_all_was_read(&self) {
        for course in self.held.values().filter(|course| course.is_first_come()) {
            match course.ending {
                Some(Ending::Over) => {
                    assert!(course.is_exhausted() && course.is_told, "{course:?}");
                    course.check_all_left();
                }
                Some(Ending::Failed(_)) => {}
                _ => assert!(course.may_have_failed, "it comes to no end: {course:?}"),
            }
        }
    }

    /// Everything that is under way comes to its end.
    fn pass(&mut self) {
        (0..self.world.sent.len()).for_each(|_| self.answer(0, How::Well));
        (0..self.opening.len()).for_each(|_| self.open(0, true));
        (0..self.making.len()).for_each(|_| self.make(0, 4, Behind::End));
        let leaving: usize = self.held.values().map(|course| course.leaving().count()).sum();
        (0..leaving).for_each(|_| self.left(0));
        self.wait(2_000);
    }
}

/// Whether nothing more comes of a task.
fn is_read(course: &Course) -> bool {
    course.is_told || course.ending.is_some_and(|ending| ending != Ending::Over)
}

const fn is_lost(event: &Event) -> bool {
    matches!(event, Event::DispatcherLost { .. })
}

const fn is_found(event: &Event) -> bool {
    matches!(event, Event::DispatcherReached { .. })
}
