//! How an exchange begins: everybody registers, and what does not fit is refused in words.

use rondo_core::exchange::member::{Ask, Identity, Reply, Standing};
use rondo_core::exchange::membership::{Sizes, State};
use rondo_core::exchange::message::Failure;
use rondo_core::exchange::scheduler::{self, Event, Phase, Settings};
use rondo_core::exchange::{Config, InstanceRank, NodeId, Role};
use rondo_core::ids::{CallId, Incarnation};
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::process::config;
use crate::world::World;

/// What a call was refused with.
#[track_caller]
pub(crate) fn refused(world: &World, process: usize, call: CallId) -> Status {
    match world.told(process, call) {
        Err(Failure::Refused(status)) => status.clone(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_refused(status: &Status, code: Code, names: &[&str]) {
    assert_eq!(status.code, code, "{status}");
    for name in names {
        assert!(status.message.contains(name), "{name:?} is not in {:?}", status.message);
    }
}

/// Another process of this role and rank, beside those there are.
fn another(world: &mut World, role: Role, rank: Option<u32>, sizes: Sizes) -> (usize, CallId) {
    let process = world.processes.len();
    world.processes.push(crate::process::Process::new(role, rank.unwrap_or_default()));
    let incarnation = world.next_incarnation();
    let identity = Identity {
        role,
        rank: rank.map(InstanceRank::new),
        incarnation: Incarnation::new(incarnation),
        addresses: vec![format!("other:{incarnation}").into()],
        host: "other".into(),
        sizes,
    };
    let config = world.config.clone();
    world.processes[process].start_as(identity, config);
    (process, world.ask(process, Ask::Join { timeout: None }))
}

#[test]
fn the_last_one_to_register_releases_all() {
    let mut world = World::new(2, 2, 1);
    let mut calls = Vec::new();
    for process in 0..4 {
        assert!(calls.iter().all(|(process, call)| world.is_waiting(*process, *call)));
        calls.push((process, world.start(process)));
        world.calm(2000);
    }
    for (process, call) in calls {
        let told = world.told(process, call);
        assert!(matches!(told, Ok(Reply::Joined { .. })), "{told:?}");
    }
    let membership = world.scheduler.as_ref().unwrap().membership().unwrap().clone();
    assert_eq!((membership.version.get(), membership.members.len()), (1, 4));
    assert!(membership.members.iter().all(|member| member.state == State::Up));
}

#[test]
fn numbers_are_those_of_stepmesh() {
    let world = World::begun(2, 2, 2);
    for process in &world.processes {
        let member = process.member.as_ref().unwrap();
        let first = if process.role == Role::Server { 8 } else { 9 };
        let node = NodeId::new(first + 2 * process.rank.get());
        assert_eq!(member.assigned(), Some((node, process.rank)));
        assert_eq!((node.role(), node.rank()), (Some(process.role), process.rank));
    }
}

#[test]
fn sizes_that_contradict_are_refused_with_both() {
    let mut world = World::new(2, 1, 1);
    let sizes = Sizes { workers: 3, servers: 1, group: 1 };
    let (process, call) = another(&mut world, Role::Worker, Some(0), sizes);
    world.calm(10);
    let status = refused(&world, process, call);
    let names = ["3 workers", "2 workers", "started for", "DMLC_NUM_WORKER", "other:1"];
    assert_refused(&status, Code::InvalidArgument, &names);
}

#[test]
fn the_first_one_says_how_many_there_are_if_the_scheduler_does_not_know() {
    let sizes = Sizes { workers: 1, servers: 1, group: 1 };
    let settings = Settings { config: config(), ..Settings::default() };
    let mut world = World::with(sizes, settings);
    world.start(0);
    world.calm(10);
    let other = Sizes { workers: 2, ..sizes };
    let (process, call) = another(&mut world, Role::Worker, Some(0), other);
    world.calm(10);
    let status = refused(&world, process, call);
    assert_refused(&status, Code::InvalidArgument, &["2 workers", "1 workers", "came before"]);
    // When nobody is left, the next one may say something else.
    world.kill(0, false);
    world.calm(1000);
    assert_eq!(world.scheduler.as_ref().unwrap().report().sizes, None);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    for sizes in [(0, 1, 1), (1, 0, 1), (1, 1, 0)] {
        let (workers, servers, group) = sizes;
        let sizes = Some(Sizes { workers, servers, group });
        let settings = Settings { config: config(), sizes, ..Settings::default() };
        let status = scheduler::Scheduler::start(settings).unwrap_err();
        assert_refused(&status, Code::InvalidArgument, &["at least one"]);
    }
    let sizes = Some(Sizes { workers: u32::MAX, servers: u32::MAX, group: u32::MAX });
    let settings = Settings { config: config(), sizes, ..Settings::default() };
    let status = scheduler::Scheduler::start(settings).unwrap_err();
    assert_refused(&status, Code::ResourceExhausted, &["processes_max", "4294967295"]);
}

#[test]
fn ranks_are_from_0_to_one_less_than_there_are() {
    let mut world = World::new(2, 1, 2);
    let sizes = world.sizes;
    let (process, call) = another(&mut world, Role::Worker, Some(4), sizes);
    world.calm(10);
    let status = refused(&world, process, call);
    assert_refused(&status, Code::InvalidArgument, &["rank 4", "0 to 3", "DMLC_NODE_RANK"]);
}

#[test]
fn two_of_one_rank_are_one_too_many_and_both_are_named() {
    for began in [false, true] {
        let mut world = World::new(1, 1, 1);
        world.start(1);
        if began {
            world.start(0);
        }
        world.calm(10);
        let sizes = world.sizes;
        let (process, call) = another(&mut world, Role::Worker, Some(0), sizes);
        world.calm(10);
        let status = refused(&world, process, call);
        let address = world.processes[process].incarnation;
        let names = ["worker 0", "worker-0:1", &format!("other:{address}")];
        assert_refused(&status, Code::AlreadyExists, &names);
        assert!(matches!(world.standing(process), Some(Standing::Over(_))));
        assert!(world.standing(1).is_some_and(|it| !matches!(it, Standing::Over(_))));
    }
}

#[test]
fn a_server_that_nobody_can_reach_is_refused() {
    let mut world = World::new(1, 1, 1);
    let identity = Identity {
        role: Role::Server,
        rank: None,
        incarnation: Incarnation::new(1),
        addresses: Vec::new(),
        host: "h".into(),
        sizes: world.sizes,
    };
    let config = world.config.clone();
    world.processes[0].start_as(identity, config);
    let call = world.ask(0, Ask::Join { timeout: None });
    world.calm(10);
    assert_refused(&refused(&world, 0, call), Code::InvalidArgument, &["no address"]);
}

#[test]
fn who_wants_any_rank_gets_one_and_makes_way_for_who_wants_that_one() {
    let mut world = World::new(3, 1, 1);
    let sizes = world.sizes;
    world.processes.truncate(1);
    world.start(0);
    let (first, _) = another(&mut world, Role::Worker, None, sizes);
    let (second, _) = another(&mut world, Role::Worker, None, sizes);
    world.calm(10);
    let (third, _) = another(&mut world, Role::Worker, Some(0), sizes);
    world.calm(10);
    let rank = |process: usize| {
        let member = world.processes[process].member.as_ref().unwrap();
        member.assigned().unwrap().1.get()
    };
    assert_eq!((rank(first), rank(second), rank(third)), (2, 1, 0));
}

#[test]
fn who_is_missing_is_named_when_time_is_up() {
    let sizes = Sizes { workers: 20, servers: 2, group: 1 };
    let timeout = Some(Duration::from_millis(5000));
    let config = Config { bootstrap_timeout: timeout, ..config() };
    let settings = Settings { config, sizes: Some(sizes), ..Settings::default() };
    let mut world = World::with(sizes, settings);
    // The processes themselves wait for ever: it is the scheduler's answer that they get.
    world.config.bootstrap_timeout = None;
    let ready = world.ask_scheduler(scheduler::Ask::Ready);
    let calls = [0, 2, 3].map(|process| (process, world.start(process)));
    world.calm(4900);
    assert!(calls.iter().all(|(process, call)| world.is_waiting(*process, *call)));
    world.calm(200);
    for (process, call) in calls {
        let status = refused(&world, process, call);
        let names = ["5000 ms", "server 1, worker 2, worker 3,", "and 3 more"];
        assert_refused(&status, Code::DeadlineExceeded, &names);
    }
    let status = world.done_by_scheduler[&ready].clone().unwrap_err();
    assert_eq!(status.code, Code::DeadlineExceeded);
    // All may try again.
    (0..22).for_each(|process| {
        world.start(process);
    });
    world.calm(50);
    assert!((0..22).all(|process| world.is_joined(process)));
}

#[test]
fn a_scheduler_to_which_nobody_comes_says_so() {
    let timeout = Some(Duration::from_millis(500));
    let config = Config { bootstrap_timeout: timeout, ..config() };
    let settings = Settings { config, sizes: None, ..Settings::default() };
    let mut world = World::with(Sizes { workers: 1, servers: 1, group: 1 }, settings);
    let ready = world.ask_scheduler(scheduler::Ask::Ready);
    world.calm(600);
    let Err(status) = world.done_by_scheduler[&ready].clone() else { panic!("all have come") };
    assert_refused(&status, Code::DeadlineExceeded, &["500 ms", "nobody has come"]);
}

#[test]
fn who_joins_waits_as_long_as_it_says_and_may_begin_again() {
    let mut world = World::new(1, 1, 1);
    world.start(0);
    let call = world.ask(0, Ask::Join { timeout: Some(Duration::from_millis(50)) });
    world.calm(60);
    let status = refused(&world, 0, call);
    assert_refused(&status, Code::DeadlineExceeded, &["server 0", "not all of them have come"]);
    // Its first call still waits.
    world.start(1);
    world.calm(10);
    assert!(world.is_joined(0) && world.is_joined(1));
}

#[test]
fn a_scheduler_that_is_not_there_yet_is_waited_for() {
    let mut world = World::new(1, 1, 1);
    world.kill_scheduler();
    let limited = world.processes.len() - 1;
    world.start(0);
    world.start(limited);
    let call = world.ask(limited, Ask::Join { timeout: Some(Duration::from_millis(500)) });
    world.calm(600);
    let status = refused(&world, limited, call);
    assert_refused(&status, Code::DeadlineExceeded, &["was not reached", "nobody is there"]);
    world.start_scheduler();
    world.calm(200);
    assert!(world.is_joined(0) && world.is_joined(limited));
}

#[test]
fn who_gives_up_joining_makes_room() {
    let mut world = World::new(1, 1, 1);
    let call = world.start(0);
    world.calm(10);
    world.cancel(0, call);
    world.calm(10);
    assert_eq!(world.standing(0), Some(Standing::Idle));
    assert_eq!(world.scheduler.as_ref().unwrap().report().members, []);
}

#[test]
fn who_dies_before_it_began_makes_room_for_another_run() {
    let mut world = World::new(1, 1, 1);
    world.start(0);
    world.calm(10);
    world.kill(0, false);
    world.start(0);
    world.start(1);
    world.calm(20);
    // The connection of the run before is broken, and it may come back for a while.
    assert_eq!(world.scheduler.as_ref().unwrap().report().parked, 1);
    assert!(!world.is_joined(0));
    world.calm(300);
    assert!(world.is_joined(0) && world.is_joined(1));
}

#[test]
fn everybody_is_told_in_slices() {
    let mut world = World::new(300, 1, 1);
    world.begin();
    let begun = world.events.iter().filter(|event| matches!(event, Event::Begun { .. })).count();
    let report = world.scheduler.as_ref().unwrap().report();
    assert_eq!((begun, report.phase, report.missing.len()), (1, Phase::Running, 0));
}
