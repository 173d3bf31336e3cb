//! The agent's side: its requests into fields of the public tables, and answers by those tables into
//! what it understands.

use bytes::Bytes;
use rondo_core::agent::{Config, PutCondition, Reply, Request, State};
use rondo_core::ids::{Incarnation, Revision, ServiceIncarnation, TaskIndex};
use rondo_core::status::{Code, Detail, Status};
use rondo_core::time::Duration;
use rondo_proto::convert::{
    decode_agent_reply, decode_details, decode_devices, encode_agent_request, encode_devices,
};

use crate::hand::Value::{self, Fixed, Int};
use crate::hand::{fields, message, sub, text};

const LIFE: u64 = 77;

fn config() -> Config {
    let mut config = Config::of("job", TaskIndex::new(3), Incarnation::new(9));
    config.recoverable = true;
    config
}

/// Path and fields of a request of task 3.
fn encoded(request: &Request) -> (&'static str, Vec<(u64, Value)>) {
    let life = Some(ServiceIncarnation::new(LIFE));
    let (path, bytes) = encode_agent_request(&config(), life, request);
    (path, fields(&bytes))
}

fn assert_t(method: &str, request: &Request, expected: &[(u64, Value)]) {
    let (path, found) = encoded(request);
    assert_eq!(path, format!("/tensorflow.CoordinationService/{method}"));
    assert_eq!(found, expected, "{method}");
}

/// Itself, which may come back.
fn own() -> Value {
    sub(&[(1, text("job")), (2, Int(3)), (3, Int(1))])
}

fn other(task: i64) -> Value {
    sub(&[(1, text("job")), (2, Int(task))])
}

#[test]
fn requests_about_itself() {
    assert_t("RegisterTask", &Request::Register, &[(3, Fixed(9)), (5, own())]);
    assert_t("Heartbeat", &Request::Heartbeat, &[(3, Fixed(9)), (4, own())]);
    assert_t("PollForError", &Request::PollForError, &[(1, own())]);
    assert_t("ResetTask", &Request::Reset, &[(1, own())]);
    assert_t("ShutdownTask", &Request::Shutdown, &[(1, own())]);
    let report = Request::ReportError { code: Code::DataLoss, message: "gone".into() };
    let expected = [(1, Int(15)), (2, text("gone")), (5, own())];
    assert_t("ReportErrorToService", &report, &expected);
    let devices = [Bytes::from_static(b"\x0a\x01a"), Bytes::from_static(b"\x0a\x01b")];
    let all = sub(&[(1, sub(&[(1, text("a"))])), (1, sub(&[(1, text("b"))]))]);
    let waits = Request::WaitForAllTasks { devices: encode_devices(&devices) };
    // Its devices travel as they are, whether or not they are understood on the way.
    let Value::Bytes(inner) = &all else { panic!("{all:?}") };
    assert_eq!(encode_devices(&devices), inner);
    assert_eq!(decode_devices(&inner.clone().into()).unwrap(), devices);
    assert_t("WaitForAllTasks", &waits, &[(5, own()), (6, all)]);
}

#[test]
fn requests_about_others() {
    let tasks = vec![TaskIndex::new(1), TaskIndex::new(3)];
    let mut barrier = Request::Barrier {
        id: "b".into(),
        counter: 2,
        timeout: Duration::from_nanos(1_000_001),
        tasks: tasks.clone(),
    };
    // A timeout is rounded up: a barrier must not end before its time.
    let fields_of = |timeout| {
        let named = [(3, other(1)), (3, other(3)), (4, own()), (5, Int(2))];
        [vec![(1, text("b")), (2, Int(timeout))], named.to_vec()].concat()
    };
    assert_t("Barrier", &barrier, &fields_of(2));
    if let Request::Barrier { timeout, .. } = &mut barrier {
        *timeout = Duration::from_millis(60_000);
    }
    assert_t("Barrier", &barrier, &fields_of(60_000));
    let cancel = Request::CancelBarrier { id: "b".into(), counter: 2 };
    assert_t("CancelBarrier", &cancel, &[(1, text("b")), (2, own()), (3, Int(2))]);
    let status = Request::TaskStatus { job: "other".into(), task: TaskIndex::new(8) };
    let asked = sub(&[(1, text("other")), (2, Int(8))]);
    assert_t("GetTaskState", &status, &[(1, asked)]);
    let alive = Request::AliveTasks { tasks };
    assert_t("GetAliveTasks", &alive, &[(1, own()), (2, other(1)), (2, other(3))]);
    let job = Request::WatchJob { version: -1 };
    assert_t("WatchJobState", &job, &[(1, text("job")), (2, Int(-1))]);
}

