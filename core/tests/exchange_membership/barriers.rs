//! Barriers: those of a mask meet, nobody goes on before all have come, and nobody waits in vain.

use rondo_core::exchange::member::{Ask, Reply};
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::message::{Failure, Scope};
use rondo_core::exchange::scheduler::{self, Settings};
use rondo_core::exchange::{Mask, Role};
use rondo_core::ids::CallId;
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::bootstrap::{assert_refused, refused};
use crate::process::config;
use crate::world::World;

/// Comes to a barrier of each process.
#[track_caller]
fn waits(world: &mut World, role: Role, rank: u32, mask: Mask, scope: Scope) -> (usize, CallId) {
    let process = world.find(role, rank);
    let call = world.come(process, mask, scope);
    world.calm(10);
    (process, call)
}

#[track_caller]
fn assert_released(world: &World, calls: &[(usize, CallId)]) {
    for (process, call) in calls {
        assert_eq!(world.told(*process, *call), &Ok(Reply::Done));
    }
}

#[test]
fn each_mask_meets_by_itself() {
    let mut world = World::begun(2, 1, 1);
    let at = Scope::Instance;
    let first = waits(&mut world, Role::Worker, 0, Mask::WORKERS, at);
    let all = waits(&mut world, Role::Server, 0, Mask::ALL, at);
    assert!(world.is_waiting(first.0, first.1));
    let second = waits(&mut world, Role::Worker, 1, Mask::WORKERS, at);
    assert_released(&world, &[first, second]);
    assert!(world.is_waiting(all.0, all.1));
    let both = [0, 1].map(|rank| waits(&mut world, Role::Worker, rank, Mask::ALL, at));
    assert_released(&world, &[all, both[0], both[1]]);
}

#[test]
fn one_of_each_group_is_enough_where_groups_meet() {
    let mut world = World::begun(2, 1, 2);
    let group = Scope::Group;
    // Both of one group wait; both are released, and nobody else.
    let first = waits(&mut world, Role::Worker, 0, Mask::WORKERS, group);
    let second = waits(&mut world, Role::Worker, 1, Mask::WORKERS, group);
    assert!(world.is_waiting(first.0, first.1) && world.is_waiting(second.0, second.1));
    let third = waits(&mut world, Role::Worker, 3, Mask::WORKERS, group);
    assert_released(&world, &[first, second, third]);
    // Who was not there comes to the next one.
    let fourth = waits(&mut world, Role::Worker, 2, Mask::WORKERS, group);
    assert!(world.is_waiting(fourth.0, fourth.1));
}

