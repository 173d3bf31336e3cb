//! Each invariant against a service in which only it was broken.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::coordination::live::{Alarm, Seat};
use crate::coordination::request::{Call, Caller, Condition, Method, Request};
use crate::coordination::state::{Namespace, Outcome};
use crate::coordination::types::{BarrierKey, Fault, Phase, TaskName, Value};
use crate::coordination::{Config, Coordination, Kept, NamespaceConfig, Participants, Turn};
use crate::ids::{CallId, Digest, Incarnation, Lsn, NamespaceId, RelayId, Revision, TaskIndex};
use crate::invariant;
use crate::log::Log;
use crate::status::Code;
use crate::time::Time;

const ID: NamespaceId = NamespaceId::new(1);
const T0: TaskIndex = TaskIndex::new(0);
const T1: TaskIndex = TaskIndex::new(1);
const NOW: Time = Time::from_millis(1_000_000);
/// The call that waits at the barrier, and the one that asks who is alive.
const AT_BARRIER: CallId = CallId::new(6);
const ASKS: CallId = CallId::new(7);
const GETS: CallId = CallId::new(8);

fn open() -> BarrierKey {
    BarrierKey::Named("open".into())
}

fn register(index: i32) -> Method {
    let incarnation = Incarnation::new(100);
    Method::RegisterTask { task: TaskName::of(index), incarnation, recoverable: false, tasks: None }
}

fn put(key: &str, value: Value, lease: Option<TaskIndex>) -> Method {
    Method::PutKeyValue { key: key.into(), value, condition: Condition::Always, lease }
}

fn come(id: &str, tasks: Vec<TaskName>) -> Method {
    let source = TaskName::of(0);
    Method::Barrier { id: id.into(), counter: 0, timeout_ms: 5_000, tasks, source }
}

/// Both tasks of a job registered. One of them has leased a key, waits at a barrier and for a key,
/// asks who is alive and polls for errors. A value is in a blob, and one barrier has ended.
fn service() -> Coordination {
    let settings = NamespaceConfig { tasks: Some(2), ..NamespaceConfig::named("default") };
    let config = Config { namespaces: [settings].into() };
    let mut service = Coordination::start(config, super::State::default(), NOW);
    let both = || vec![TaskName::of(0), TaskName::of(1)];
    let blob = Value::Blob { digest: Digest::new([7; 32]), size_bytes: 70_000 };
    let methods = [
        register(0),
        register(1),
        put("leased", "v".into(), Some(T0)),
        put("blob", blob, None),
        come("ended", vec![TaskName::of(0)]),
        come("open", Vec::new()),
        Method::GetAliveTasks { requester: TaskName::of(0), tasks: both() },
        Method::GetKeyValue { key: "missing".into() },
        Method::PollForError { task: TaskName::of(0) },
    ];
    let mut log = Log::starting_at(Lsn::new(1));
    for (call, method) in (1..).map(CallId::new).zip(methods) {
        let mut out = Vec::new();
        let mut turn = Turn { now: NOW, log: &mut log, out: &mut out };
        let (namespace, caller) = ("default".into(), Caller::default());
        let request = Request::Call(Box::new(Call { namespace, caller, method }));
        service.request(&mut turn, call, request, 5);
    }
    assert_eq!(invariant::check_coordination(&service), Ok(()));
    service
}

fn namespace(service: &mut Coordination) -> &mut Namespace {
    service.state.namespaces.get_mut(&ID).unwrap()
}

#[track_caller]
fn assert_violates(number: &str, plant: impl FnOnce(&mut Coordination)) {
    let mut service = service();
    plant(&mut service);
    let violation = invariant::check_coordination(&service).unwrap_err();
    assert_eq!(violation.number, number, "{violation}");
}

#[test]
fn c1_sees_a_name_that_leads_elsewhere() {
    assert_violates("C1", |service| {
        service.state.by_name.insert("default".into(), NamespaceId::new(2));
    });
    assert_violates("C1", |service| {
        service.state.by_name.insert("other".into(), ID);
    });
}

#[test]
fn c2_sees_a_task_outside_the_job_and_an_error_of_none() {
    assert_violates("C2", |service| namespace(service).head.size = Some(1));
    assert_violates("C2", |service| {
        let fault = Arc::new(Fault::new(Code::Internal, "planted"));
        namespace(service).tasks.get_mut(&T1).unwrap().fault = Some(fault);
    });
}

#[test]
fn c3_sees_a_task_that_takes_part_too_early_or_waits_too_long() {
    assert_violates("C3", |service| {
        let register = namespace(service).barriers.get_mut(&BarrierKey::Register).unwrap();
        register.outcome = Some(Outcome::Failed(Arc::new(Fault::new(Code::Aborted, "planted"))));
    });
    assert_violates("C3", |service| {
        namespace(service).tasks.get_mut(&T1).unwrap().phase = Phase::Registering;
    });
}

#[test]
fn c4_sees_a_wrong_count_and_a_wrong_incarnation() {
    assert_violates("C4", |service| namespace(service).index.present = 1);
    assert_violates("C4", |service| {
        namespace(service).index.by_incarnation.insert((Incarnation::new(9), T1));
    });
}

