//! What is written of a recording that is known in every number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::exchange::{
    Aligned, Handler, InstanceRank, Leg, NodeId, Offset, Passage, Role, Stamps,
};
use serde_json::Value;

use super::{Recorded, Recording};

const WORKER: NodeId = NodeId::new(9);
const SERVER: NodeId = NodeId::new(8);

fn recorded(role: Role, ahead: Option<i64>, passages: Vec<Passage>) -> Recorded {
    let clock = ahead
        .map(|nanos| Aligned { offset: Offset { nanos, error_nanos: 500 }, by: NodeId::SCHEDULER });
    Recorded {
        role,
        rank: InstanceRank::new(0),
        host: Arc::from("h"),
        clock,
        round_trip_nanos: Some(1000),
        passages,
        left_out: 3,
        refused: None,
    }
}

/// A passage that leaves at this time of the worker's clock, and the server's is a second ahead of that.
fn passage(number: u64, at: u64) -> Passage {
    let there = at + 1_000_000_000;
    let stamps = [at, at + 2000, there + 12_000, there + 13_000, there + 20_000, there + 21_500];
    let [a, b, c, d, e, f] = stamps;
    Passage {
        number,
        handler: Handler::new(number * 2),
        handlers: 2,
        leg: Leg::Pull,
        server: InstanceRank::new(0),
        bytes: 4096,
        stamps: Stamps::new([a, b, c, d, e, f, at + 30_000, at + 31_000]),
    }
}

fn recording(passages: Vec<Passage>, server_ahead: Option<i64>) -> Recording {
    let processes = BTreeMap::from([
        (WORKER, recorded(Role::Worker, Some(-500_000), passages)),
        (SERVER, recorded(Role::Server, server_ahead, Vec::new())),
    ]);
    Recording { root: NodeId::SCHEDULER, processes }
}

fn written(recording: &Recording) -> Value {
    let mut out = Vec::new();
    recording.write(&mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn events<'a>(trace: &'a Value, phase: &str) -> Vec<&'a Value> {
    let all = trace["traceEvents"].as_array().unwrap();
    all.iter().filter(|event| event["ph"] == phase).collect()
}

/// Process, name, beginning and length of each slice.
fn slices(trace: &Value) -> Vec<(u64, String, f64, f64)> {
    let slices = events(trace, "X").into_iter().map(|it| {
        let name = it["name"].as_str().unwrap().to_owned();
        let number = |field: &str| it[field].as_f64().unwrap();
        (it["pid"].as_u64().unwrap(), name, number("ts"), number("dur"))
    });
    slices.collect()
}

#[test]
fn a_way_is_drawn_at_both_ends_on_one_clock() {
    // The worker's clock is half a millisecond behind the scheduler's, and the server's a second ahead of it.
    let trace = written(&recording(vec![passage(4, 7_000_000_000)], Some(999_500_000)));
    let expected = [
        (9, "pull", 0.0, 31.0),
        (9, "to the transport", 0.0, 2.0),
        (9, "away", 2.0, 28.0),
        (9, "to who waits", 30.0, 1.0),
        (8, "pull", 12.0, 9.5),
        (8, "to the queue", 12.0, 1.0),
        (8, "until answered", 13.0, 7.0),
        (8, "to the transport", 20.0, 1.5),
    ];
    let expected = expected.map(|(pid, name, ts, dur)| (pid, name.to_owned(), ts, dur));
    assert_eq!(slices(&trace), expected);
    let arguments = &events(&trace, "X")[0]["args"];
    assert_eq!((&arguments["handler"], &arguments["handlers"]), (&8.into(), &2.into()));
    assert_eq!((&arguments["network_us"], &arguments["server_us"]), (&18.5.into(), &7.0.into()));
    let about = &trace["otherData"];
    assert_eq!(
        (&about["clock"], &about["began_unix_ns"]),
        (&"scheduler".into(), &7_000_500_000_u64.into())
    );
    assert_eq!(about["processes"][1]["offset_ns"], -500_000);
    assert_eq!(about["processes"][1]["error_ns"], 500);
    assert_eq!(about["processes"][1]["left_out"], 3);
}

#[test]
fn an_arrow_leads_there_and_one_back() {
    let trace = written(&recording(vec![passage(4, 7_000_000_000)], Some(999_500_000)));
    let ends = |phase| {
        let all = events(&trace, phase).into_iter();
        let ends = all.map(|it| {
            let id = it["id"].as_str().unwrap().to_owned();
            (id, (it["pid"].as_u64().unwrap(), it["ts"].as_f64().unwrap()))
        });
        ends.collect::<BTreeMap<_, _>>()
    };
    let (from, to) = (ends("s"), ends("f"));
    assert_eq!((from["request 0"], to["request 0"]), ((9, 2.0), (8, 12.0)));
    assert_eq!((from["answer 0"].0, to["answer 0"]), (8, (9, 30.0)));
    // Within what it leads from, which ends at 21.5.
    assert!((21.4..21.5).contains(&from["answer 0"].1), "{from:?}");
    assert!(events(&trace, "f").iter().all(|it| it["bp"] == "e"));
}

#[test]
fn what_is_under_way_at_once_is_drawn_side_by_side_and_counted() {
    let trace = written(&recording(
        vec![passage(1, 1_000_000), passage(2, 1_010_000), passage(3, 2_000_000)],
        Some(999_500_000),
    ));
    let pulls = events(&trace, "X").into_iter().filter(|it| it["name"] == "pull" && it["pid"] == 9);
    let threads: Vec<u64> = pulls.map(|it| it["tid"].as_u64().unwrap()).collect();
    assert_eq!(threads, [1, 2, 1]);
    let counted = events(&trace, "C").into_iter().filter(|it| it["pid"] == 9);
    let counted: Vec<i64> = counted.map(|it| it["args"]["ways"].as_i64().unwrap()).collect();
    assert_eq!(counted, [1, 2, 1, 0, 1, 0]);
    let names = events(&trace, "M").into_iter().filter(|it| it["name"] == "thread_name");
    let names: BTreeSet<&str> = names.map(|it| it["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        BTreeSet::from(["server 0", "server 0 (2)", "worker 0"]),
        "the server had one at a time"
    );
}

#[test]
fn where_a_clock_or_a_stamp_is_not_known_nothing_is_drawn() {
    let trace = written(&recording(vec![passage(4, 7_000_000_000)], None));
    assert!(slices(&trace).iter().all(|(process, ..)| *process == 9), "{:?}", slices(&trace));
    assert!(events(&trace, "s").is_empty() && events(&trace, "f").is_empty());
    assert_eq!(trace["otherData"]["processes"][0]["offset_ns"], Value::Null);
    let mut without = passage(4, 7_000_000_000);
    without.stamps = Stamps::new([7_000_000_000, 0, 0, 0, 0, 0, 0, 7_000_031_000]);
    let trace = written(&recording(vec![without], Some(0)));
    assert_eq!(slices(&trace), [(9, "pull".to_owned(), 0.0, 31.0)]);
    let empty = written(&recording(Vec::new(), Some(0)));
    assert!(events(&empty, "X").is_empty() && !events(&empty, "M").is_empty());
}
