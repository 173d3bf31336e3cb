//! Traces of processes whose clocks differ, as `rondo trace` writes them.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rondo::clock::Clock;
use rondo::exchange::{Exchange, Recording, RecordingBounds, Scheduler, Settings, Ways};
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::worker::Since;
use rondo_core::exchange::{Config, NodeId, Role, ServerRank, scheduler};
use rondo_core::status::Code;
use rondo_core::time::{Duration as Span, Time};
use serde_json::Value;

use crate::bed::{Bed, SOON, always, begin, numbers, room};

/// What a server of these tests takes for each request.
const WORK: Duration = Duration::from_millis(20);

/// The wall clock, set off by so many nanoseconds.
fn askew(nanos: i64) -> Clock {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = Time::from_nanos(u64::try_from(now.as_nanos()).unwrap());
    Clock::start_at(match nanos {
        ..0 => Time::from_nanos(now.as_nanos() - nanos.unsigned_abs()),
        _ => now.after(Span::from_nanos(nanos.unsigned_abs())),
    })
}

/// Starts a process for each of these, all at once.
fn start(all: Vec<Settings>) -> Vec<Exchange> {
    let begun: Vec<_> = all
        .into_iter()
        .map(|it| std::thread::spawn(move || Exchange::start(it, &mut always)))
        .collect();
    begun.into_iter().map(|it| it.join().unwrap().unwrap()).collect()
}

/// Worker 0, worker 1 and server 0, whose clocks are so far ahead of the scheduler's.
fn three(bed: &Bed, ahead: [i64; 3]) -> Vec<Exchange> {
    let of = [(Role::Worker, 0), (Role::Worker, 1), (Role::Server, 0)];
    let settings = of.iter().zip(ahead).map(|((role, rank), nanos)| Settings {
        clock: askew(nanos),
        ..bed.settings(*role, *rank)
    });
    start(settings.collect())
}

/// Both workers push and pull so often.
fn exchange(all: &[Exchange], rounds: u32) {
    let [workers @ .., server] = all else { panic!("no server") };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                for unit in server.get_batch(&mut always).unwrap() {
                    std::thread::sleep(WORK);
                    let answer = numbers(2, &[1.0]);
                    server.respond(unit.handler, vec![(answer.info, answer.payload)]).unwrap();
                }
            }
        });
        for worker in workers {
            scope.spawn(move || {
                for _ in 0..rounds {
                    let (push, pull) = (numbers(1, &[3.0]), room(2, 1));
                    let handler = begin(worker, vec![push], vec![pull]).unwrap();
                    worker.wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
                }
            });
        }
    });
}

fn rondo_trace(scheduler: &str, output: &Path) -> Output {
    let mut command = Command::new(rondo_tests::binary::rondo());
    command.args(["trace", "--timeout", "5s", "--scheduler", scheduler, "--output"]).arg(output);
    command.output().unwrap()
}

/// What of the recording is known of a process.
fn about<'a>(trace: &'a Value, process: &str) -> &'a Value {
    let all = trace["otherData"]["processes"].as_array().unwrap();
    all.iter().find(|it| it["process"] == process).unwrap()
}

fn slices<'a>(trace: &'a Value, process: u64, name: &'a str) -> impl Iterator<Item = (f64, f64)> {
    let all = trace["traceEvents"].as_array().unwrap().iter();
    let of = all.filter(move |it| it["ph"] == "X" && it["pid"] == process && it["name"] == name);
    of.map(|it| {
        let start = it["ts"].as_f64().unwrap();
        (start, start + it["dur"].as_f64().unwrap())
    })
}