#[test]
fn several_barriers_of_one_process_follow_each_other() {
    let mut world = World::begun(1, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    let calls = [0; 3].map(|_| world.come(worker, Mask::ALL, Scope::Instance));
    for call in calls {
        assert!(world.is_waiting(worker, call));
        let other = world.come(server, Mask::ALL, Scope::Instance);
        world.calm(10);
        assert_released(&world, &[(worker, call), (server, other)]);
    }
}

#[test]
fn only_those_of_the_mask_may_wait() {
    let mut world = World::begun(1, 1, 1);
    let worker = world.find(Role::Worker, 0);
    let call = world.come(worker, Mask::SERVERS, Scope::Instance);
    let status = refused(&world, worker, call);
    assert_refused(&status, Code::InvalidArgument, &["worker", "servers"]);
}

#[test]
fn there_is_a_bound_on_barriers_of_a_process() {
    let mut world = World::begun(1, 1, 1);
    let worker = world.find(Role::Worker, 0);
    let calls: Vec<CallId> =
        (0..9).map(|_| world.come(worker, Mask::ALL, Scope::Instance)).collect();
    let status = refused(&world, worker, calls[8]);
    assert_refused(&status, Code::ResourceExhausted, &["8 calls", "barriers_max"]);
    assert!(calls[..8].iter().all(|call| world.is_waiting(worker, *call)));
}

#[test]
fn who_gives_up_has_not_come() {
    let mut world = World::begun(1, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    let (mask, scope) = (Mask::ALL, Scope::Instance);
    let timeout = Some(Duration::from_millis(50));
    let late = world.ask(worker, Ask::Barrier { mask, scope, timeout });
    world.calm(60);
    let status = refused(&world, worker, late);
    assert_refused(&status, Code::DeadlineExceeded, &["50 ms", "servers+workers"]);
    let other = world.come(server, mask, scope);
    world.calm(10);
    assert!(world.is_waiting(server, other), "the worker does not wait any more");
    let again = world.come(worker, mask, scope);
    world.calm(10);
    assert_released(&world, &[(server, other), (worker, again)]);
}

#[test]
fn a_broken_connection_changes_nothing() {
    let mut world = World::begun(1, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    let call = world.come(worker, Mask::ALL, Scope::Instance);
    world.drain();
    for line in 0..world.lines.len() {
        world.break_line(line);
    }
    let other = world.come(server, Mask::ALL, Scope::Instance);
    world.calm(50);
    assert_released(&world, &[(worker, call), (server, other)]);
}

/// The word that releases is lost with its connection, after the others have gone on.
#[test]
fn who_was_released_and_did_not_hear_it_hears_it_when_it_is_back() {
    let mut world = World::begun(1, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    let call = world.come(worker, Mask::ALL, Scope::Instance);
    world.drain();
    let other = world.come(server, Mask::ALL, Scope::Instance);
    let line = world.lines.iter().position(|line| line.process == server).unwrap();
    world.deliver(crate::network::Delivery::ToScheduler(line));
    let line = world.lines.iter().position(|line| line.process == worker).unwrap();
    assert_eq!(world.lines[line].to_member.len(), 1);
    world.break_line(line);
    world.calm(50);
    assert_released(&world, &[(worker, call), (server, other)]);
}

#[test]
fn a_process_that_runs_the_scheduler_may_take_part() {
    let sizes = Sizes { workers: 1, servers: 1, group: 1 };
    let settings = Settings {
        config: config(),
        sizes: Some(sizes),
        takes_part: true,
        goes_on_without_lost: false,
    };
    let mut world = World::with(sizes, settings);
    let ready = world.ask_scheduler(scheduler::Ask::Ready);
    assert!(!world.done_by_scheduler.contains_key(&ready));
    world.begin();
    assert_eq!(world.done_by_scheduler[&ready], Ok(()));
    let (mask, scope) = (Mask::ALL, Scope::Instance);
    let calls = [0, 1].map(|process| (process, world.come(process, mask, scope)));
    world.calm(10);
    assert!(world.is_waiting(calls[0].0, calls[0].1));
    // Its own patience may end first.
    let timeout = Some(Duration::from_millis(20));
    let late =
        world.ask_scheduler(scheduler::Ask::Barrier { mask: Mask::SCHEDULER, scope, timeout });
    world.calm(30);
    assert_eq!(world.done_by_scheduler[&late], Ok(()), "it is alone in that mask");
    let own = world.ask_scheduler(scheduler::Ask::Barrier { mask, scope, timeout });
    world.calm(10);
    assert_eq!(world.done_by_scheduler[&own], Ok(()));
    assert_released(&world, &calls);
    let own = world.ask_scheduler(scheduler::Ask::Barrier { mask, scope, timeout });
    world.calm(30);
    let status = world.done_by_scheduler[&own].clone().unwrap_err();
    assert_refused(&status, Code::DeadlineExceeded, &["scheduler"]);
    let own = world.ask_scheduler(scheduler::Ask::Barrier { mask: Mask::WORKERS, scope, timeout });
    assert_eq!(world.done_by_scheduler[&own].clone().unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn who_leaves_is_not_waited_for() {
    let mut world = World::begun(2, 1, 1);
    let first = waits(&mut world, Role::Worker, 0, Mask::WORKERS, Scope::Instance);
    let other = world.find(Role::Worker, 1);
    let left = world.ask(other, Ask::Leave);
    world.calm(10);
    assert_released(&world, &[first, (other, left)]);
}

/// As `stop` does: all meet, and then leave.
#[test]
fn all_meet_and_leave() {
    let mut world = World::begun(2, 2, 1);
    let ended = world.ask_scheduler(scheduler::Ask::Ended);
    let calls: Vec<_> =
        (0..4).map(|process| (process, world.come(process, Mask::ALL, Scope::Instance))).collect();
    world.calm(10);
    assert_released(&world, &calls);
    let calls: Vec<_> = (0..4).map(|process| (process, world.ask(process, Ask::Leave))).collect();
    world.calm(10);
    assert_released(&world, &calls);
    assert_eq!(world.done_by_scheduler[&ended], Ok(()));
    // Another exchange may begin, with the same scheduler.
    world.begin();
}

#[test]
fn a_loss_fails_the_barrier_and_says_who_is_lost() {
    let mut world = World::begun(2, 1, 1);
    let first = waits(&mut world, Role::Worker, 0, Mask::WORKERS, Scope::Instance);
    let elsewhere = waits(&mut world, Role::Server, 0, Mask::SERVERS, Scope::Instance);
    assert_released(&world, &[elsewhere]);
    let dead = world.find(Role::Worker, 1);
    let incarnation = world.processes[dead].incarnation;
    world.kill(dead, false);
    world.calm(290);
    assert!(world.is_waiting(first.0, first.1), "it may come back for 300 ms");
    world.calm(20);
    let Err(Failure::PeerLost(lost)) = world.told(first.0, first.1) else {
        panic!("{:?}", world.told(first.0, first.1));
    };
    assert_eq!((lost.role, lost.rank.get(), lost.incarnation), (Role::Worker, 1, incarnation));
    assert_eq!((&*lost.address, lost.why.contains("300 ms")), ("worker-1:3", true));
    // As long as it is lost who comes is told at once; those of other masks meet as before.
    let again = waits(&mut world, Role::Worker, 0, Mask::WORKERS, Scope::Group);
    assert!(matches!(world.told(again.0, again.1), Err(Failure::PeerLost(_))));
    let other = waits(&mut world, Role::Server, 0, Mask::SERVERS, Scope::Instance);
    assert_released(&world, &[other]);
    // When another run has taken its place they meet again.
    world.start(dead);
    world.calm(10);
    let calls =
        [0, 1].map(|rank| waits(&mut world, Role::Worker, rank, Mask::WORKERS, Scope::Group));
    assert_released(&world, &calls);
}

#[test]
fn barriers_go_on_without_who_is_lost_if_they_are_to() {
    let sizes = Sizes { workers: 3, servers: 1, group: 1 };
    let settings = Settings {
        config: config(),
        sizes: Some(sizes),
        takes_part: false,
        goes_on_without_lost: true,
    };
    let mut world = World::with(sizes, settings);
    world.begin();
    let calls =
        [0, 1].map(|rank| waits(&mut world, Role::Worker, rank, Mask::WORKERS, Scope::Instance));
    let dead = world.find(Role::Worker, 2);
    world.kill(dead, false);
    world.calm(310);
    assert_released(&world, &calls);
}