#[test]
fn c5_sees_an_open_barrier_left_out_and_arrivals_at_one_that_ended() {
    assert_violates("C5", |service| namespace(service).index.open.clear());
    assert_violates("C5", |service| {
        let barriers = &mut namespace(service).barriers;
        let arrived = barriers.get(&open()).unwrap().arrived.clone();
        barriers.get_mut(&BarrierKey::Named("ended".into())).unwrap().arrived = arrived;
    });
}

#[test]
fn c12_sees_lists_that_are_counted_wrongly() {
    assert_violates("C12", |service| namespace(service).index.listed = 7);
    assert_violates("C12", |service| {
        namespace(service).index.ended_with_list.insert((Lsn::NONE, open()));
    });
}

#[test]
fn c6_sees_a_stranger_and_a_complete_barrier() {
    let with = |tasks: &[TaskIndex]| Some(Participants::Some(tasks.into()));
    assert_violates("C6", |service| {
        namespace(service).barriers.get_mut(&open()).unwrap().participants = with(&[T1]);
    });
    assert_violates("C6", |service| {
        namespace(service).barriers.get_mut(&open()).unwrap().participants = with(&[T0]);
    });
}

#[test]
fn c7_sees_wrong_sizes_leases_and_keys() {
    assert_violates("C7", |service| namespace(service).store.size_bytes = 3);
    assert_violates("C7", |service| namespace(service).store.leased.clear());
    assert_violates("C7", |service| {
        let entries = &mut namespace(service).store.entries;
        let slot = entries.remove("blob").unwrap();
        entries.insert("a//b".into(), slot);
    });
}

#[test]
fn c8_sees_a_change_that_is_missing() {
    assert_violates("C8", |service| drop(namespace(service).store.changes.pop_front()));
    assert_violates("C8", |service| namespace(service).head.revision = Revision::new(99));
}

#[test]
fn c9_sees_a_key_that_outlives_its_task() {
    assert_violates("C9", |service| {
        let namespace = namespace(service);
        namespace.tasks.get_mut(&T0).unwrap().phase = Phase::Disconnected;
        namespace.index.present = 1;
    });
}

#[test]
fn c10_sees_a_blob_that_is_not_counted() {
    assert_violates("C10", |service| namespace(service).store.blobs.clear());
}

#[test]
fn c11_sees_a_result_that_its_relay_has() {
    assert_violates("C11", |service| {
        let relay = namespace(service).relays.entry(RelayId::new(1)).or_default();
        relay.acknowledged = 5;
        relay.results.insert(
            5,
            Kept::Incremented { value: Bytes::from_static(b"1"), revision: Revision::new(1) },
        );
    });
}

#[test]
fn c20_sees_calls_without_places_and_places_without_calls() {
    assert_violates("C20", |service| {
        service.lives.get_mut(&ID).unwrap().gets.clear();
    });
    assert_violates("C20", |service| drop(service.calls.remove(&GETS)));
    assert_violates("C20", |service| {
        service.calls.insert(CallId::new(99), (ID, Seat::TaskWatch));
    });
}

#[test]
fn c21_sees_an_alarm_of_nobody_and_relays_that_nobody_looks_for() {
    assert_violates("C21", |service| {
        service.alarms.insert((NOW, ID, Alarm::Settle));
    });
    assert_violates("C21", |service| service.alarms.clear());
    assert_violates("C21", |service| {
        namespace(service).relays.entry(RelayId::new(1)).or_default();
    });
}

#[test]
fn c22_sees_a_task_that_nobody_watches() {
    assert_violates("C22", |service| service.set_alarm(ID, Alarm::Silence(T1), None));
}

#[test]
fn c23_sees_a_barrier_that_never_ends_and_an_alarm_of_one_that_has() {
    assert_violates("C23", |service| service.set_alarm(ID, Alarm::Barrier(open()), None));
    assert_violates("C23", |service| {
        let ended = BarrierKey::Named("ended".into());
        service.set_alarm(ID, Alarm::Barrier(ended), Some(NOW));
    });
}

#[test]
fn c24_sees_who_waits_for_what_is_there() {
    assert_violates("C24", |service| {
        let fault = Fault::new(Code::Internal, "planted");
        namespace(service).head.sticky = Some(Arc::new(fault));
    });
    assert_violates("C24", |service| namespace(service).head.version += 1);
    assert_violates("C24", |service| {
        let live = service.lives.get_mut(&ID).unwrap();
        let calls = live.gets.remove("missing").unwrap();
        live.gets.insert("blob".into(), calls);
        service.calls.insert(GETS, (ID, Seat::Key("blob".into())));
    });
}

#[test]
fn c25_sees_who_waits_without_having_come() {
    assert_violates("C25", |service| {
        let calls = service.lives.get_mut(&ID).unwrap().waiting.get_mut(&open()).unwrap();
        assert_eq!(calls.remove(&T0), Some(AT_BARRIER));
        calls.insert(T1, AT_BARRIER);
        service.calls.insert(AT_BARRIER, (ID, Seat::Barrier(open(), T1)));
    });
}

#[test]
fn c26_sees_a_group_that_waits_for_nobody() {
    assert_violates("C26", |service| {
        let groups = &mut service.lives.get_mut(&ID).unwrap().groups;
        let (_, group) = groups.pop_first().unwrap();
        let alone: Arc<[TaskIndex]> = [T0].into();
        groups.insert(alone.clone(), group);
        service.calls.insert(ASKS, (ID, Seat::Alive(alone)));
    });
}
