//! Each invariant against a scheduler in which only it was broken.

use alloc::vec;
use alloc::vec::Vec;

use super::check;
use crate::exchange::config::Config;
use crate::exchange::ids::{BarrierNumber, InstanceRank, MembershipVersion, TraceNumber};
use crate::exchange::membership::{Sizes, State};
use crate::exchange::message::{AskTraces, Barrier, Register, Scope, ToScheduler};
use crate::exchange::role::{Mask, Role};
use crate::exchange::scheduler::links::Standing;
use crate::exchange::scheduler::machine::Alarm;
use crate::exchange::scheduler::seat::{Contact, Peer, Seat};
use crate::exchange::scheduler::{Ask, Input, Phase, Scheduler, Settings};
use crate::ids::{CallId, ConnectionId, Incarnation};
use crate::time::{Duration, Time};

const NOW: Time = Time::from_millis(1_000_000);
const SIZES: Sizes = Sizes { workers: 2, servers: 1, group: 1 };
const SERVER: Peer = (Role::Server, InstanceRank::new(0));
const WAITING: Peer = (Role::Worker, InstanceRank::new(0));
const BROKEN: Peer = (Role::Worker, InstanceRank::new(1));
const KIND: (Mask, Scope) = (Mask::ALL, Scope::Instance);

fn register(peer: Peer, incarnation: u64) -> ToScheduler {
    let (role, rank) = peer;
    ToScheduler::Register(Register {
        role,
        rank: Some(rank),
        incarnation: Incarnation::new(incarnation),
        addresses: vec!["a".into()],
        host: "h".into(),
        sizes: SIZES,
        known: None,
        passed: Vec::new(),
        waiting: Vec::new(),
    })
}

/// Everybody has registered; one waits at a barrier, as does the scheduler's own process; the connection of
/// one is broken, and another run of it waits for its seat.
fn scheduler() -> Scheduler {
    let settings = Settings {
        config: Config::default(),
        sizes: Some(SIZES),
        takes_part: true,
        goes_on_without_lost: false,
    };
    let mut scheduler = Scheduler::start(settings).unwrap();
    let mut out = Vec::new();
    let mut step = |input| scheduler.step(NOW, input, &mut out);
    for (number, peer) in (1..).zip([SERVER, WAITING, BROKEN]) {
        let connection = ConnectionId::new(number);
        step(Input::Connected { connection });
        step(Input::Received { connection, message: register(peer, number) });
    }
    let (mask, scope) = KIND;
    let barrier = Barrier { number: BarrierNumber::new(1), mask, scope };
    let message = ToScheduler::Barrier(barrier);
    step(Input::Received { connection: ConnectionId::new(2), message });
    let timeout = Some(Duration::from_secs(60));
    let ask = Ask::Barrier { mask, scope, timeout };
    step(Input::Asked { call: CallId::new(1), ask });
    step(Input::Disconnected { connection: ConnectionId::new(3) });
    let connection = ConnectionId::new(4);
    step(Input::Connected { connection });
    step(Input::Received { connection, message: register(BROKEN, 4) });
    let connection = ConnectionId::new(5);
    step(Input::Connected { connection });
    step(Input::Received { connection, message: ToScheduler::Observe });
    let (role, rank) = WAITING;
    let ask = AskTraces { number: TraceNumber::new(1), role, rank, after: 0 };
    step(Input::Received { connection, message: ToScheduler::AskTraces(ask) });
    assert_eq!(check(&scheduler), Ok(()));
    scheduler
}

fn seat(scheduler: &mut Scheduler, peer: Peer) -> &mut Seat {
    scheduler.seats.get_mut(&peer).unwrap()
}

#[track_caller]
fn assert_violates(number: &str, plant: impl FnOnce(&mut Scheduler)) {
    let mut scheduler = scheduler();
    plant(&mut scheduler);
    let violation = check(&scheduler).unwrap_err();
    assert_eq!(violation.number, number, "{violation}");
}

