//! Each invariant against a process in which only it was broken.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::check;
use crate::exchange::config::Config;
use crate::exchange::ids::{BarrierNumber, InstanceRank, MembershipVersion, NodeId};
use crate::exchange::member::connecting::Way;
use crate::exchange::member::{Ask, Identity, Input, Member, Settings, Standing};
use crate::exchange::membership::{self, Membership, Sizes, State};
use crate::exchange::message::{Scope, ToMember};
use crate::exchange::role::{Mask, Role};
use crate::ids::{CallId, ConnectionId, Incarnation};
use crate::time::{Duration, Time};

const NOW: Time = Time::from_millis(1_000_000);
const SIZES: Sizes = Sizes { workers: 1, servers: 1, group: 1 };
const KIND: (Mask, Scope) = (Mask::ALL, Scope::Instance);
const RANK: InstanceRank = InstanceRank::new(0);

fn known(incarnation: u64) -> Arc<Membership> {
    let member = |role, incarnation| membership::Member {
        role,
        rank: RANK,
        incarnation: Incarnation::new(incarnation),
        addresses: vec!["a".into()],
        host: "h".into(),
        state: State::Up,
    };
    let members = vec![member(Role::Server, 1), member(Role::Worker, incarnation)];
    Arc::new(Membership { version: MembershipVersion::new(1), sizes: SIZES, members })
}

/// It takes part; two calls wait at barriers of one kind, and one for a change of who takes part.
fn member() -> Member {
    let identity = Identity {
        role: Role::Worker,
        rank: Some(RANK),
        incarnation: Incarnation::new(7),
        addresses: Vec::new(),
        host: "h".into(),
        sizes: SIZES,
    };
    let config = Config::default();
    let settings = Settings { identity, config, scheduler_patience: None };
    let mut member = Member::start(settings).unwrap();
    let mut out = Vec::new();
    let timeout = Some(Duration::from_secs(60));
    let (mask, scope) = KIND;
    let barrier = Ask::Barrier { mask, scope, timeout };
    let connection = ConnectionId::new(1);
    let message = ToMember::Assigned {
        node: NodeId::new(9),
        rank: RANK,
        membership: known(7),
        passed: Vec::new(),
    };
    let after = MembershipVersion::new(1);
    for input in [
        Input::Asked { call: CallId::new(1), ask: Ask::Join { timeout } },
        Input::Connected { connection },
        Input::Received { connection, message },
        Input::Asked { call: CallId::new(2), ask: barrier },
        Input::Asked { call: CallId::new(3), ask: barrier },
        Input::Asked { call: CallId::new(4), ask: Ask::Changed { after, timeout: None } },
    ] {
        member.step(NOW, input, &mut out);
        assert_eq!(check(&member), Ok(()));
    }
    member
}

#[track_caller]
fn assert_violates(number: &str, plant: impl FnOnce(&mut Member)) {
    let mut member = member();
    plant(&mut member);
    let violation = check(&member).unwrap_err();
    assert_eq!(violation.number, number, "{violation}");
}

#[test]
fn m20_sees_calls_without_alarms_and_what_cannot_come() {
    assert_violates("M20", |it| it.calls.dues.clear());
    assert_violates("M20", |it| {
        it.calls.dues.insert((NOW, CallId::new(9)));
    });
    assert_violates("M20", |it| it.standing = Standing::Leaving);
}

#[test]
fn m21_sees_calls_in_no_line_in_two_and_with_strange_numbers() {
    assert_violates("M21", |it| it.lines.clear());
    assert_violates("M21", |it| {
        it.lines.get_mut(&KIND).unwrap().calls.push_back(CallId::new(2));
    });
    assert_violates("M21", |it| {
        it.calls.end(CallId::new(3));
    });
    assert_violates("M21", |it| it.last_number = BarrierNumber::new(0));
}

#[test]
fn m22_sees_what_the_scheduler_is_not_told() {
    assert_violates("M22", |it| {
        it.calls.end(CallId::new(2));
        it.lines.get_mut(&KIND).unwrap().told.as_mut().unwrap().call = None;
        it.way = Way::Closed { retry: Some(NOW) };
    });
    assert_violates("M22", |it| {
        it.calls.end(CallId::new(2));
        it.lines.get_mut(&KIND).unwrap().told = None;
    });
}

#[test]
fn m23_sees_who_has_no_way_and_who_needs_none() {
    assert_violates("M23", |it| it.way = Way::Closed { retry: None });
    assert_violates("M23", |it| {
        for call in 2..5 {
            it.calls.end(CallId::new(call));
        }
        it.lines.clear();
        it.standing = Standing::Left;
    });
}

#[test]
fn m24_sees_who_is_not_in_what_it_knows() {
    assert_violates("M24", |it| it.membership = Some(known(8)));
    assert_violates("M24", |it| it.membership = None);
    assert_violates("M24", |it| it.assigned = None);
}

#[test]
fn m25_sees_a_scheduler_that_is_away_and_not_noted() {
    assert_violates("M25", |it| it.away = Some(NOW));
    assert_violates("M25", |it| it.way = Way::Closed { retry: Some(NOW) });
}
