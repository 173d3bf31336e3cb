//! Who only looks on: learns who takes part, and is told what processes know of their requests.

use rondo_core::exchange::member::{self, Member};
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::message::{AskTraces, Register, ToMember, ToScheduler};
use rondo_core::exchange::scheduler::{Effect, Input, Scheduler, Settings, check};
use rondo_core::exchange::{Config, InstanceRank, Offset, Page, Role, TraceNumber};
use rondo_core::ids::{CallId, ConnectionId, Incarnation};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use crate::process::config;

const SIZES: Sizes = Sizes { workers: 1, servers: 1, group: 1 };
const SERVER: u64 = 1;
const WORKER: u64 = 2;
const OBSERVER: u64 = 9;

/// A scheduler, and a test in place of all others.
struct Bed {
    scheduler: Scheduler,
    now: Time,
    said: Vec<(u64, ToMember)>,
    closed: Vec<u64>,
}

impl Bed {
    fn new(config: Config) -> Self {
        let settings = Settings { config, ..Settings::default() };
        let scheduler = Scheduler::start(settings).unwrap();
        let now = Time::from_millis(1_000_000);
        Self { scheduler, now, said: Vec::new(), closed: Vec::new() }
    }

    /// A server and a worker take part.
    fn begun(config: Config) -> Self {
        let mut bed = Self::new(config);
        bed.register(SERVER, Role::Server);
        bed.register(WORKER, Role::Worker);
        bed.said.clear();
        bed
    }

    fn step(&mut self, input: Input) {
        let mut out = Vec::new();
        self.scheduler.step(self.now, input, &mut out);
        check(&self.scheduler).unwrap();
        for effect in out {
            match effect {
                Effect::Send { connection, message } => self.said.push((connection.get(), message)),
                Effect::Close { connection } => self.closed.push(connection.get()),
                Effect::Done { .. } | Effect::Observe(_) => {}
            }
        }
    }

    fn connect(&mut self, connection: u64) {
        self.step(Input::Connected { connection: ConnectionId::new(connection) });
    }

    fn says(&mut self, connection: u64, message: ToScheduler) {
        self.step(Input::Received { connection: ConnectionId::new(connection), message });
    }

    fn register(&mut self, connection: u64, role: Role) {
        self.connect(connection);
        let register = Register {
            role,
            rank: Some(InstanceRank::new(0)),
            incarnation: Incarnation::new(connection),
            addresses: vec!["tcp://h:1".into()],
            host: "h".into(),
            sizes: SIZES,
            known: None,
            passed: Vec::new(),
            waiting: Vec::new(),
        };
        self.says(connection, ToScheduler::Register(register));
    }

    fn observe(&mut self, connection: u64) {
        self.connect(connection);
        self.says(connection, ToScheduler::Observe);
    }

    fn ask(&mut self, connection: u64, number: u64, role: Role, after: u64) {
        let (number, rank) = (TraceNumber::new(number), InstanceRank::new(0));
        self.says(connection, ToScheduler::AskTraces(AskTraces { number, role, rank, after }));
    }

    /// What was said last, to whom.
    fn last(&self) -> &(u64, ToMember) {
        self.said.last().unwrap()
    }

    #[track_caller]
    fn is_refused(&self, connection: u64, code: Code, names: &str) {
        let (to, message) = self.last();
        let status = match message {
            ToMember::Rejected(status) | ToMember::Traces { result: Err(status), .. } => status,
            other => panic!("{other:?}"),
        };
        assert_eq!((*to, status.code), (connection, code), "{status}");
        assert!(status.message.contains(names), "{names:?} is not in {:?}", status.message);
    }
}

#[test]
fn who_looks_on_is_told_who_takes_part() {
    let mut bed = Bed::begun(config());
    bed.observe(OBSERVER);
    let (to, ToMember::Membership(membership)) = bed.last() else { panic!("{:?}", bed.said) };
    assert_eq!((*to, membership.members.len(), membership.sizes), (OBSERVER, 2, SIZES));
}

#[test]
fn there_is_nothing_to_look_at_before_all_have_registered() {
    let mut bed = Bed::new(config());
    bed.observe(OBSERVER);
    bed.is_refused(OBSERVER, Code::FailedPrecondition, "no process has registered");
    bed.register(SERVER, Role::Server);
    bed.observe(OBSERVER);
    bed.is_refused(OBSERVER, Code::FailedPrecondition, "1 of 2 processes have registered");
    assert_eq!(bed.closed, [OBSERVER, OBSERVER]);
}

#[test]
fn a_question_is_passed_on_and_so_is_its_answer_with_the_times_of_both() {
    let mut bed = Bed::begun(config());
    bed.observe(OBSERVER);
    bed.ask(OBSERVER, 70, Role::Worker, 5);
    let asked = bed.now;
    let (to, ToMember::AskTraces { number, after: 5 }) = *bed.last() else {
        panic!("{:?}", bed.said);
    };
    assert_eq!(to, WORKER);
    bed.now = bed.now.after(Duration::from_millis(6));
    // Its clock is an hour ahead, and half of the way is 3 ms.
    let there = asked.after(Duration::from_millis(3_600_003));
    let page = Page { received: there, answered: there, last: 9, ..Page::default() };
    bed.says(WORKER, ToScheduler::Traces { number, page: page.clone() });
    let (to, ToMember::Traces { number, result: Ok(traces) }) = bed.last() else {
        panic!("{:?}", bed.said);
    };
    assert_eq!((*to, number.get()), (OBSERVER, 70));
    assert_eq!((traces.asked, traces.back, &traces.page), (asked, bed.now, &page));
    let offset = Offset { nanos: 3_600_000_000_000, error_nanos: 3_000_000 };
    assert_eq!(traces.clock(), Some(offset));
}

