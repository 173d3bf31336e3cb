//! Recordings in Chrome's trace event format, which Perfetto reads: processes are workers and servers,
//! threads the ways between two of them.
//!
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU> describes it.

use std::io::{self, Write};

use rondo_core::exchange::{Leg, NodeId, Passage, Point, Role};
use serde_json::{Value, json};

use super::lanes::Lanes;
use super::{Recorded, Recording};

/// What is drawn of a worker's part, and of a server's: from a point to a point.
const AT_WORKER: [(&str, Point, Point); 3] = [
    ("to the transport", Point::RequestStart, Point::RequestPostsend),
    ("away", Point::RequestPostsend, Point::ResponsePostrecv),
    ("to who waits", Point::ResponsePostrecv, Point::ResponseProcess),
];
const AT_SERVER: [(&str, Point, Point); 3] = [
    ("to the queue", Point::RequestPostrecv, Point::RequestProcess),
    ("until answered", Point::RequestProcess, Point::ResponseStart),
    ("to the transport", Point::ResponseStart, Point::ResponsePostsend),
];

/// A way of a request: whose, and when it was where on the recording's clock.
struct Way<'a> {
    worker: NodeId,
    server: NodeId,
    passage: &'a Passage,
    /// Tells ways apart in the whole recording.
    id: usize,
    /// Where the clock and the stamp are known.
    stamps: [Option<i128>; 8],
}

/// One process' part of a way.
struct Part<'a> {
    way: &'a Way<'a>,
    process: NodeId,
    peer: NodeId,
    phases: &'static [(&'static str, Point, Point); 3],
    start: i128,
    end: i128,
}

/// Writes a recording.
pub(super) fn write(recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    let ways = ways(recording);
    let began = ways.iter().flat_map(|way| way.stamps.iter().flatten()).min().copied();
    let began = began.unwrap_or_default();
    let mut events = Events { out, began, count: 0 };
    let about = about(recording, began);
    write!(events.out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[")?;
    for (node, process) in &recording.processes {
        describe(*node, process, &mut events)?;
    }
    let mut parts: Vec<Part<'_>> = ways.iter().flat_map(parts).collect();
    parts.sort_by_key(|part| (part.start, part.way.id, part.process));
    let mut lanes = Lanes::default();
    for part in &parts {
        let (process, peer) = (part.process.get(), part.peer.get());
        let thread = lanes.take((process, peer), part.start, part.end);
        draw(part, thread, &mut events)?;
    }
    count(&parts, &mut events)?;
    for (process, peer, nth, thread) in lanes.all() {
        let peer = name(NodeId::new(peer));
        let name = if nth == 0 { peer } else { format!("{peer} ({})", nth.saturating_add(1)) };
        events.add(&json!({
            "ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name},
        }))?;
    }
    write!(events.out, "\n]}}\n")
}

/// Where events are written to, from when on.
struct Events<'a> {
    out: &'a mut dyn Write,
    began: i128,
    count: usize,
}

impl Events<'_> {
    fn add(&mut self, event: &Value) -> io::Result<()> {
        let separator = if self.count == 0 { "\n" } else { ",\n" };
        self.count = self.count.saturating_add(1);
        write!(self.out, "{separator}{event}")
    }

    /// Microseconds from the beginning on.
    fn at(&self, nanos: i128) -> f64 {
        micros(nanos.saturating_sub(self.began))
    }
}

fn micros(nanos: i128) -> f64 {
    nanos as f64 / 1e3
}

/// A process, as people say it.
fn name(node: NodeId) -> String {
    match node.role() {
        Some(Role::Scheduler) => "scheduler".into(),
        Some(role) => format!("{role} {}", node.rank()),
        None => format!("node {node}"),
    }
}

/// All ways, with their stamps on the recording's clock.
fn ways(recording: &Recording) -> Vec<Way<'_>> {
    let offset = |node: NodeId| {
        let clock = recording.processes.get(&node).and_then(|process| process.clock);
        clock.map(|clock| i128::from(clock.offset.nanos))
    };
    let mut ways = Vec::new();
    for (worker, process) in &recording.processes {
        for passage in &process.passages {
            let Some(server) = NodeId::of(Role::Server, passage.server) else { continue };
            let (here, there) = (offset(*worker), offset(server));
            let clocks = [here, here, there, there, there, there, here, here];
            let mut stamps = [None; 8];
            let raw = passage.stamps.get();
            for ((stamp, clock), at) in raw.iter().zip(clocks).zip(&mut stamps) {
                let stamp = Some(i128::from(*stamp)).filter(|stamp| *stamp != 0);
                *at = stamp.zip(clock).map(|(stamp, ahead)| stamp.saturating_sub(ahead));
            }
            ways.push(Way { worker: *worker, server, passage, id: ways.len(), stamps });
        }
    }
    ways
}

impl Way<'_> {
    fn at(&self, point: Point) -> Option<i128> {
        self.stamps.get(point as usize).copied().flatten()
    }

    /// Nanoseconds of one clock from a point to another.
    fn span(&self, from: Point, to: Point) -> Option<i128> {
        Some(self.at(to)?.saturating_sub(self.at(from)?))
    }

    fn title(&self) -> &'static str {
        match self.passage.leg {
            Leg::Push => "push",
            Leg::Pull => "pull",
        }
    }

    fn arguments(&self) -> Value {
        use Point::{
            RequestPostrecv, RequestPostsend, RequestProcess, ResponsePostrecv, ResponsePostsend,
            ResponseStart,
        };
        let Passage { number, handler, handlers, bytes, stamps, .. } = self.passage;
        let away = self.span(RequestPostsend, ResponsePostrecv);
        let there = self.span(RequestPostrecv, ResponsePostsend);
        let network = away.zip(there).map(|(away, there)| micros(away.saturating_sub(there)));
        let server = self.span(RequestProcess, ResponseStart).map(micros);
        json!({
            "number": number, "handler": handler.get(), "handlers": handlers, "bytes": bytes,
            "worker": name(self.worker), "server": name(self.server),
            "network_us": network, "server_us": server, "stamps_ns": stamps.get(),
        })
    }
}

