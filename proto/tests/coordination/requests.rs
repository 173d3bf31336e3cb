//! Requests: bytes by the tables in, the core's requests out.

use bytes::Bytes;
use rondo_core::coordination::{Caller, Condition, Dialect, Method, TaskName, Value as KeyValue};
use rondo_core::ids::{Incarnation, Revision, ServiceIncarnation, TaskIndex};
use rondo_core::limits::{COORDINATION_TASKS_MAX, REQUEST_BYTES_MAX};
use rondo_core::status::{Code, Detail, Status};
use rondo_proto::convert::{
    CoordinationMethod, CoordinationRequest, decode_coordination, encode_next_watch,
};

use crate::hand::Value::{self, Fixed, Int};
use crate::hand::{message, sub, text};

/// A method, its request's fields, and what the core is asked.
type Case = (&'static str, Vec<(u64, Value)>, Method);
/// The same with what the answer repeats.
type EchoCase = (&'static str, Vec<(u64, Value)>, Method, &'static str);

fn ask(path: &str, bytes: Vec<u8>) -> Result<CoordinationRequest, Status> {
    let method = CoordinationMethod::from_path(path).unwrap_or_else(|| panic!("{path}"));
    decode_coordination(method, &Bytes::from(bytes))
}

fn in_t(method: &str, fields: &[(u64, Value)]) -> CoordinationRequest {
    ask(&format!("/tensorflow.CoordinationService/{method}"), message(fields)).unwrap()
}

fn in_x(method: &str, fields: &[(u64, Value)]) -> CoordinationRequest {
    let mut all = vec![(1, sub(&[(2, Fixed(77)), (3, Fixed(5))]))];
    all.extend_from_slice(fields);
    ask(&format!("/xla.coordination.CoordinationService/{method}"), message(&all)).unwrap()
}

fn in_rondo(method: &str, fields: &[(u64, Value)]) -> CoordinationRequest {
    ask(&format!("/rondo.v1.Coordination/{method}"), message(fields)).unwrap()
}

/// CoordinatedTask: job_name 1, task_id 2, recoverable 3.
fn task(index: i64) -> Value {
    sub(&[(1, text("jax_worker")), (2, Int(index))])
}

fn name(index: i32) -> TaskName {
    TaskName { job: Some("jax_worker".into()), index: TaskIndex::new(index) }
}

fn x(index: i32) -> TaskName {
    TaskName { job: None, index: TaskIndex::new(index) }
}

fn put(key: &str, value: &'static [u8], condition: Condition) -> Method {
    let value = KeyValue::Inline(Bytes::from_static(value));
    Method::PutKeyValue { key: key.into(), value, condition, lease: None }
}

#[test]
fn tasks_of_dialect_t() {
    let task_1 = || name(1);
    let incarnation = Incarnation::new(77);
    let recoverable = sub(&[(1, text("jax_worker")), (2, Int(1)), (3, Int(1))]);
    let cases: Vec<Case> = vec![
        (
            "RegisterTask",
            vec![(3, Fixed(77)), (5, recoverable)],
            Method::RegisterTask { task: task_1(), incarnation, recoverable: true, tasks: None },
        ),
        (
            "Heartbeat",
            vec![(3, Fixed(77)), (4, task(1))],
            Method::Heartbeat { task: task_1(), incarnation },
        ),
        ("PollForError", vec![(1, task(1))], Method::PollForError { task: task_1() }),
        (
            "WaitForAllTasks",
            vec![(5, task(1)), (6, sub(&[(1, text("any"))]))],
            Method::WaitForAllTasks { task: task_1(), devices: b"\x0a\x03any".to_vec().into() },
        ),
        ("ShutdownTask", vec![(1, task(1))], Method::ShutdownTask { task: task_1() }),
        ("ResetTask", vec![(1, task(1))], Method::ResetTask { task: task_1() }),
        (
            "ReportErrorToService",
            vec![(1, Int(13)), (2, text("boom")), (5, task(1))],
            Method::ReportErrorToService { task: task_1(), code: 13, message: "boom".into() },
        ),
    ];
    check_t(cases);
}

#[test]
fn meetings_of_dialect_t() {
    let task_1 = || name(1);
    let cases: Vec<Case> = vec![
        (
            "GetAliveTasks",
            vec![(1, task(1)), (2, task(0)), (2, task(1))],
            Method::GetAliveTasks { requester: task_1(), tasks: vec![name(0), name(1)] },
        ),
        (
            "Barrier",
            vec![
                (1, text("b")),
                (2, Int(-1)),
                (3, task(0)),
                (3, task(1)),
                (4, task(1)),
                (5, Int(2)),
            ],
            Method::Barrier {
                id: "b".into(),
                counter: 2,
                timeout_ms: -1,
                tasks: vec![name(0), name(1)],
                source: task_1(),
            },
        ),
        (
            "CancelBarrier",
            vec![(1, text("b")), (2, task(1)), (3, Int(4))],
            Method::CancelBarrier { id: "b".into(), counter: 4 },
        ),
    ];
    check_t(cases);
}

fn check_t(cases: Vec<Case>) {
    let task = Some(TaskIndex::new(1));
    let caller = Caller { dialect: Dialect::T, task, ..Caller::default() };
    for (method, fields, expected) in cases {
        let request = in_t(method, &fields);
        assert_eq!((request.method, &request.caller), (expected, &caller), "{method}");
        assert_eq!(request.echo, "", "{method}");
    }
}

#[test]
fn the_rest_of_dialect_t() {
    let cases: Vec<EchoCase> = vec![
        ("ReportErrorToTask", vec![(1, Int(13)), (2, text("x"))], Method::ReportErrorToTask, ""),
        (
            "GetTaskState",
            vec![(1, task(3)), (1, task(0))],
            Method::GetTaskState { tasks: vec![name(3), name(0)] },
            "",
        ),
        ("GetJobState", vec![(1, text("a"))], Method::GetJobState { job: "a".into() }, ""),
        (
            "WatchJobState",
            vec![(1, text("a")), (2, Int(-1))],
            Method::WatchTasks { version: -1 },
            "",
        ),
        (
            "InsertKeyValue",
            vec![(1, sub(&[(1, text("k")), (2, text("v"))])), (2, Int(1))],
            put("k", b"v", Condition::Always),
            "",
        ),
        ("GetKeyValue", vec![(1, text("/k/"))], Method::GetKeyValue { key: "/k/".into() }, "/k/"),
        ("TryGetKeyValue", vec![(1, text("k"))], Method::TryGetKeyValue { key: "k".into() }, "k"),
        (
            "IncrementKeyValue",
            vec![(1, text("k")), (2, Int(-5))],
            Method::IncrementKeyValue { key: "k".into(), increment: -5 },
            "k",
        ),
        (
            "GetKeyValueDir",
            vec![(1, text("d"))],
            Method::GetKeyValueDir { directory: "d".into() },
            "",
        ),
        (
            "DeleteKeyValue",
            vec![(1, text("k")), (2, Int(1))],
            Method::DeleteKeyValue { key: "k".into() },
            "",
        ),
    ];
    let caller = Caller { dialect: Dialect::T, ..Caller::default() };
    for (method, fields, expected, echo) in cases {
        let request = in_t(method, &fields);
        let expected =
            CoordinationRequest { method: expected, caller: caller.clone(), echo: echo.into() };
        assert_eq!(request, expected, "{method}");
    }
}

/// Observed of jaxlib 0.9.2.
#[test]
fn a_job_without_a_name_is_the_namespaces_own() {
    let request = in_t("Heartbeat", &[(3, Fixed(77)), (4, sub(&[(2, Int(1))]))]);
    let incarnation = Incarnation::new(77);
    assert_eq!(request.method, Method::Heartbeat { task: x(1), incarnation });
}

fn caller_x(task: Option<i32>) -> Caller {
    Caller {
        dialect: Dialect::X,
        life: Some(ServiceIncarnation::new(5)),
        task: task.map(TaskIndex::new),
        incarnation: Some(Incarnation::new(77)),
        ..Caller::default()
    }
}

#[test]
fn tasks_of_dialect_x() {
    let incarnation = Incarnation::new(9);
    let cases: Vec<Case> = vec![
        (
            "Heartbeat",
            vec![(2, Fixed(9)), (3, Int(1))],
            Method::Heartbeat { task: x(1), incarnation },
        ),
        ("PollForError", vec![(2, Int(1))], Method::PollForError { task: x(1) }),
        ("ShutdownTask", vec![(2, Int(1))], Method::ShutdownTask { task: x(1) }),
        (
            "ReportErrorToService",
            vec![(2, Int(1)), (3, Int(13)), (4, text("boom"))],
            Method::ReportErrorToService { task: x(1), code: 13, message: "boom".into() },
        ),
        (
            "GetAliveTasks",
            // Packed, as proto3 has it.
            vec![(2, Int(1)), (3, Value::Bytes(vec![0, 1, 1]))],
            Method::GetAliveTasks { requester: x(1), tasks: vec![x(0), x(1), x(1)] },
        ),
        (
            "Barrier",
            vec![
                (2, text("b")),
                (3, Int(1500)),
                (4, Value::Bytes(vec![0, 1])),
                (5, Int(1)),
                (6, Int(3)),
            ],
            Method::Barrier {
                id: "b".into(),
                counter: 3,
                timeout_ms: 1500,
                tasks: vec![x(0), x(1)],
                source: x(1),
            },
        ),
        (
            "CancelBarrier",
            vec![(2, text("b")), (3, Int(4)), (4, Int(1))],
            Method::CancelBarrier { id: "b".into(), counter: 4 },
        ),
    ];
    for (method, fields, expected) in cases {
        let request = in_x(method, &fields);
        assert_eq!((request.method, request.caller), (expected, caller_x(Some(1))), "{method}");
    }
}

#[test]
fn keys_and_watches_of_dialect_x() {
    let cases: Vec<EchoCase> = vec![
        ("WatchTasks", vec![(2, Int(7))], Method::WatchTasks { version: 7 }, ""),
        (
            "InsertKeyValue",
            vec![(2, sub(&[(1, text("k")), (2, text("v"))]))],
            put("k", b"v", Condition::Absent),
            "",
        ),
        (
            "InsertKeyValue",
            vec![(2, sub(&[(1, text("k\0")), (2, Value::Bytes(vec![0xff, 0]))])), (3, Int(1))],
            put("k\0", b"\xff\0", Condition::Always),
            "",
        ),
        ("GetKeyValue", vec![(2, text("k"))], Method::GetKeyValue { key: "k".into() }, "k"),
        (
            "TryGetKeyValue",
            vec![(2, text("k//"))],
            Method::TryGetKeyValue { key: "k//".into() },
            "k//",
        ),
        (
            "IncrementKeyValue",
            vec![(2, text("k")), (3, Int(3))],
            Method::IncrementKeyValue { key: "k".into(), increment: 3 },
            "k",
        ),
        (
            "GetKeyValueDir",
            vec![(2, text("d"))],
            Method::GetKeyValueDir { directory: "d".into() },
            "",
        ),
        (
            "DeleteKeyValue",
            vec![(2, text("k")), (3, Int(1))],
            Method::DeleteKeyValue { key: "k".into() },
            "",
        ),
    ];
    for (method, fields, expected, echo) in cases {
        let request = in_x(method, &fields);
        let expected =
            CoordinationRequest { method: expected, caller: caller_x(None), echo: echo.into() };
        assert_eq!(request, expected, "{method}");
    }
}

#[test]
fn a_registration_of_dialect_x_says_no_life() {
    let bytes = message(&[(3, Fixed(9)), (5, Int(2))]);
    let request = ask("/xla.coordination.CoordinationService/RegisterTask", bytes).unwrap();
    let incarnation = Incarnation::new(9);
    let method = Method::RegisterTask { task: x(2), incarnation, recoverable: false, tasks: None };
    let task = Some(TaskIndex::new(2));
    assert_eq!(request.caller, Caller { task, ..Caller::default() });
    assert_eq!(request.method, method);
}

/// Observed: service incarnation 0, or no block at all, is refused like a wrong one.
#[test]
fn dialect_x_without_a_life_means_one_that_never_was() {
    let bytes = message(&[(2, text("k"))]);
    let request = ask("/xla.coordination.CoordinationService/GetKeyValue", bytes).unwrap();
    assert_eq!(request.caller.life, Some(ServiceIncarnation::new(0)));
}

#[test]
fn our_own_methods() {
    let request = in_rondo("PutKey", &[(2, text("k")), (3, text("v")), (4, Int(3)), (5, Int(8))]);
    assert_eq!(request.method, put("k", b"v", Condition::Revision(Revision::new(8))));
    assert_eq!(request.caller, Caller { dialect: Dialect::Rondo, ..Caller::default() });
    for (number, condition) in
        [(0, Condition::Always), (1, Condition::Present), (2, Condition::Absent)]
    {
        let request = in_rondo("PutKey", &[(2, text("k")), (4, Int(number))]);
        assert_eq!(request.method, put("k", b"", condition));
    }
    let request = in_rondo("PutKey", &[(1, Fixed(5)), (6, Int(0))]);
    assert_eq!(request.caller.life, Some(ServiceIncarnation::new(5)));
    let Method::PutKeyValue { lease, .. } = request.method else { panic!("{request:?}") };
    assert_eq!(lease, Some(TaskIndex::new(0)));
    let request = in_rondo("WatchKeys", &[(2, text("d"))]);
    assert_eq!(request.method, Method::WatchKeys { key: "d".into(), from: None });
    let request = in_rondo("WatchKeys", &[(2, text("d")), (3, Int(0))]);
    let from = Some(Revision::new(0));
    assert_eq!(request.method, Method::WatchKeys { key: "d".into(), from });
    let request = in_rondo("DeleteKey", &[(2, text("k"))]);
    assert_eq!(request.method, Method::DeleteKeyValue { key: "k".into() });
}

fn go_on(last: &[u8], answer: &[u8]) -> Result<Bytes, Status> {
    encode_next_watch(&Bytes::copy_from_slice(last), &Bytes::copy_from_slice(answer))
}

/// A watch goes on for the same key in the same life, from where the last answer ends.
#[test]
fn a_watch_goes_on_behind_its_answer() {
    let first = message(&[(1, Fixed(5)), (2, text("d")), (3, Int(4))]);
    let change = sub(&[(1, text("d/k")), (2, Int(8)), (3, text("v"))]);
    let answer = message(&[(1, Int(1)), (2, change.clone()), (2, change), (3, Int(9))]);
    let next = go_on(&first, &answer).unwrap();
    assert_eq!(next, message(&[(1, Fixed(5)), (2, text("d")), (3, Int(9))]));
    // A namespace in which nothing has ever changed is at revision 0, which is not "none".
    let from_nothing = go_on(&message(&[(2, text("d"))]), &message(&[])).unwrap();
    let request = ask("/rondo.v1.Coordination/WatchKeys", from_nothing.to_vec()).unwrap();
    let from = Some(Revision::new(0));
    assert_eq!(request.method, Method::WatchKeys { key: "d".into(), from });
    for (last, answer) in [(&first[..], &b"\xff"[..]), (b"\xff", b"\x18\x01")] {
        assert_eq!(go_on(last, answer).unwrap_err().code, Code::InvalidArgument);
    }
}

#[test]
fn bad_requests_are_refused_by_field_and_bear_the_services_mark() {
    let many = message(&vec![(2, Value::Bytes(Vec::new())); COORDINATION_TASKS_MAX + 1]);
    let many = [message(&[(1, task(0))]), many].concat();
    let too_long = message(&[(1, Value::Bytes(vec![b'k'; REQUEST_BYTES_MAX]))]);
    let invalid = Code::InvalidArgument;
    let cases: Vec<(&str, Vec<u8>, Code, &str)> = vec![
        ("Heartbeat", vec![0xff], invalid, "HeartbeatRequest"),
        ("Heartbeat", vec![], invalid, "HeartbeatRequest.source_task is missing"),
        ("InsertKeyValue", vec![], invalid, "InsertKeyValueRequest.kv is missing"),
        ("GetAliveTasks", many, invalid, "65537 tasks"),
        ("TryGetKeyValue", too_long, Code::ResourceExhausted, "4194304 bytes are allowed"),
        ("GetKeyValue", message(&[(1, Value::Bytes(vec![0xff]))]), invalid, "GetKeyValueRequest"),
        ("WaitForAllTasks", message(&[(5, task(0)), (6, text("\u{7f}"))]), invalid, "DeviceInfo"),
    ];
    for (method, bytes, code, expected) in cases {
        let path = format!("/tensorflow.CoordinationService/{method}");
        let status = ask(&path, bytes).unwrap_err();
        assert_eq!((status.code, &*status.details), (code, &[Detail::SERVICE][..]), "{method}");
        assert!(status.message.contains(expected), "{}", status.message);
    }
    let status = ask("/rondo.v1.Coordination/PutKey", message(&[(4, Int(4))])).unwrap_err();
    assert!(status.message.contains("PutKeyRequest.condition is 4"), "{}", status.message);
}
