//! Any record and any part of the coordination service's.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use rondo_core::control;
use rondo_core::coordination::{
    AliveAnswer, Arrival, Barrier, BarrierKey, Change, ChangeKind, Dialect, Entry, Fault, Head,
    Kept, Opening, Outcome, Part, Participants, Phase, Record, Relay, Stamp, Task, Value,
};
use rondo_core::ids::{
    Incarnation, Lsn, NamespaceId, RelayId, Revision, ServiceIncarnation, TaskIndex,
};
use rondo_core::time::{Duration, Time};
use rondo_proto::frame::{decode_records, encode_records};

use super::values::{bytes, code, digest, lsn, shared, time};

fn namespace() -> impl Strategy<Value = NamespaceId> {
    any::<u32>().prop_map(NamespaceId::new)
}

fn task() -> impl Strategy<Value = TaskIndex> {
    any::<i32>().prop_map(TaskIndex::new)
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    any::<u64>().prop_map(Incarnation::new)
}

fn revision() -> impl Strategy<Value = Revision> {
    any::<u64>().prop_map(Revision::new)
}

fn relay() -> impl Strategy<Value = RelayId> {
    any::<u64>().prop_map(RelayId::new)
}

fn dialect() -> impl Strategy<Value = Dialect> {
    prop::sample::select(vec![Dialect::T, Dialect::X, Dialect::Rondo])
}

fn fault() -> impl Strategy<Value = Fault> {
    (code(), shared(), any::<bool>(), option::of(task()))
        .prop_map(|(code, message, reported, source)| Fault { code, message, reported, source })
}

fn key() -> impl Strategy<Value = BarrierKey> {
    prop_oneof![
        Just(BarrierKey::Register),
        Just(BarrierKey::Shutdown),
        Just(BarrierKey::Devices),
        shared().prop_map(BarrierKey::Named),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        bytes().prop_map(Value::Inline),
        (digest(), any::<u64>())
            .prop_map(|(digest, size_bytes)| Value::Blob { digest, size_bytes }),
    ]
}

fn stamp() -> impl Strategy<Value = Stamp> {
    (relay(), any::<u64>(), any::<u64>()).prop_map(|(relay, sequence, acknowledged)| Stamp {
        relay,
        sequence,
        acknowledged,
    })
}

fn participants() -> impl Strategy<Value = Participants> {
    prop_oneof![
        Just(Participants::All),
        vec(task(), 0..4).prop_map(|tasks| Participants::Some(tasks.into())),
    ]
}

fn span() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

fn opening() -> impl Strategy<Value = Opening> {
    (participants(), span()).prop_map(|(participants, timeout)| Opening { participants, timeout })
}

fn kept() -> impl Strategy<Value = Kept> {
    prop_oneof![
        revision().prop_map(Kept::Put),
        revision().prop_map(Kept::Deleted),
        (bytes(), revision()).prop_map(|(value, revision)| Kept::Incremented { value, revision }),
        (any::<i64>(), option::of(fault()))
            .prop_map(|(counter, fault)| Kept::Barrier { counter, fault }),
        Just(Kept::Done),
    ]
}

fn alive_answer() -> impl Strategy<Value = AliveAnswer> {
    (vec((task(), incarnation()), 0..4), vec(stamp(), 0..3))
        .prop_map(|(tasks, stamps)| AliveAnswer { tasks: tasks.into(), stamps })
}

fn of_lives() -> impl Strategy<Value = Record> {
    let begin = (namespace(), shared(), any::<u64>(), option::of(any::<u32>()), time());
    prop_oneof![
        begin.prop_map(|(namespace, name, life, tasks, at)| Record::BeginLife {
            namespace,
            name,
            incarnation: ServiceIncarnation::new(life),
            tasks,
            at,
        }),
        (namespace(), any::<u32>())
            .prop_map(|(namespace, tasks)| Record::LearnSize { namespace, tasks }),
        namespace().prop_map(|namespace| Record::NotePolling { namespace }),
        (namespace(), fault())
            .prop_map(|(namespace, fault)| Record::StickError { namespace, fault }),
        (namespace(), fault(), time()).prop_map(|(namespace, fault, at)| Record::FailAllTasks {
            namespace,
            fault,
            at
        }),
        (namespace(), relay(), any::<u64>(), any::<u64>(), kept()).prop_map(
            |(namespace, relay, sequence, acknowledged, kept)| Record::KeepResult {
                namespace,
                relay,
                sequence,
                acknowledged,
                kept,
            }
        ),
        (namespace(), vec(relay(), 0..4))
            .prop_map(|(namespace, relays)| Record::ForgetRelays { namespace, relays }),
        (namespace(), alive_answer())
            .prop_map(|(namespace, answer)| Record::AnswerAlive { namespace, answer }),
    ]
}