/// What each of the two has of a way, as far as it is known.
fn parts<'a>(way: &'a Way<'a>) -> impl Iterator<Item = Part<'a>> {
    let both = [(way.worker, way.server, &AT_WORKER), (way.server, way.worker, &AT_SERVER)];
    both.into_iter().filter_map(move |(process, peer, phases)| {
        let points = phases.iter().flat_map(|(_, from, to)| [*from, *to]);
        let known: Vec<i128> = points.filter_map(|point| way.at(point)).collect();
        let (start, end) = (*known.iter().min()?, *known.iter().max()?);
        Some(Part { way, process, peer, phases, start, end })
    })
}

fn draw(part: &Part<'_>, thread: u32, events: &mut Events<'_>) -> io::Result<()> {
    let Part { way, process, phases, start, end, .. } = part;
    let mut slice = |name: &str, from: i128, to: i128, args: Value| {
        let (ts, dur) = (events.at(from), micros(to.saturating_sub(from)));
        events.add(&json!({
            "ph": "X", "cat": "exchange", "name": name, "pid": process.get(), "tid": thread,
            "ts": ts, "dur": dur, "args": args,
        }))
    };
    slice(way.title(), *start, *end, way.arguments())?;
    for (name, from, to) in *phases {
        if let (Some(from), Some(to)) = (way.at(*from), way.at(*to))
            && from <= to
        {
            slice(name, from, to, json!({}))?;
        }
    }
    // An arrow begins and ends within what it is drawn from and to.
    let last = end.saturating_sub(1).max(*start);
    let is_worker = *process == way.worker;
    let (out, back) = match is_worker {
        true => (way.at(Point::RequestPostsend), way.at(Point::ResponsePostrecv)),
        false => (way.at(Point::RequestPostrecv), way.at(Point::ResponsePostsend)),
    };
    let arrows = [("request", out, is_worker), ("answer", back, !is_worker)];
    let is_whole =
        way.at(Point::RequestPostrecv).is_some() && way.at(Point::RequestPostsend).is_some();
    for (name, at, begins) in arrows {
        let Some(at) = at.filter(|_| is_whole) else { continue };
        let at = events.at(at.clamp(*start, last));
        let mut arrow = json!({
            "ph": if begins { "s" } else { "f" }, "cat": "exchange", "name": name,
            "id": format!("{name} {}", way.id), "pid": process.get(), "tid": thread, "ts": at,
        });
        if let (false, Some(fields)) = (begins, arrow.as_object_mut()) {
            fields.insert("bp".into(), json!("e"));
        }
        events.add(&arrow)?;
    }
    Ok(())
}

/// How many ways each process has part in, whenever that changes.
fn count(parts: &[Part<'_>], events: &mut Events<'_>) -> io::Result<()> {
    let both = |part: &Part<'_>| [(part.process, part.start, 1_i64), (part.process, part.end, -1)];
    let mut changes: Vec<(NodeId, i128, i64)> = parts.iter().flat_map(both).collect();
    changes.sort_unstable();
    let (mut of, mut under_way) = (None, 0_i64);
    for (at, (process, when, change)) in changes.iter().enumerate() {
        if of != Some(*process) {
            (of, under_way) = (Some(*process), 0);
        }
        under_way = under_way.saturating_add(*change);
        let next = changes.get(at.saturating_add(1));
        if next.is_none_or(|(other, later, _)| (other, later) != (process, when)) {
            events.add(&json!({
                "ph": "C", "name": "under way", "pid": process.get(), "ts": events.at(*when),
                "args": {"ways": under_way},
            }))?;
        }
    }
    Ok(())
}

fn describe(node: NodeId, process: &Recorded, events: &mut Events<'_>) -> io::Result<()> {
    let clock = match process.clock {
        Some(clock) => {
            let (ahead, error) = (clock.offset.nanos, clock.offset.error_nanos);
            format!("clock {} us ahead, within {} us", micros(ahead.into()), micros(error.into()))
        }
        None => "clock not known".into(),
    };
    let facts = [
        ("process_name", json!({"name": name(node)})),
        ("process_labels", json!({"labels": format!("{}, {clock}", process.host)})),
        ("process_sort_index", json!({"sort_index": node.get()})),
    ];
    for (name, args) in facts {
        events.add(&json!({"ph": "M", "name": name, "pid": node.get(), "tid": 0, "args": args}))?;
    }
    Ok(())
}

/// What the events do not say: whose clock it is, and how well others are known.
fn about(recording: &Recording, began: i128) -> Value {
    let processes = recording.processes.iter().map(|(node, process)| {
        json!({
            "process": name(*node),
            "host": process.host.as_ref(),
            "offset_ns": process.clock.map(|clock| clock.offset.nanos),
            "error_ns": process.clock.map(|clock| clock.offset.error_nanos),
            "compared_with": process.clock.map(|clock| name(clock.by)),
            "round_trip_ns": process.round_trip_nanos,
            "passages": process.passages.len(),
            "left_out": process.left_out,
            "refused": process.refused.as_ref().map(|status| status.message.clone()),
        })
    });
    json!({
        "program": "rondo",
        "version": env!("CARGO_PKG_VERSION"),
        "clock": name(recording.root),
        "began_unix_ns": u64::try_from(began).unwrap_or_default(),
        "processes": processes.collect::<Vec<Value>>(),
    })
}