#[test]
fn clocks_that_differ_by_minutes_become_one_within_the_error_that_is_shown() {
    let bed = Bed::new(2, 1, 1, Ways { unix: false, shared_bytes: 0 });
    let ahead = [120_000_000_000, -45_000_000_000, 300_000_000_000];
    let all = three(&bed, ahead);
    exchange(&all, 10);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let output = rondo_trace(bed.scheduler.address(), &path);
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let trace: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (process, ahead) in ["worker 0", "worker 1", "server 0"].into_iter().zip(ahead) {
        let known = about(&trace, process);
        let offset = known["offset_ns"].as_i64().unwrap();
        let error = known["error_ns"].as_i64().unwrap();
        // The clocks were set one after the other, each a little later than the scheduler's was read.
        let off = (offset - ahead).abs();
        assert!(
            off <= error + 5_000_000,
            "{process} is {ahead} ns ahead, and not {offset} +- {error}"
        );
        assert!(error < 1_000_000_000 && known["round_trip_ns"].as_i64().unwrap() > 0, "{known}");
        assert!(shown.contains(process), "{shown}");
    }
    // On one clock what the server did lies within what its workers waited for.
    let slack = 2.0
        * ["worker 0", "worker 1", "server 0"]
            .map(|process| about(&trace, process)["error_ns"].as_f64().unwrap() / 1e3)
            .iter()
            .sum::<f64>();
    let served: Vec<(f64, f64)> = slices(&trace, 8, "pull").collect();
    assert_eq!(served.len(), 20);
    for (start, end) in served {
        assert!(end - start >= WORK.as_secs_f64() * 1e6, "{start} to {end}");
        let waits = [9, 11].into_iter().flat_map(|worker| slices(&trace, worker, "pull"));
        let is_within =
            waits.into_iter().any(|(from, to)| from - slack <= start && end <= to + slack);
        assert!(is_within, "{start} to {end}: nobody waited for it within {slack} us");
    }
}

#[test]
fn a_worker_alone_tells_what_it_knows_on_its_own_clock() {
    let bed = Bed::with(2, 1, 1, Ways::default(), Config { traces_max: 6, ..Config::default() });
    let all = three(&bed, [0, 0, 7_000_000_000]);
    exchange(&all, 5);
    let recording = all[0].recording().unwrap();
    assert_eq!(recording.root, NodeId::of(Role::Worker, all[0].rank()).unwrap());
    let own = &recording.processes[&recording.root];
    assert_eq!((own.passages.len(), own.left_out), (6, 4), "a push and a pull each, six are kept");
    let server = recording.processes[&NodeId::new(8)].clock.unwrap().offset;
    assert_eq!(Some(server), all[0].offset(ServerRank::new(0)).unwrap());
    assert!((server.nanos - 7_000_000_000).unsigned_abs() <= server.error_nanos + 5_000_000);
    let refused = all[2].recording().unwrap_err();
    assert_eq!(refused.status.code, Code::FailedPrecondition);
    assert!(refused.to_string().contains("only a worker"), "{refused}");
}

#[test]
fn pages_are_read_to_their_end_and_only_the_latest_are_if_that_is_wanted() {
    let bed = Bed::new(2, 1, 1, Ways::default());
    let all = three(&bed, [0; 3]);
    let [worker, other, server] = all.as_slice() else { panic!("three") };
    let rounds = 1400_u64;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                for unit in server.get_batch(&mut always).unwrap() {
                    server.respond(unit.handler, Vec::new()).unwrap();
                }
            }
        });
        for worker in [worker, other] {
            scope.spawn(move || {
                for _ in 0..rounds {
                    let handler = begin(worker, vec![numbers(1, &[3.0])], Vec::new()).unwrap();
                    worker.wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
                }
            });
        }
    });
    let collect = |passages_max| {
        let bounds = RecordingBounds { passages_max, timeout: SOON };
        let recording = Recording::of_everybody(bed.scheduler.address(), bounds).unwrap();
        let own = recording.processes[&NodeId::new(9)].clone();
        (own.passages.iter().map(|it| it.number).collect::<Vec<_>>(), own.left_out)
    };
    assert_eq!(collect(1 << 20), ((1..=rounds).collect(), 0));
    assert_eq!(collect(5), ((rounds - 4..=rounds).collect(), rounds - 5));
    assert_eq!(collect(1200), ((201..=rounds).collect(), 200));
}