fn of_tasks() -> impl Strategy<Value = Record> {
    let taken_in = (namespace(), task(), incarnation(), any::<bool>(), dialect(), time());
    prop_oneof![
        (taken_in, any::<bool>()).prop_map(
            |((namespace, task, incarnation, recoverable, dialect, at), waits)| match waits {
                true =>
                    Record::RegisterTask { namespace, task, incarnation, recoverable, dialect, at },
                false => {
                    Record::ConnectTask { namespace, task, incarnation, recoverable, dialect, at }
                }
            }
        ),
        (namespace(), task(), time()).prop_map(|(namespace, task, at)| Record::DisconnectTask {
            namespace,
            task,
            at
        }),
        (namespace(), task(), fault(), time()).prop_map(|(namespace, task, fault, at)| {
            Record::FailTask { namespace, task, fault, at }
        }),
        (namespace(), task(), bytes()).prop_map(|(namespace, task, devices)| {
            Record::OfferDevices { namespace, task, devices }
        }),
    ]
}

fn of_barriers_and_keys() -> impl Strategy<Value = Record> {
    let arrival = (namespace(), key(), any::<i64>(), task());
    let how = (option::of(stamp()), option::of(opening()), time());
    prop_oneof![
        (arrival, how).prop_map(|((namespace, barrier, counter, task), (stamp, opening, at))| {
            Record::ArriveAtBarrier { namespace, barrier, counter, task, stamp, opening, at }
        }),
        (namespace(), key(), task()).prop_map(|(namespace, barrier, task)| Record::LeaveBarrier {
            namespace,
            barrier,
            task
        }),
        (namespace(), key(), any::<i64>(), option::of(fault()), time()).prop_map(
            |(namespace, barrier, counter, fault, at)| Record::EndBarrier {
                namespace,
                barrier,
                counter,
                fault,
                at,
            }
        ),
        (namespace(), shared(), value(), option::of(task())).prop_map(
            |(namespace, key, value, lease)| Record::PutKey { namespace, key, value, lease }
        ),
        (namespace(), shared()).prop_map(|(namespace, key)| Record::DeleteKey { namespace, key }),
        (namespace(), task()).prop_map(|(namespace, task)| Record::EndLeases { namespace, task }),
    ]
}

pub(super) fn record() -> impl Strategy<Value = control::Record> {
    prop_oneof![of_lives(), of_tasks(), of_barriers_and_keys()]
        .prop_map(control::Record::Coordination)
}

fn head() -> impl Strategy<Value = Head> {
    let name =
        (namespace(), shared(), any::<u64>(), any::<u64>(), time(), option::of(any::<u32>()));
    let state = (any::<i64>(), any::<bool>(), option::of(fault().prop_map(Arc::new)));
    let keys = (revision(), revision(), lsn(), lsn());
    let former = btree_map(task(), incarnation(), 0..3);
    (name, state, keys, former).prop_map(
        |((id, name, life, incarnation, begun, size), (version, polled, sticky), keys, former)| {
            let (revision, forgotten, changed, keys_changed) = keys;
            let incarnation = ServiceIncarnation::new(incarnation);
            Head {
                id,
                name,
                life,
                incarnation,
                begun,
                size,
                version,
                polled,
                sticky,
                revision,
                forgotten,
                former,
                changed,
                keys_changed,
            }
        },
    )
}

fn task_value() -> impl Strategy<Value = Task> {
    use Phase::{Connected, Disconnected, Error, Registering};
    let phase = prop::sample::select(vec![Registering, Connected, Disconnected, Error]);
    let rest = (option::of(fault().prop_map(Arc::new)), time(), option::of(bytes()), lsn());
    (task(), incarnation(), any::<bool>(), dialect(), phase, rest).prop_map(
        |(index, incarnation, recoverable, dialect, phase, (fault, since, devices, changed))| {
            Task { index, incarnation, recoverable, dialect, phase, fault, since, devices, changed }
        },
    )
}

