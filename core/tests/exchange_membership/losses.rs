//! Processes that fall silent, lose their connection, leave and return.

use std::sync::Arc;

use rondo_core::exchange::member::{Ask, Reply, Standing};
use rondo_core::exchange::membership::{Membership, Sizes, State};
use rondo_core::exchange::message::{Register, ToMember, ToScheduler};
use rondo_core::exchange::scheduler::{self, Effect, Event, Input, Scheduler};
use rondo_core::exchange::{InstanceRank, MembershipVersion, Role};
use rondo_core::ids::{ConnectionId, Incarnation};
use rondo_core::status::Code;
use rondo_core::time::{Duration, Time};

use crate::bootstrap::{assert_refused, refused};
use crate::world::World;

/// How a process stands in the membership that another one knows.
fn state(world: &World, of: usize, known_by: usize) -> State {
    let process = &world.processes[of];
    let membership = world.processes[known_by].member.as_ref().unwrap().membership().unwrap();
    membership.member(process.role, process.rank).unwrap().state
}

fn version(world: &World, process: usize) -> u64 {
    world.processes[process].member.as_ref().unwrap().membership().unwrap().version.get()
}

#[test]
fn a_silent_process_is_lost_when_its_time_is_over() {
    let mut world = World::begun(1, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    let after = MembershipVersion::new(1);
    let changed = world.ask(worker, Ask::Changed { after, timeout: None });
    world.kill(server, true);
    world.calm(900);
    assert!(world.is_waiting(worker, changed));
    world.calm(200);
    assert_eq!(state(&world, server, worker), State::Lost);
    assert_eq!(version(&world, worker), 2);
    let told = world.told(worker, changed);
    assert!(matches!(told, Ok(Reply::Membership(it)) if it.version.get() == 2), "{told:?}");
    let why = world.events.iter().find_map(|event| match event {
        Event::Lost(lost) => Some(lost.why.to_string()),
        _ => None,
    });
    assert_eq!(why.as_deref(), Some("nothing was heard of it for 1000 ms"));
}

#[test]
fn a_process_that_is_only_slow_stays() {
    let mut world = World::begun(1, 1, 1);
    // Heartbeats are under way for long, but come.
    for _ in 0..5 {
        world.stall(900);
        world.calm(1);
    }
    assert_eq!(version(&world, 0), 1);
}

#[test]
fn a_connection_may_break_and_return() {
    let mut world = World::begun(1, 1, 1);
    for _ in 0..10 {
        for line in 0..world.lines.len() {
            world.break_line(line);
        }
        world.calm(100);
    }
    assert_eq!((version(&world, 0), version(&world, 1)), (1, 1));
    assert!(world.is_joined(0) && world.is_joined(1));
}

#[test]
fn another_run_takes_the_place_of_a_lost_one() {
    let mut world = World::begun(1, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    world.kill(server, false);
    world.calm(400);
    assert_eq!((state(&world, server, worker), version(&world, worker)), (State::Lost, 2));
    world.start(server);
    world.calm(10);
    assert_eq!((state(&world, server, worker), version(&world, worker)), (State::Up, 3));
    let incarnation = world.processes[server].incarnation;
    let returned =
        Event::Returned { role: Role::Server, rank: world.processes[server].rank, incarnation };
    assert!(world.events.contains(&returned));
}

#[test]
fn another_run_that_comes_at_once_waits_until_the_first_is_given_up() {
    let mut world = World::begun(1, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    world.kill(server, false);
    world.drain();
    world.start(server);
    world.calm(200);
    assert_eq!((state(&world, server, worker), version(&world, worker)), (State::Up, 1));
    assert!(!world.is_joined(server));
    world.calm(110);
    // Nobody sees the one without the other.
    assert_eq!((state(&world, server, worker), version(&world, worker)), (State::Up, 2));
    assert!(world.is_joined(server));
}

#[test]
fn a_run_that_was_given_up_does_not_come_back() {
    let mut world = World::begun(1, 1, 1);
    let (server, worker) = (world.find(Role::Server, 0), world.find(Role::Worker, 0));
    let line = world.lines.iter().position(|line| line.process == server).unwrap();
    world.lines[line].is_silent = true;
    world.calm(1500);
    assert_eq!(state(&world, server, worker), State::Lost);
    let Some(Standing::Over(status)) = world.standing(server) else {
        panic!("{:?}", world.standing(server));
    };
    assert_refused(&status, Code::Aborted, &["was given up", "only a new run"]);
    assert!(world.processes[server].over.is_some());
}

#[test]
fn who_has_left_may_return_as_another_run() {
    let mut world = World::begun(2, 1, 1);
    let (one, other) = (world.find(Role::Worker, 0), world.find(Role::Worker, 1));
    world.ask(one, Ask::Leave);
    world.calm(10);
    assert_eq!((state(&world, one, other), version(&world, other)), (State::Left, 2));
    assert_eq!(world.standing(one), Some(Standing::Left));
    world.start(one);
    world.calm(10);
    assert_eq!((state(&world, one, other), version(&world, other)), (State::Up, 3));
}

#[test]
fn who_leaves_fails_what_it_waited_for() {
    let mut world = World::begun(1, 1, 1);
    let after = MembershipVersion::new(9);
    let call = world.ask(0, Ask::Changed { after, timeout: None });
    world.ask(0, Ask::Leave);
    world.calm(10);
    assert_refused(&refused(&world, 0, call), Code::Cancelled, &["stopping"]);
    let call = world.ask(0, Ask::Changed { after, timeout: None });
    assert_refused(&refused(&world, 0, call), Code::Cancelled, &["stopping"]);
}

#[test]
fn who_waits_for_a_change_may_tire_of_it() {
    let mut world = World::begun(1, 1, 1);
    let (after, timeout) = (MembershipVersion::new(1), Some(Duration::from_millis(40)));
    let call = world.ask(0, Ask::Changed { after, timeout });
    world.calm(50);
    let status = refused(&world, 0, call);
    assert_refused(&status, Code::DeadlineExceeded, &["membership 1", "40 ms"]);
    let call = world.ask(0, Ask::Changed { after: MembershipVersion::new(0), timeout });
    assert!(world.told(0, call).is_ok(), "what is known needs no waiting");
}

/// Nothing was processed for ten times the timeout: that is no fault of those who were not heard.
#[test]
fn nobody_is_lost_because_the_scheduler_was_held_up() {
    let mut world = World::begun(1, 1, 1);
    world.calm(50);
    world.now = world.now.after(Duration::from_millis(10_000));
    world.tick();
    world.calm(300);
    assert!(world.events.iter().any(|event| matches!(event, Event::HeldUp { .. })));
    assert!(world.is_joined(0) && world.is_joined(1), "{:?}", world.events);
    assert_eq!(version(&world, 0), 1);
}

/// A scheduler, and what it has said.
struct Lone {
    machine: Scheduler,
    workers: u32,
    now: Time,
    /// Connections of all who have come.
    came: Vec<ConnectionId>,
    told: Vec<(u64, ToMember)>,
}

impl Lone {
    fn new(workers: u32) -> Self {
        let config = crate::process::config();
        let settings = scheduler::Settings { config, ..scheduler::Settings::default() };
        let machine = Scheduler::start(settings).unwrap();
        let now = Time::from_millis(1000);
        Self { machine, workers, now, came: Vec::new(), told: Vec::new() }
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.machine.step(self.now, input, &mut effects);
        scheduler::check(&self.machine).unwrap();
        self.told.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::Send { connection, message } => Some((connection.get(), message)),
            _ => None,
        }));
    }

    /// A run registers, and wants rank 0.
    fn register(&mut self, connection: u64, role: Role, run: u64, known: Option<Arc<Membership>>) {
        self.register_as(connection, (role, Some(0)), run, known);
    }

    fn register_as(
        &mut self,
        connection: u64,
        (role, rank): (Role, Option<u32>),
        run: u64,
        known: Option<Arc<Membership>>,
    ) {
        let register = self.registration((role, rank), run, known);
        self.come(connection, register);
    }

    fn come(&mut self, connection: u64, register: Register) {
        let connection = ConnectionId::new(connection);
        self.came.push(connection);
        self.step(Input::Connected { connection });
        self.step(Input::Received { connection, message: ToScheduler::Register(register) });
    }

    fn registration(
        &self,
        (role, rank): (Role, Option<u32>),
        run: u64,
        known: Option<Arc<Membership>>,
    ) -> Register {
        Register {
            role,
            rank: rank.map(InstanceRank::new),
            incarnation: Incarnation::new(run),
            addresses: vec![format!("{role}:{run}").into()],
            host: "host".into(),
            sizes: Sizes { workers: self.workers, servers: 1, group: 1 },
            known,
            passed: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// A connection breaks and does not return in time; the others are heard meanwhile.
    fn lose(&mut self, connection: u64) {
        let lost = ConnectionId::new(connection);
        self.came.retain(|came| *came != lost);
        self.step(Input::Disconnected { connection: lost });
        self.pass(301);
    }

    /// Time passes, and who is connected is heard now and then.
    fn pass(&mut self, millis: u64) {
        let end = self.now.after(Duration::from_millis(millis));
        while self.now < end {
            for connection in self.came.clone() {
                let version = MembershipVersion::new(0);
                let message = ToScheduler::Heartbeat { version };
                self.step(Input::Received { connection, message });
            }
            self.now = self.now.after(Duration::from_millis(300)).min(end);
            self.step(Input::Tick);
        }
    }

    /// Who takes part, as it was said last.
    fn known(&self) -> Arc<Membership> {
        self.machine.membership().unwrap().clone()
    }

    /// What was said first to who is at a connection.
    #[track_caller]
    fn first_word(&self, connection: u64) -> &ToMember {
        let mut told = self.told.iter().filter(|told| !matches!(told.1, ToMember::Heard { .. }));
        let first = told.find(|(to, _)| *to == connection);
        &first.unwrap_or_else(|| panic!("{connection} is told nothing: {:?}", self.told)).1
    }

    #[track_caller]
    fn assert_given_up(&self, connection: u64) {
        let ToMember::Rejected(status) = self.first_word(connection) else {
            panic!("{:?}", self.first_word(connection));
        };
        assert_refused(status, Code::Aborted, &["was given up", "only a new run"]);
    }

    #[track_caller]
    fn assert_assigned(&self, connection: u64, wanted: u32) {
        let word = self.first_word(connection);
        let is_it = matches!(word, ToMember::Assigned { rank, .. } if rank.get() == wanted);
        assert!(is_it, "{word:?}");
    }
}

/// Found by the simulator: two processes had had its rank, one after the other, before it came back.
#[test]
fn a_run_that_was_given_up_does_not_come_back_after_another_one_is_lost_too() {
    let mut lone = Lone::new(1);
    lone.register(1, Role::Worker, 10, None);
    lone.register(2, Role::Server, 20, None);
    let known = lone.known();
    lone.lose(2);
    lone.register(3, Role::Server, 21, None);
    lone.lose(3);
    lone.register(4, Role::Server, 20, Some(known));
    lone.assert_given_up(4);
    lone.register(5, Role::Server, 22, None);
    lone.assert_assigned(5, 0);
}

/// Found by the simulator: the word that it takes part was lost with its connection, so it could not say
/// since when others know it.
#[test]
fn a_run_that_was_given_up_does_not_come_back_even_if_it_never_heard_that_it_takes_part() {
    let mut lone = Lone::new(1);
    lone.register(1, Role::Worker, 10, None);
    lone.register(2, Role::Server, 20, None);
    lone.lose(1);
    lone.register(3, Role::Worker, 11, None);
    lone.step(Input::Received { connection: ConnectionId::new(3), message: ToScheduler::Leave });
    lone.register(4, Role::Worker, 10, None);
    lone.assert_given_up(4);
    // Nor does the one that has left, should what it said first come once more.
    lone.register(5, Role::Worker, 12, None);
    lone.assert_assigned(5, 0);
    lone.lose(5);
    lone.register(6, Role::Worker, 11, None);
    lone.assert_given_up(6);
    lone.register(7, Role::Worker, 13, None);
    lone.assert_assigned(7, 0);
}

/// Found by the simulator: it had two ranks then, of one of which it was given up.
#[test]
fn a_run_that_was_given_up_does_not_come_back_with_another_rank() {
    let mut lone = Lone::new(2);
    lone.register(1, Role::Server, 20, None);
    lone.register_as(2, (Role::Worker, None), 10, None);
    lone.register_as(3, (Role::Worker, None), 11, None);
    lone.assert_assigned(2, 0);
    lone.assert_assigned(3, 1);
    lone.lose(3);
    lone.lose(2);
    lone.register_as(4, (Role::Worker, None), 11, None);
    lone.assert_given_up(4);
    // Not either when another run has that rank.
    lone.register_as(5, (Role::Worker, Some(1)), 12, None);
    lone.assert_assigned(5, 1);
    lone.register_as(6, (Role::Worker, None), 11, None);
    lone.assert_given_up(6);
    lone.register_as(7, (Role::Worker, None), 13, None);
    lone.assert_assigned(7, 0);
}

/// Found by the simulator: a scheduler was restarted and learned from who had not heard of the last
/// changes. Who takes part after these only comes too late, and knows others to be gone who are there.
#[test]
fn a_run_that_a_restarted_scheduler_did_not_learn_of_comes_too_late() {
    let mut lone = Lone::new(1);
    lone.register(1, Role::Worker, 10, None);
    lone.register(2, Role::Server, 20, None);
    let old = lone.known();
    lone.lose(1);
    lone.register(3, Role::Worker, 11, None);
    lone.lose(2);
    lone.register(4, Role::Server, 21, None);
    let new = lone.known();
    let mut restarted = Lone::new(1);
    restarted.register(1, Role::Worker, 10, Some(old));
    restarted.pass(1001);
    restarted.assert_assigned(1, 0);
    restarted.register(2, Role::Server, 21, Some(new));
    restarted.assert_given_up(2);
    restarted.register(3, Role::Server, 22, None);
    restarted.assert_assigned(3, 0);
}

#[test]
fn a_run_that_came_back_to_a_restarted_scheduler_is_gone_when_another_one_knows_better() {
    let mut lone = Lone::new(1);
    lone.register(1, Role::Worker, 10, None);
    lone.register(2, Role::Server, 20, None);
    let old = lone.known();
    lone.lose(2);
    lone.register(3, Role::Server, 21, None);
    let new = lone.known();
    let mut restarted = Lone::new(1);
    restarted.register(1, Role::Server, 20, Some(old));
    restarted.register(2, Role::Worker, 10, Some(new));
    restarted.assert_given_up(1);
    restarted.pass(1001);
    restarted.assert_assigned(2, 0);
}

/// Two workers and a server, before and after a change that only worker 0 has not heard of; and what a
/// scheduler that was restarted tells worker 0 when the server does not come back to it.
fn told_of_a_loss() -> (Arc<Membership>, Arc<Membership>) {
    let mut lone = Lone::new(2);
    lone.register(1, Role::Worker, 10, None);
    lone.register_as(2, (Role::Worker, Some(1)), 11, None);
    lone.register(3, Role::Server, 20, None);
    let old = lone.known();
    lone.lose(2);
    lone.register_as(4, (Role::Worker, Some(1)), 12, None);
    let new = lone.known();
    let mut restarted = Lone::new(2);
    restarted.register(1, Role::Worker, 10, Some(old.clone()));
    restarted.register_as(2, (Role::Worker, Some(1)), 11, Some(old));
    restarted.pass(1001);
    restarted.assert_assigned(1, 0);
    (restarted.known(), new)
}

/// Found by the simulator: the scheduler was restarted twice, and at first heard of so few that it gave the
/// others up. Those few have dropped what they had of them.
#[test]
fn a_run_that_was_told_that_others_are_gone_does_not_come_back_to_them() {
    let (told, new) = told_of_a_loss();
    let mut again = Lone::new(2);
    again.register(1, Role::Server, 20, Some(new.clone()));
    again.register(2, Role::Worker, 10, Some(told));
    again.assert_given_up(2);
    again.register_as(3, (Role::Worker, Some(1)), 12, Some(new));
    again.assert_assigned(1, 0);
    again.assert_assigned(3, 1);
    again.register(4, Role::Worker, 13, None);
    again.assert_assigned(4, 0);
}

#[test]
fn a_run_that_was_told_that_others_are_gone_is_given_up_when_they_come_back() {
    let (told, new) = told_of_a_loss();
    let mut again = Lone::new(2);
    again.register(1, Role::Worker, 10, Some(told));
    again.register(2, Role::Server, 20, Some(new.clone()));
    again.assert_given_up(1);
    again.register_as(3, (Role::Worker, Some(1)), 12, Some(new));
    again.assert_assigned(2, 0);
    again.assert_assigned(3, 1);
}

#[test]
fn others_are_told_where_a_run_is_that_comes_back_at_another_address() {
    let mut lone = Lone::new(1);
    lone.register(1, Role::Worker, 10, None);
    lone.register(2, Role::Server, 20, None);
    let known = Some(lone.known());
    let register = lone.registration((Role::Server, Some(0)), 20, known);
    lone.told.clear();
    lone.come(3, Register { addresses: vec!["elsewhere:1".into()], ..register });
    let ToMember::Membership(membership) = lone.first_word(1) else { panic!("{:?}", lone.told) };
    let server = membership.member(Role::Server, InstanceRank::new(0)).unwrap();
    assert_eq!(server.addresses, ["elsewhere:1".into()]);
}

/// What is remembered of runs that are gone is bounded.
#[test]
fn the_last_runs_of_a_rank_are_remembered() {
    let mut lone = Lone::new(1);
    lone.register(1, Role::Server, 20, None);
    for run in 0..40 {
        lone.register(100 + run, Role::Worker, 1000 + run, None);
        lone.assert_assigned(100 + run, 0);
        lone.lose(100 + run);
    }
    lone.register(2, Role::Worker, 1039, None);
    lone.assert_given_up(2);
    lone.register(3, Role::Worker, 1023, None);
    lone.assert_given_up(3);
    lone.register(4, Role::Worker, 1022, None);
    lone.assert_assigned(4, 0);
}

/// The same for a process whose connection has just broken: it may have come back meanwhile.
#[test]
fn nobody_whose_connection_is_broken_is_lost_because_the_scheduler_was_held_up() {
    let mut lone = Lone::new(1);
    lone.register(1, Role::Worker, 10, None);
    lone.register(2, Role::Server, 20, None);
    let known = lone.known();
    lone.step(Input::Disconnected { connection: ConnectionId::new(2) });
    lone.now = lone.now.after(Duration::from_millis(10_000));
    lone.step(Input::Tick);
    lone.register(3, Role::Server, 20, Some(known));
    lone.assert_assigned(3, 0);
}