#[test]
fn what_cannot_be_traced_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let refused = |scheduler: &str, path: &Path, status: i32, names: &[&str]| {
        let output = rondo_trace(scheduler, path);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(names.iter().all(|name| said.contains(name)), "{names:?}: {said}");
    };
    // Nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = free.local_addr().unwrap().to_string();
    drop(free);
    refused(&nobody, &path, 7, &["no scheduler of an exchange answers", &nobody]);
    // Somebody listens, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let began = Instant::now();
    let mute = silent.local_addr().unwrap().to_string();
    refused(&mute, &path, 7, &["did not tell all within 5000 ms", &mute]);
    assert!(began.elapsed() < SOON);
    // A scheduler to which nobody came, and one to which not all did.
    let settings = scheduler::Settings::default();
    let lonely = Scheduler::start(settings, "127.0.0.1", 0, false).unwrap();
    refused(lonely.address(), &path, 8, &["nobody takes part: no process has registered"]);
    let settings = Settings {
        join_timeout: Some(SOON),
        ..Settings::new(Role::Server, Sizes { workers: 2, servers: 1, group: 1 }, lonely.address())
    };
    let waiting = std::thread::spawn(move || Exchange::start(settings, &mut always));
    let until = Instant::now() + SOON;
    while lonely.report().members.is_empty() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(5));
    }
    refused(lonely.address(), &path, 8, &["1 of 3 processes have registered"]);
    assert!(!path.exists());
    drop(lonely);
    // The one that waits needs not be waited for.
    drop(waiting);
    // A file that cannot be.
    let bed = Bed::new(1, 1, 1, Ways::default());
    let (workers, servers) = bed.start();
    let path = folder.path().join("no such folder").join("trace.json");
    refused(bed.scheduler.address(), &path, 1, &["cannot be written to", "no such folder"]);
    drop((workers, servers));
}

/// The former trace is gone only once the new one is complete.
#[test]
fn a_trace_that_cannot_be_written_leaves_the_former_one() {
    let bed = Bed::new(1, 1, 1, Ways::default());
    let (workers, servers) = bed.start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    std::fs::write(&path, "precious").unwrap();
    // A file system that takes nothing more: no process may make a file longer than 0 bytes.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]);
    command.arg(rondo_tests::binary::rondo());
    command.args(["trace", "--scheduler", bed.scheduler.address(), "--output"]).arg(&path);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot be written to"), "{said}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "something is left beside it");
    // With room, the new one takes its place.
    let output = rondo_trace(bed.scheduler.address(), &path);
    assert!(output.status.success(), "{output:?}");
    let trace: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert!(trace["traceEvents"].is_array(), "{trace}");
    drop((workers, servers));
}

/// Others may have written to it, and may go on.
#[test]
fn a_trace_on_the_standard_output_replaces_no_file() {
    let bed = Bed::new(1, 1, 1, Ways::default());
    let (workers, servers) = bed.start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.txt");
    for output in ["-", "/dev/stdout"] {
        std::fs::write(&path, "before\n").unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        let mut command = Command::new(rondo_tests::binary::rondo());
        command.args(["trace", "--scheduler", bed.scheduler.address(), "--output", output]);
        let output = command.stdout(file.try_clone().unwrap()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        std::io::Write::write_all(&mut file, b"\nbehind").unwrap();
        let all = std::fs::read_to_string(&path).unwrap();
        let trace = all.strip_prefix("before\n").and_then(|all| all.strip_suffix("\nbehind"));
        let trace = trace.unwrap_or_else(|| panic!("the file was replaced: {all}"));
        let trace: Value = serde_json::from_str(trace).unwrap();
        assert!(trace["traceEvents"].is_array(), "{trace}");
    }
    drop((workers, servers));
}

#[test]
fn somebody_who_looks_on_disturbs_nobody() {
    let config = Config { observers_max: 2, ..Config::default() };
    let bed = Bed::with(2, 1, 1, Ways::default(), config);
    let all = three(&bed, [0; 3]);
    std::thread::scope(|scope| {
        let looking: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    let of = || {
                        let bounds = RecordingBounds { passages_max: 10, timeout: SOON };
                        Recording::of_everybody(bed.scheduler.address(), bounds)
                    };
                    (0..20).map(|_| of().map(drop)).collect::<Vec<_>>()
                })
            })
            .collect();
        exchange(&all, 20);
        let ended: Vec<_> = looking.into_iter().flat_map(|it| it.join().unwrap()).collect();
        assert!(ended.iter().any(Result::is_ok));
        for status in ended.into_iter().filter_map(Result::err) {
            assert_eq!(status.code, Code::ResourceExhausted, "{status}");
            assert!(status.message.contains("observers_max"), "{status}");
        }
    });
    let (two, lasts) =
        (Recording::of_everybody(bed.scheduler.address(), RecordingBounds::default()), 40);
    assert_eq!(two.unwrap().processes[&NodeId::new(9)].passages.len(), lasts);
}
