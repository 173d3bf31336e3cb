//! Answers: the core's replies in, fields in the numbers of the tables out.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::coordination::{
    Change, ChangeKind, Fault, KeyEntry, Reply, TaskInfo, TaskState, Value as KeyValue,
};
use rondo_core::ids::{Digest, Incarnation, Revision, ServiceIncarnation, TaskIndex};
use rondo_core::status::Code;
use rondo_proto::convert::{CoordinationMethod, encode_coordination};

use crate::hand::Value::{self, Fixed, Int};
use crate::hand::{fields, sub, text};

fn answer(service: &str, method: &str, echo: &str, reply: Reply) -> Option<Vec<(u64, Value)>> {
    let path = format!("/{service}/{method}");
    let method = CoordinationMethod::from_path(&path).unwrap_or_else(|| panic!("{path}"));
    let encoded = encode_coordination(method, (echo.into(), "jax_worker"), reply);
    encoded.map(|bytes| fields(&bytes))
}

fn in_t(method: &str, reply: Reply) -> Vec<(u64, Value)> {
    answer("tensorflow.CoordinationService", method, "/k", reply).unwrap()
}

fn in_x(method: &str, reply: Reply) -> Vec<(u64, Value)> {
    answer("xla.coordination.CoordinationService", method, "/k", reply).unwrap()
}

fn in_rondo(method: &str, reply: Reply) -> Vec<(u64, Value)> {
    answer("rondo.v1.Coordination", method, "", reply).unwrap()
}

const LIFE: ServiceIncarnation = ServiceIncarnation::new(0x0102_0304_0506_0708);

fn tasks() -> Arc<[TaskInfo]> {
    let info = |index, state, fault| TaskInfo {
        index: TaskIndex::new(index),
        state,
        fault,
        incarnation: Incarnation::new(40 + u64::from(index.cast_unsigned())),
    };
    let fault = Fault { reported: true, ..Fault::new(Code::Aborted, "boom") };
    [
        info(0, TaskState::Connected, None),
        info(1, TaskState::Error, Some(Arc::new(fault))),
        info(2, TaskState::Disconnected, None),
    ]
    .into()
}

fn task(index: i64) -> Value {
    match index {
        0 => sub(&[(1, text("jax_worker"))]),
        _ => sub(&[(1, text("jax_worker")), (2, Int(index))]),
    }
}

#[test]
fn incarnations_are_fixed64() {
    for (method, reply) in
        [("RegisterTask", Reply::Registered(LIFE)), ("Heartbeat", Reply::Heartbeat(LIFE))]
    {
        assert_eq!(in_t(method, reply.clone()), [(1, Fixed(LIFE.get()))]);
        assert_eq!(in_x(method, reply), [(1, Fixed(LIFE.get()))]);
    }
}

#[test]
fn states_of_dialect_t() {
    let expected = [
        (1, sub(&[(1, task(0)), (2, Int(3)), (6, Fixed(40))])),
        (
            1,
            sub(&[
                (1, task(1)),
                (2, Int(4)),
                (3, Int(10)),
                (4, text("boom")),
                (5, sub(&[(3, Int(1)), (4, task(1))])),
                (6, Fixed(41)),
            ]),
        ),
        (1, sub(&[(1, task(2)), (2, Int(2)), (6, Fixed(42))])),
    ];
    let states = Reply::TaskStates(tasks().to_vec());
    assert_eq!(in_t("GetTaskState", states.clone()), expected);
    assert_eq!(in_t("GetJobState", states), expected);
    let watched = in_t("WatchJobState", Reply::Tasks { tasks: tasks(), version: 7 });
    assert_eq!(watched[..3], expected);
    assert_eq!(watched[3..], [(2, Int(7))]);
}

#[test]
fn states_of_dialect_x() {
    let expected = [
        (1, sub(&[(2, Int(3)), (6, Fixed(40))])),
        (
            1,
            sub(&[
                (1, Int(1)),
                (2, Int(4)),
                (3, Int(10)),
                (4, text("boom")),
                (5, sub(&[(3, Int(1)), (4, Int(1))])),
                (6, Fixed(41)),
            ]),
        ),
        (1, sub(&[(1, Int(2)), (2, Int(2)), (6, Fixed(42))])),
        (2, Int(7)),
    ];
    assert_eq!(in_x("WatchTasks", Reply::Tasks { tasks: tasks(), version: 7 }), expected);
}

#[test]
fn alive_tasks_are_parallel_lists() {
    let alive = [(0, 40), (2, 42)];
    let alive = alive.map(|(task, run)| (TaskIndex::new(task), Incarnation::new(run)));
    let packed: Vec<u8> = [40_u64, 42].into_iter().flat_map(u64::to_le_bytes).collect();
    let reply = Reply::Alive(alive.into());
    let expected = [(1, task(0)), (1, task(2)), (2, Value::Bytes(packed.clone()))];
    assert_eq!(in_t("GetAliveTasks", reply.clone()), expected);
    let expected = [(1, Value::Bytes(vec![0, 2])), (2, Value::Bytes(packed))];
    assert_eq!(in_x("GetAliveTasks", reply), expected);
}