#[test]
fn m1_sees_connections_of_two_of_nobody_and_of_others() {
    assert_violates("M1", |it| {
        let connection = ConnectionId::new(1);
        seat(it, WAITING).contact = Contact::Connected(connection);
    });
    assert_violates("M1", |it| {
        it.drop_link(ConnectionId::new(1));
    });
    assert_violates("M1", |it| {
        it.drop_link(ConnectionId::new(4));
    });
    assert_violates("M1", |it| it.seat_link(ConnectionId::new(4), Standing::Seated(BROKEN)));
    assert_violates("M1", |it| {
        it.parked.clear();
    });
}

#[test]
fn m2_sees_alarms_that_are_missing_late_or_of_nobody() {
    assert_violates("M2", |it| {
        it.alarms.pop_first();
    });
    assert_violates("M2", |it| {
        it.alarms.insert((NOW, Alarm::Bootstrap));
    });
    assert_violates("M2", |it| {
        it.links.values_mut().for_each(|link| link.heard = Time::ZERO);
    });
    assert_violates("M2", |it| it.broken = 0);
    assert_violates("M2", |it| {
        it.go_away_itself(CallId::new(1));
        it.alarms.insert((NOW, Alarm::Call(CallId::new(1))));
    });
}

#[test]
fn m3_sees_seats_out_of_range_missing_and_unlike_their_contact() {
    assert_violates("M3", |it| {
        it.sizes = None;
    });
    assert_violates("M3", |it| {
        it.sizes = Some(Sizes { servers: 2, ..SIZES });
    });
    assert_violates("M3", |it| {
        let copy = seat(it, BROKEN).clone();
        it.seats
            .insert((Role::Worker, InstanceRank::new(2)), Seat { contact: Contact::Over, ..copy });
    });
    assert_violates("M3", |it| seat(it, BROKEN).state = State::Lost);
}

#[test]
fn m4_sees_who_waits_without_having_asked_and_who_asked_without_waiting() {
    assert_violates("M4", |it| {
        it.meetings.kinds.get_mut(&KIND).unwrap().waiting.insert(SERVER);
    });
    assert_violates("M4", |it| it.meetings.leave(WAITING));
    assert_violates("M4", |it| {
        seat(it, WAITING).asked.values_mut().for_each(|asked| asked.result = Some(Ok(1)));
    });
}

#[test]
fn m5_sees_barriers_that_are_over() {
    assert_violates("M5", |it| {
        for peer in [SERVER, BROKEN] {
            let asked = seat(it, WAITING).asked.clone();
            seat(it, peer).asked = asked;
            it.meetings.kinds.get_mut(&KIND).unwrap().waiting.insert(peer);
        }
    });
    assert_violates("M5", |it| {
        it.set_contact(BROKEN, Contact::Over);
        seat(it, BROKEN).state = State::Lost;
    });
}

#[test]
fn m6_sees_what_is_not_told() {
    assert_violates("M6", |it| it.is_changed = true);
    assert_violates("M6", |it| it.version = MembershipVersion::new(9));
    assert_violates("M6", |it| seat(it, SERVER).host = "elsewhere".into());
    assert_violates("M6", |it| seat(it, SERVER).is_assigned = false);
    assert_violates("M6", |it| it.telling.membership = None);
}

#[test]
fn m7_sees_who_waits_for_a_seat_in_vain() {
    assert_violates("M7", |it| {
        let parked = it.parked.remove(&BROKEN).unwrap();
        it.seat_link(parked.connection, Standing::Parked(SERVER));
        it.parked.insert(SERVER, parked);
    });
}

#[test]
fn m8_sees_what_is_over_and_goes_on() {
    assert_violates("M8", |it| it.over = it.version);
    assert_violates("M8", |it| it.settings.config.processes_max = 1);
    assert_violates("M8", |it| it.settings.config.observers_max = 0);
    assert_violates("M8", |it| {
        let waiting = it.observers.all.values_mut().flatten();
        waiting.for_each(|asked| asked.member = ConnectionId::new(4));
    });
}

/// The tests above plant in what is there: it is.
#[test]
fn all_that_may_be_is_there() {
    let scheduler = scheduler();
    assert_eq!((scheduler.phase, scheduler.broken), (Phase::Running, 1));
    assert_eq!(scheduler.parked.len(), 1);
    assert_eq!(scheduler.observers.all.values().flatten().count(), 1);
    let meeting = &scheduler.meetings.kinds[&KIND];
    assert_eq!((meeting.waiting.len(), meeting.own.len()), (1, 1));
}