fn barrier() -> impl Strategy<Value = Barrier> {
    let arrival = (time(), option::of(stamp())).prop_map(|(at, stamp)| Arrival { at, stamp });
    let outcome = prop_oneof![
        Just(Outcome::Passed),
        fault().prop_map(|fault| Outcome::Failed(Arc::new(fault))),
    ];
    let who = (option::of(participants()), option::of(task()), btree_map(task(), arrival, 0..3));
    let rest = (time(), span(), option::of(outcome), lsn());
    (key(), any::<i64>(), who, rest).prop_map(
        |(
            key,
            counter,
            (participants, initiator, arrived),
            (opened, timeout, outcome, changed),
        )| {
            Barrier {
                key,
                counter,
                participants,
                opened,
                timeout,
                initiator,
                arrived,
                outcome,
                changed,
            }
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let kind = prop_oneof![
        value().prop_map(ChangeKind::Put),
        Just(ChangeKind::Deleted),
        Just(ChangeKind::DeletedWithAllUnder),
    ];
    (shared(), kind, revision()).prop_map(|(key, kind, revision)| Change { key, kind, revision })
}

pub(super) fn part() -> impl Strategy<Value = control::Part> {
    let entry = (shared(), value(), revision(), option::of(task()), lsn()).prop_map(
        |(key, value, revision, lease, changed)| Entry { key, value, revision, lease, changed },
    );
    let results = (any::<u64>(), btree_map(any::<u64>(), kept(), 0..3)).prop_map(
        |(acknowledged, results)| Relay { acknowledged, results, alive: BTreeMap::new() },
    );
    prop_oneof![
        head().prop_map(Part::Namespace),
        (namespace(), task_value()).prop_map(|(id, task)| Part::Task(id, task)),
        (namespace(), barrier()).prop_map(|(id, barrier)| Part::Barrier(id, barrier)),
        (namespace(), entry).prop_map(|(id, entry)| Part::Key(id, entry)),
        (namespace(), change()).prop_map(|(id, change)| Part::Change(id, change)),
        (namespace(), relay(), results).prop_map(|(id, relay, of)| Part::Relay(id, relay, of)),
        (namespace(), alive_answer()).prop_map(|(id, answer)| Part::Alive(id, answer)),
    ]
    .prop_map(control::Part::Coordination)
}

/// Written once and for ever: these bytes may be in somebody's journal. From the field numbers in
/// coordination.proto, by hand.
#[test]
fn released_bytes_stay_readable() {
    let put = Record::PutKey {
        namespace: NamespaceId::new(1),
        key: "a/b".into(),
        value: Value::Inline(Bytes::from_static(b"v")),
        lease: Some(TaskIndex::new(0)),
    };
    let released = [
        0x0a, 0x12, 0x12, 0x10, 0x72, 0x0e, 0x08, 0x01, 0x12, 0x03, b'a', b'/', b'b', 0x1a, 0x03,
        0x0a, 0x01, b'v', 0x20, 0x00,
    ];
    let one = [control::Record::Coordination(put)];
    assert_eq!(decode_records(&released), Ok(one.to_vec()));
    assert_eq!(encode_records(&one), released);

    let end = Record::EndBarrier {
        namespace: NamespaceId::new(2),
        barrier: BarrierKey::Shutdown,
        counter: 0,
        fault: None,
        at: Time::from_nanos(258),
    };
    let released = [
        0x0a, 0x13, 0x12, 0x11, 0x6a, 0x0f, 0x08, 0x02, 0x12, 0x02, 0x08, 0x01, 0x29, 0x02, 0x01,
        0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(decode_records(&released), Ok(vec![control::Record::Coordination(end)]));
    assert_eq!(Lsn::NONE, Lsn::new(0));
}

#[test]
fn an_unknown_barrier_is_named() {
    // Ends barrier 9 of the service's own.
    let unknown = [0x0a, 0x08, 0x12, 0x06, 0x6a, 0x04, 0x12, 0x02, 0x08, 0x09];
    let error = decode_records(&unknown).unwrap_err();
    assert_eq!(error.to_string(), "BarrierKey.own is 9; no release writes that number");
}