#[test]
fn requests_about_keys() {
    let key = || "k".to_owned();
    assert_t("GetKeyValue", &Request::Get { key: key() }, &[(1, text("k"))]);
    assert_t("TryGetKeyValue", &Request::TryGet { key: key() }, &[(1, text("k"))]);
    let insert = Request::Insert { key: key(), value: Bytes::from_static(b"\xff") };
    let entry = sub(&[(1, text("k")), (2, Value::Bytes(vec![0xff]))]);
    assert_t("InsertKeyValue", &insert, &[(1, entry)]);
    assert_t("DeleteKeyValue", &Request::Delete { key: key() }, &[(1, text("k")), (2, Int(1))]);
    let increment = Request::Increment { key: key(), increment: -7 };
    assert_t("IncrementKeyValue", &increment, &[(1, text("k")), (2, Int(-7))]);
    assert_t("GetKeyValueDir", &Request::Directory { key: key() }, &[(1, text("k"))]);
}

/// What dialect T does not have is asked in the life in which the task registered.
#[test]
fn requests_of_our_own() {
    let put = |condition, leased| Request::Put {
        key: "k".into(),
        value: Bytes::from_static(b"v"),
        condition,
        leased,
    };
    let common = [(1, Fixed(LIFE)), (2, text("k")), (3, text("v"))];
    for (condition, leased, more) in [
        (PutCondition::Always, false, vec![]),
        (PutCondition::Present, false, vec![(4, Int(1))]),
        (PutCondition::Absent, true, vec![(4, Int(2)), (6, Int(3))]),
        (PutCondition::Revision(Revision::new(8)), false, vec![(4, Int(3)), (5, Int(8))]),
    ] {
        let (path, found) = encoded(&put(condition, leased));
        assert_eq!(path, "/rondo.v1.Coordination/PutKey");
        assert_eq!(found, [common.to_vec(), more].concat(), "{condition:?}");
    }
    for (from, more) in [(None, vec![]), (Some(0), vec![(3, Int(0))]), (Some(4), vec![(3, Int(4))])]
    {
        let from = from.map(Revision::new);
        let (path, found) = encoded(&Request::Watch { key: "k".into(), from });
        assert_eq!(path, "/rondo.v1.Coordination/WatchKeys");
        assert_eq!(found, [common[..2].to_vec(), more].concat());
    }
    let (_, nowhere) = encode_agent_request(&config(), None, &put(PutCondition::Always, false));
    assert_eq!(fields(&nowhere), common[1..], "any life");
}

fn decoded(request: &Request, answer: &[(u64, Value)]) -> Result<Reply, Status> {
    decode_agent_reply(request, &message(answer).into())
}

#[test]
fn answers_are_understood() {
    let life = Reply::Life(ServiceIncarnation::new(LIFE));
    for request in [Request::Register, Request::Heartbeat] {
        assert_eq!(decoded(&request, &[(1, Fixed(LIFE))]), Ok(life.clone()));
    }
    let barrier =
        Request::Barrier { id: "b".into(), counter: 0, timeout: Duration::ZERO, tasks: vec![] };
    assert_eq!(decoded(&barrier, &[(1, Int(5))]), Ok(Reply::Barrier { counter: 5 }));
    let entry = |key: &str, value: &str| sub(&[(1, text(key)), (2, text(value))]);
    let key = || "k".to_owned();
    for request in [
        Request::Get { key: key() },
        Request::TryGet { key: key() },
        Request::Increment { key: key(), increment: 1 },
    ] {
        let value = Reply::Value(Bytes::from_static(b"v"));
        assert_eq!(decoded(&request, &[(1, entry("k", "v"))]), Ok(value));
        assert_eq!(decoded(&request, &[]).unwrap_err().code, Code::Internal, "without its value");
    }
    let directory = Request::Directory { key: key() };
    let entries = vec![("k/a".to_owned(), Bytes::from_static(b"1"))];
    let answer = [(1, text("k")), (2, entry("k/a", "1"))];
    assert_eq!(decoded(&directory, &answer), Ok(Reply::Entries(entries)));
    for request in [Request::Shutdown, Request::Delete { key: key() }, Request::Reset] {
        assert_eq!(decoded(&request, &[]), Ok(Reply::Done));
    }
    let alive = Request::AliveTasks { tasks: vec![] };
    let two = [(1, other(0)), (1, other(1)), (2, Fixed(5)), (2, Fixed(6))];
    let known = |task, incarnation| (TaskIndex::new(task), Incarnation::new(incarnation));
    assert_eq!(decoded(&alive, &two), Ok(Reply::Alive(vec![known(0, 5), known(1, 6)])));
    let status = decoded(&alive, &two[..3]).unwrap_err();
    assert!(status.message.contains("2 alive_tasks, 1 incarnations"), "{status}");
}