#[test]
fn keys_are_echoed_and_directories_listed() {
    let revision = Revision::new(9);
    let value = KeyValue::Inline(Bytes::from_static(b"\xff\0"));
    let entry = |key: &str| [(1, text(key)), (2, Value::Bytes(b"\xff\0".to_vec()))];
    for method in ["GetKeyValue", "TryGetKeyValue", "IncrementKeyValue"] {
        let reply = Reply::Value { value: value.clone(), revision };
        assert_eq!(in_t(method, reply.clone()), [(1, sub(&entry("/k")))]);
        assert_eq!(in_x(method, reply), [(1, sub(&entry("/k")))]);
    }
    let entries =
        ["a/b", "a/c"].map(|key| KeyEntry { key: key.into(), value: value.clone(), revision });
    let reply = Reply::Directory(Vec::from(entries).into());
    let expected = [(2, sub(&entry("a/b"))), (2, sub(&entry("a/c")))];
    assert_eq!(in_t("GetKeyValueDir", reply.clone()), expected);
    assert_eq!(in_x("GetKeyValueDir", reply), expected);
}

#[test]
fn devices_of_all_tasks_stand_in_one_message() {
    let devices = ["\x0a\x01a\x0a\x01b", "", "\x0a\x01c"];
    let devices: Vec<Bytes> = devices.into_iter().map(Bytes::from).collect();
    let expected = [(4, sub(&[(1, text("a")), (1, text("b")), (1, text("c"))]))];
    assert_eq!(in_t("WaitForAllTasks", Reply::Devices(devices.into())), expected);
}

#[test]
fn the_rest_is_a_counter_or_nothing() {
    let passed = Reply::BarrierPassed { counter: 3 };
    assert_eq!(in_t("Barrier", passed.clone()), [(1, Int(3))]);
    assert_eq!(in_x("Barrier", passed), [(1, Int(3))]);
    let revision = Revision::new(1);
    for (method, reply) in [
        ("ShutdownTask", Reply::ShutDown),
        ("ReportErrorToService", Reply::ErrorReported),
        ("InsertKeyValue", Reply::Put { revision }),
        ("DeleteKeyValue", Reply::Deleted { revision }),
        ("CancelBarrier", Reply::BarrierCancelled),
    ] {
        assert_eq!(in_t(method, reply.clone()), [], "{method}");
        assert_eq!(in_x(method, reply), [], "{method}");
    }
    assert_eq!(in_t("ResetTask", Reply::Reset), []);
}

#[test]
fn changes_carry_revisions() {
    let put = |key: &str, revision| Change {
        key: key.into(),
        kind: ChangeKind::Put(KeyValue::Inline(Bytes::from_static(b"v"))),
        revision: Revision::new(revision),
    };
    let gone = |kind, revision| Change { key: "d".into(), kind, revision: Revision::new(revision) };
    let changes =
        vec![put("k", 4), gone(ChangeKind::Deleted, 5), gone(ChangeKind::DeletedWithAllUnder, 6)];
    let expected = [
        (2, sub(&[(1, text("k")), (2, Int(4)), (3, text("v"))])),
        (2, sub(&[(1, text("d")), (2, Int(5)), (4, sub(&[]))])),
        (2, sub(&[(1, text("d")), (2, Int(6)), (4, sub(&[(1, Int(1))]))])),
        (3, Int(8)),
    ];
    let upto = Revision::new(8);
    assert_eq!(in_rondo("WatchKeys", Reply::Changes { changes, upto }), expected);
    let entry = KeyEntry {
        key: "k".into(),
        value: KeyValue::Inline(Bytes::from_static(b"v")),
        revision: Revision::new(4),
    };
    let whole = in_rondo("WatchKeys", Reply::Keys { entries: vec![entry], upto });
    assert_eq!(whole, [(1, Int(1)), expected[0].clone(), (3, Int(8))]);
    assert_eq!(in_rondo("PutKey", Reply::Put { revision: upto }), [(1, Int(8))]);
    assert_eq!(in_rondo("DeleteKey", Reply::Deleted { revision: upto }), [(1, Int(8))]);
}

#[test]
fn a_reply_to_something_else_and_an_unread_blob_are_no_answer() {
    let x = |reply| answer("xla.coordination.CoordinationService", "GetKeyValue", "k", reply);
    assert_eq!(x(Reply::ShutDown), None);
    let value = KeyValue::Blob { digest: Digest::new([0; 32]), size_bytes: 1 };
    assert_eq!(x(Reply::Value { value, revision: Revision::new(1) }), None);
}