#[test]
fn who_asks_of_a_process_that_is_not_there_is_told_so() {
    let mut bed = Bed::begun(config());
    bed.observe(OBSERVER);
    let ask = AskTraces {
        number: TraceNumber::new(1),
        role: Role::Worker,
        rank: InstanceRank::new(7),
        after: 0,
    };
    bed.says(OBSERVER, ToScheduler::AskTraces(ask));
    bed.is_refused(OBSERVER, Code::Unavailable, "worker 7");
    assert!(bed.closed.is_empty(), "and may ask of another one");
}

#[test]
fn who_waits_for_a_process_that_goes_away_is_told_so_once() {
    for leaves in [false, true] {
        let mut bed = Bed::begun(config());
        bed.observe(OBSERVER);
        bed.ask(OBSERVER, 1, Role::Worker, 0);
        match leaves {
            true => bed.says(WORKER, ToScheduler::Leave),
            false => bed.step(Input::Disconnected { connection: ConnectionId::new(WORKER) }),
        }
        let told = bed.said.iter().filter(|(to, message)| {
            *to == OBSERVER && matches!(message, ToMember::Traces { result: Err(_), .. })
        });
        assert_eq!(told.count(), 1, "{:?}", bed.said);
        bed.ask(OBSERVER, 2, Role::Server, 0);
        let (to, message) = bed.last();
        assert!(matches!(message, ToMember::AskTraces { .. }) && *to == SERVER, "{:?}", bed.said);
    }
}

#[test]
fn an_answer_for_somebody_who_has_gone_is_dropped_and_so_is_another_ones() {
    let mut bed = Bed::begun(config());
    bed.observe(OBSERVER);
    bed.ask(OBSERVER, 1, Role::Worker, 0);
    let (_, ToMember::AskTraces { number, .. }) = *bed.last() else { panic!("{:?}", bed.said) };
    bed.said.clear();
    bed.says(SERVER, ToScheduler::Traces { number, page: Page::default() });
    assert!(bed.said.is_empty(), "it was the worker that was asked: {:?}", bed.said);
    bed.step(Input::Disconnected { connection: ConnectionId::new(OBSERVER) });
    bed.says(WORKER, ToScheduler::Traces { number, page: Page::default() });
    assert!(bed.said.is_empty() && bed.closed.is_empty(), "{:?}", bed.said);
}

#[test]
fn no_more_look_on_than_may_and_each_asks_one_thing_at_a_time() {
    let mut bed = Bed::begun(Config { observers_max: 1, ..config() });
    bed.observe(OBSERVER);
    bed.observe(OBSERVER + 1);
    bed.is_refused(
        OBSERVER + 1,
        Code::ResourceExhausted,
        "1 connections only look on, as many as may",
    );
    bed.ask(OBSERVER, 1, Role::Worker, 0);
    bed.ask(OBSERVER, 2, Role::Worker, 0);
    bed.is_refused(OBSERVER, Code::FailedPrecondition, "one question at a time");
    bed.observe(OBSERVER + 2);
    assert!(matches!(bed.last(), (_, ToMember::Membership(_))), "its place is free");
}

#[test]
fn who_takes_part_does_not_look_on_and_who_looks_on_takes_no_part() {
    let mut bed = Bed::begun(config());
    bed.says(WORKER, ToScheduler::Observe);
    bed.is_refused(WORKER, Code::FailedPrecondition, "Observe came out of turn");
    bed.observe(OBSERVER);
    bed.says(OBSERVER, ToScheduler::Leave);
    bed.is_refused(OBSERVER, Code::FailedPrecondition, "who looks on asks for traces");
}

#[test]
fn who_looks_on_and_says_nothing_is_forgotten() {
    let mut bed = Bed::begun(config());
    bed.observe(OBSERVER);
    for _ in 0..20 {
        bed.now = bed.now.after(Duration::from_millis(100));
        for connection in [SERVER, WORKER] {
            let version = bed.scheduler.membership().unwrap().version;
            bed.says(connection, ToScheduler::Heartbeat { version });
        }
        if bed.scheduler.deadline().is_some_and(|at| at <= bed.now) {
            bed.step(Input::Tick);
        }
    }
    assert_eq!(bed.closed, [OBSERVER]);
}

#[test]
fn a_process_that_takes_part_is_asked_and_answers_by_the_same_connection() {
    let identity = member::Identity {
        role: Role::Worker,
        rank: None,
        incarnation: Incarnation::new(1),
        addresses: Vec::new(),
        host: "h".into(),
        sizes: SIZES,
    };
    let settings = member::Settings { identity, config: config(), scheduler_patience: None };
    let mut machine = Member::start(settings).unwrap();
    let (mut out, now) = (Vec::new(), Time::from_millis(1_000_000));
    let ask = member::Ask::Join { timeout: None };
    machine.step(now, member::Input::Asked { call: CallId::new(1), ask }, &mut out);
    let connection = ConnectionId::new(1);
    machine.step(now, member::Input::Connected { connection }, &mut out);
    out.clear();
    let message = ToMember::AskTraces { number: TraceNumber::new(4), after: 2 };
    let input = member::Input::Received { connection, message };
    machine.step(now, input, &mut out);
    let number = TraceNumber::new(4);
    assert_eq!(out, [member::Effect::AskTraces { connection, number, after: 2 }]);
    out.clear();
    let result = Err(Status::new(Code::Internal, "nobody has asked"));
    let message = ToMember::Traces { number, result };
    machine.step(now, member::Input::Received { connection, message }, &mut out);
    assert_eq!(out, []);
}
