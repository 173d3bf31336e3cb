//! A scheduler that is restarted, and knows nothing.

use rondo_core::exchange::member::{Ask, Reply, Standing};
use rondo_core::exchange::membership::{Member, Membership, Sizes, State};
use rondo_core::exchange::message::{Register, Scope, ToMember, ToScheduler};
use rondo_core::exchange::scheduler::{Effect, Event, Input, Phase, Scheduler, Settings};
use rondo_core::exchange::{Config, InstanceRank, Mask, MembershipVersion, Role};
use rondo_core::ids::{ConnectionId, Incarnation};
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use crate::bootstrap::{assert_refused, refused};
use crate::network::Delivery;
use crate::process::config;
use crate::world::World;

fn version(world: &World, process: usize) -> MembershipVersion {
    world.processes[process].member.as_ref().unwrap().membership().unwrap().version
}

fn restart(world: &mut World, away_millis: u64) {
    world.kill_scheduler();
    world.calm(away_millis);
    world.start_scheduler();
}

#[test]
fn a_restarted_scheduler_learns_from_those_who_come_back() {
    let mut world = World::begun(2, 1, 1);
    restart(&mut world, 200);
    world.calm(200);
    assert!((0..3).all(|process| world.is_joined(process)));
    assert!((0..3).all(|process| version(&world, process).get() == 2));
    assert!(world.events.contains(&Event::Rebuilt { up: 3, lost: 0 }));
}

#[test]
fn who_does_not_come_back_is_lost() {
    let mut world = World::begun(2, 1, 1);
    let dead = world.find(Role::Worker, 1);
    world.kill_scheduler();
    world.kill(dead, false);
    world.start_scheduler();
    world.calm(900);
    assert_eq!(world.scheduler.as_ref().unwrap().report().phase, Phase::Rebuilding);
    assert_eq!(version(&world, 0).get(), 1, "nobody is told before it is clear");
    world.calm(200);
    let membership = world.processes[0].member.as_ref().unwrap().membership().unwrap();
    let lost = membership.member(Role::Worker, world.processes[dead].rank).unwrap();
    assert_eq!((membership.version.get(), lost.state), (2, State::Lost));
    assert!(world.events.contains(&Event::Rebuilt { up: 2, lost: 1 }));
}