#[test]
fn states_of_tasks_are_understood() {
    let one = Request::TaskStatus { job: "job".into(), task: TaskIndex::new(1) };
    let state = |state, more: &[(u64, Value)]| {
        let head = [(1, other(1)), (2, Int(state))];
        [(1, sub(&[&head, more].concat()))]
    };
    for (number, expected) in
        [(1, State::Uninitialized), (2, State::Disconnected), (3, State::Running)]
    {
        let Ok(Reply::Task(found)) = decoded(&one, &state(number, &[])) else { panic!("{number}") };
        assert_eq!((found.state, found.error), (expected, None));
    }
    // An error bears its code, also one that nobody knows.
    for (code, expected) in [(15, Code::DataLoss), (99, Code::Unknown), (0, Code::Unknown)] {
        let answer = state(4, &[(3, Int(code)), (4, text("gone"))]);
        let Ok(Reply::Task(found)) = decoded(&one, &answer) else { panic!("{code}") };
        assert_eq!(found.state, State::Error);
        assert_eq!(found.error, Some(Status::new(expected, "gone")));
    }
    for number in [0, 5, -1] {
        let status = decoded(&one, &state(number, &[])).unwrap_err();
        assert_eq!(status.code, Code::Internal);
        assert!(status.message.contains(&number.to_string()), "{status}");
    }
    assert_eq!(decoded(&one, &[]).unwrap_err().code, Code::Internal, "of nobody");
    let job = Request::WatchJob { version: 3 };
    let answer = [state(3, &[]).to_vec(), vec![(2, Int(4))]].concat();
    let Ok(Reply::Job(found)) = decoded(&job, &answer) else { panic!("no job") };
    assert_eq!((found.version, found.tasks.len()), (4, 1));
    assert_eq!(found.tasks[0].0, TaskIndex::new(1));
    let nameless = [(1, sub(&[(2, Int(3))]))];
    assert_eq!(decoded(&job, &nameless).unwrap_err().code, Code::Internal);
}

#[test]
fn changes_are_understood() {
    let watch = Request::Watch { key: "d".into(), from: None };
    let put = sub(&[(1, text("d/k")), (2, Int(4)), (3, text("v"))]);
    let gone = sub(&[(1, text("d")), (2, Int(6)), (4, sub(&[(1, Int(1))]))]);
    let answer = [(2, put.clone()), (2, gone), (3, Int(8))];
    let Ok(Reply::Changes { whole, changes, upto }) = decoded(&watch, &answer) else {
        panic!("no changes")
    };
    assert_eq!((whole, upto), (false, Revision::new(8)));
    let told: Vec<_> = changes
        .iter()
        .map(|change| (&*change.key, change.revision.get(), change.value.as_deref()))
        .collect();
    assert_eq!(told, [("d/k", 4, Some(&b"v"[..])), ("d", 6, None)]);
    assert!(!changes[0].with_all_under && changes[1].with_all_under);
    let Ok(Reply::Changes { whole, .. }) = decoded(&watch, &[(1, Int(1)), (2, put)]) else {
        panic!("no changes")
    };
    assert!(whole);
    let of_no_kind = [(2, sub(&[(1, text("d"))]))];
    assert_eq!(decoded(&watch, &of_no_kind).unwrap_err().code, Code::Internal);
}

/// Bytes that are no answer are the server's fault, and named.
#[test]
fn answers_that_are_none() {
    let key = || "k".to_owned();
    for (request, name) in [
        (Request::Register, "HeartbeatResponse"),
        (Request::Get { key: key() }, "GetKeyValueResponse"),
        (Request::Directory { key: key() }, "GetKeyValueDirResponse"),
        (Request::Watch { key: "k".into(), from: None }, "WatchKeysResponse"),
        (Request::AliveTasks { tasks: vec![] }, "GetAliveTasksResponse"),
        (Request::WatchJob { version: 0 }, "WatchJobStateResponse"),
    ] {
        let status = decode_agent_reply(&request, &Bytes::from_static(b"\x0f")).unwrap_err();
        assert_eq!(status.code, Code::Internal, "{name}");
        assert!(status.message.contains(name), "{status}");
    }
    assert_eq!(decode_devices(&Bytes::from_static(b"\x0f")).unwrap_err().code, Code::Internal);
}

/// A refusal stays one whatever stands beside it.
#[test]
fn what_stands_beside_a_refusal() {
    let payload = |name: &str, payload: Value| {
        let key = format!("type.googleapis.com/tensorflow.{name}");
        (1, sub(&[(1, text(&key)), (2, payload)]))
    };
    let service = sub(&[(3, Int(1)), (4, other(2))]);
    let barrier = sub(&[(1, text("b")), (2, Int(6))]);
    let trailer = message(&[
        payload("CoordinationServiceError", service),
        payload("BarrierError", barrier),
        payload("Later", text("unknown")),
    ]);
    let source = Some(TaskIndex::new(2));
    let expected = [
        Detail::Barrier { id: "b".into(), counter: 6 },
        Detail::CoordinationService { is_reported: true, source },
    ];
    let mut found = decode_details(&trailer.into());
    found.sort_by_key(|detail| matches!(detail, Detail::CoordinationService { .. }));
    assert_eq!(found, expected);
    for garbage in [&b""[..], b"\xff", b"\x0a\x02\x0a\x05"] {
        assert_eq!(decode_details(&Bytes::from_static(garbage)), []);
    }
    let broken = message(&[payload("BarrierError", Value::Bytes(vec![0x0f]))]);
    assert_eq!(decode_details(&broken.into()), []);
}