#[test]
fn a_barrier_outlives_the_scheduler() {
    let mut world = World::begun(1, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    let call = world.come(worker, Mask::ALL, Scope::Instance);
    world.calm(10);
    restart(&mut world, 100);
    world.calm(200);
    assert!(world.is_waiting(worker, call));
    let other = world.come(server, Mask::ALL, Scope::Instance);
    world.calm(10);
    assert_eq!(world.told(worker, call), &Ok(Reply::Done));
    assert_eq!(world.told(server, other), &Ok(Reply::Done));
}

/// All came, and the scheduler died when it had told only one of them: that one does not come again.
#[test]
fn a_barrier_that_was_passed_is_passed_for_all() {
    for scope in [Scope::Instance, Scope::Group] {
        let mut world = World::begun(2, 1, 1);
        let one = world.find(Role::Worker, 0);
        let before = [0, 1, 2].map(|process| (process, world.come(process, Mask::ALL, scope)));
        world.calm(10);
        assert!(before.iter().all(|(process, call)| world.told(*process, *call).is_ok()));
        let calls = [0, 1, 2].map(|process| (process, world.come(process, Mask::ALL, scope)));
        let at = |world: &World, process: usize| {
            world.lines.iter().position(|line| line.process == process).unwrap()
        };
        for process in 0..3 {
            let line = at(&world, process);
            world.deliver(Delivery::ToScheduler(line));
        }
        let line = at(&world, one);
        world.deliver(Delivery::ToMember(line));
        for (process, call) in calls {
            assert_eq!(world.is_waiting(process, call), process != one);
        }
        for process in 0..3 {
            let line = at(&world, process);
            world.lines[line].to_member.clear();
        }
        restart(&mut world, 100);
        world.calm(200);
        for (process, call) in calls {
            assert_eq!(world.told(process, call), &Ok(Reply::Done), "{scope:?}");
        }
        // And the next one waits for all.
        let next = world.come(one, Mask::ALL, scope);
        world.calm(50);
        assert!(world.is_waiting(one, next), "{scope:?}");
    }
}

#[test]
fn another_run_waits_until_the_restarted_scheduler_knows_more() {
    let mut world = World::begun(1, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    world.kill_scheduler();
    world.kill(server, false);
    world.start_scheduler();
    // The new run is the first to come, and is taken for the beginning of an exchange.
    world.start(server);
    world.drain();
    assert_eq!(world.scheduler.as_ref().unwrap().report().phase, Phase::Gathering);
    world.calm(500);
    assert_eq!(world.scheduler.as_ref().unwrap().report().phase, Phase::Rebuilding);
    world.calm(700);
    assert!(world.is_joined(server) && world.is_joined(worker));
    assert_eq!(version(&world, server), version(&world, worker));
}

#[test]
fn a_scheduler_that_stays_away_fails_what_needs_it_and_nothing_else() {
    let mut world = World::begun(1, 1, 1);
    let barrier = world.come(0, Mask::ALL, Scope::Instance);
    let (after, timeout) = (version(&world, 0), None);
    let changed = world.ask(0, Ask::Changed { after, timeout });
    world.calm(10);
    world.kill_scheduler();
    world.calm(4900);
    assert!(world.is_waiting(0, barrier) && world.is_waiting(0, changed));
    world.calm(200);
    for call in [barrier, changed] {
        let status = refused(&world, 0, call);
        assert_refused(&status, Code::Unavailable, &["5000 ms", "nobody is there"]);
    }
    let call = world.come(0, Mask::ALL, Scope::Instance);
    assert_refused(&refused(&world, 0, call), Code::Unavailable, &["away for"]);
    assert!(world.is_joined(0));
    world.start_scheduler();
    world.calm(200);
    let calls = [0, 1].map(|process| (process, world.come(process, Mask::ALL, Scope::Instance)));
    world.calm(10);
    assert!(calls.iter().all(|(process, call)| world.told(*process, *call).is_ok()));
}

#[test]
fn who_leaves_while_the_scheduler_is_away_is_not_kept() {
    let mut world = World::begun(1, 1, 1);
    world.kill_scheduler();
    world.calm(100);
    let call = world.ask(0, Ask::Leave);
    world.calm(310);
    assert_eq!(world.told(0, call), &Ok(Reply::Done));
    assert_eq!(world.standing(0), Some(Standing::Left));
    assert_eq!(world.processes[0].member.as_ref().unwrap().deadline(), None);
}

/// Who knows more comes after who knows less: nobody is expected who is known to be lost.
#[test]
fn the_newest_of_what_is_known_counts() {
    let mut world = World::begun(2, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    let dead = world.find(Role::Worker, 1);
    world.kill(dead, true);
    let told = |world: &World| version(world, server).get() == 2;
    // The scheduler dies when only the server has heard of the loss.
    while !told(&world) {
        world.now = world.now.after(Duration::from_millis(100));
        world.tick();
        for delivery in world.deliveries() {
            let is_news = matches!(delivery, Delivery::ToMember(at) if {
                let line = &world.lines[at];
                line.process == worker
                    && matches!(line.to_member.front(), Some(ToMember::Membership(_)))
            });
            if !is_news {
                world.deliver(delivery);
            }
        }
    }
    assert_eq!(version(&world, worker).get(), 1);
    for line in &mut world.lines {
        line.to_member.clear();
    }
    world.kill_scheduler();
    world.start_scheduler();
    // The worker is the first to come back, and then the server.
    for process in [worker, server] {
        for line in 0..world.lines.len() {
            if world.lines[line].process == process {
                world.deliver(Delivery::ToMember(line));
            }
        }
        world.tick();
        world.drain_of(process);
    }
    world.drain();
    let report = world.scheduler.as_ref().unwrap().report();
    assert_eq!((report.phase, report.version.get()), (Phase::Running, 3));
    assert_eq!(report.missing, [(Role::Worker, world.processes[dead].rank)]);
}

/// The word that a barrier is over is lost twice, the second time with the scheduler: what was said of
/// barriers when the connection was there in between must not hide it.
#[test]
fn who_was_not_told_of_a_barrier_twice_is_told_by_the_next_scheduler() {
    let mut world = World::begun(1, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    let call = world.come(worker, Mask::ALL, Scope::Instance);
    world.drain();
    let line = world.lines.iter().position(|line| line.process == worker).unwrap();
    world.break_line(line);
    let other = world.come(server, Mask::ALL, Scope::Instance);
    world.drain_of(server);
    assert_eq!(world.told(server, other), &Ok(Reply::Done));
    // It is back, and hears who takes part, but not how its barrier ended.
    world.tick();
    loop {
        world.drain_to_scheduler();
        let line = world.lines.iter().position(|it| it.process == worker && it.is_open_there);
        let line = line.unwrap();
        match world.lines[line].to_member.front() {
            Some(ToMember::BarrierDone { .. }) => break,
            Some(_) => world.deliver(Delivery::ToMember(line)),
            None => {}
        }
    }
    for line in &mut world.lines {
        line.to_member.clear();
    }
    restart(&mut world, 100);
    world.calm(200);
    assert_eq!(world.told(worker, call), &Ok(Reply::Done));
}

/// A run that was given up is back before those who know that, and waits at a barrier.
#[test]
fn who_turns_out_to_be_lost_waits_nowhere() {
    let mut world = World::begun(2, 1, 1);
    let (server, other) = (world.find(Role::Server, 0), world.find(Role::Worker, 1));
    let given_up = world.find(Role::Worker, 0);
    let call = world.come(given_up, Mask::WORKERS, Scope::Instance);
    world.drain();
    let line = world.lines.iter().position(|line| line.process == given_up).unwrap();
    world.break_line(line);
    // What it does to come back takes long.
    for _ in 0..5 {
        world.tick();
        world.drain_to_scheduler_but_of(given_up);
        world.drain_of(server);
        world.drain_of(other);
        world.now = world.now.after(Duration::from_millis(100));
    }
    assert_eq!(version(&world, server).get(), 2);
    world.kill_scheduler();
    world.start_scheduler();
    world.drain_of(given_up);
    let report = world.scheduler.as_ref().unwrap().report();
    assert_eq!((report.version.get(), report.barriers.len()), (1, 1));
    world.calm(100);
    assert_eq!(world.scheduler.as_ref().unwrap().report().barriers, []);
    assert_refused(&refused(&world, given_up, call), Code::Aborted, &["was given up"]);
}

/// The run of the server, and those of the workers.
const SERVER: u64 = 7;
/// See [`SERVER`].
const WORKERS: [u64; 2] = [8, 9];

/// The registration of one of a server and two workers, who knows this version of who takes part: there,
/// the workers have ranks in this order.
fn coming(run: u64, version: u64, workers: [u64; 2]) -> Register {
    let sizes = Sizes { workers: 2, servers: 1, group: 1 };
    let member = |role, rank, run| Member {
        role,
        rank: InstanceRank::new(rank),
        incarnation: Incarnation::new(run),
        addresses: vec!["server".into()],
        host: "here".into(),
        state: State::Up,
    };
    let members = vec![
        member(Role::Server, 0, SERVER),
        member(Role::Worker, 0, workers[0]),
        member(Role::Worker, 1, workers[1]),
    ];
    let own = members.iter().find(|it| it.incarnation == Incarnation::new(run)).unwrap();
    let (role, rank) = (own.role, Some(own.rank));
    let known = Membership { version: MembershipVersion::new(version), sizes, members };
    Register {
        role,
        rank,
        incarnation: Incarnation::new(run),
        addresses: vec!["server".into()],
        host: "here".into(),
        sizes,
        known: Some(known.into()),
        passed: Vec::new(),
        waiting: Vec::new(),
    }
}

/// After how many milliseconds a worker is lost whose connection broke at 10 ms and may come back for so
/// many, if the scheduler learns 10 ms later of a newer membership in which the workers have ranks in this
/// order.
fn lost_after(grace: u64, workers: [u64; 2]) -> Option<u64> {
    let config = Config { reconnect_grace: Duration::from_millis(grace), ..config() };
    let settings = Settings { config, sizes: None, takes_part: false, goes_on_without_lost: false };
    let (mut scheduler, start) =
        (Scheduler::start(settings).unwrap(), Time::from_millis(1_000_000));
    let mut step = |millis: u64, input: Input| {
        let mut out = Vec::new();
        scheduler.step(start.after(Duration::from_millis(millis)), input, &mut out);
        let lost = |effect: &Effect| match effect {
            Effect::Observe(Event::Lost(lost)) => lost.incarnation == Incarnation::new(WORKERS[0]),
            _ => false,
        };
        out.iter().any(lost)
    };
    let (first, second) = (ConnectionId::new(1), ConnectionId::new(2));
    step(0, Input::Connected { connection: first });
    let message = ToScheduler::Register(coming(WORKERS[0], 1, WORKERS));
    step(0, Input::Received { connection: first, message });
    step(10, Input::Disconnected { connection: first });
    step(20, Input::Connected { connection: second });
    let message = ToScheduler::Register(coming(SERVER, 2, workers));
    step(20, Input::Received { connection: second, message });
    (30..=4010).step_by(10).find(|millis| {
        let message = ToScheduler::Heartbeat { version: MembershipVersion::new(2) };
        step(*millis, Input::Received { connection: second, message });
        step(*millis, Input::Tick)
    })
}

/// A process that comes back with a newer membership takes nothing from the time that one whose
/// connection broke has to come back.
#[test]
fn a_newer_membership_shortens_nobodys_time_to_come_back() {
    assert_eq!(lost_after(3000, WORKERS), Some(3010));
}

/// The time belongs to the run, whatever rank it has.
#[test]
fn a_newer_membership_with_other_ranks_shortens_nobodys_time_to_come_back() {
    assert_eq!(lost_after(3000, [WORKERS[1], WORKERS[0]]), Some(3010));
}

/// It has at least as long as it may be silent.
#[test]
fn a_newer_membership_lengthens_a_short_time_to_come_back() {
    assert_eq!(lost_after(100, WORKERS), Some(1020));
}
