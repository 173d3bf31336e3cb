//! What cannot be is refused where it is asked, and nobody else suffers.

use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use rondo::exchange::{Exchange, Scheduler, Settings, Ways};
use rondo::tensor::Region;
use rondo_core::exchange::membership::Sizes;
use rondo_core::exchange::worker::Since;
use rondo_core::exchange::{Handler, Key, Role, UnitHandler, WorkerRank, scheduler};
use rondo_core::status::{Code, Status};

use crate::bed::{Bed, SOON, always, begin, list, numbers, register, room, values};

#[test]
fn a_worker_is_told_what_is_wrong() {
    let bed = Bed::new(1, 2, 1, Ways::default());
    let (workers, servers) = bed.start();
    let worker = &workers[0];
    let refused = |result: Result<Handler, rondo::exchange::Error>, says: &[&str]| {
        let error = result.unwrap_err();
        assert_eq!(error.status.code, Code::InvalidArgument, "{error}");
        for word in says {
            assert!(error.to_string().contains(word), "{error}: {word}");
        }
    };
    refused(begin(worker, vec![], vec![]), &[]);
    refused(begin(worker, vec![numbers(1, &[1.0])], vec![room(5, 1)]), &["2"]);
    let fixed = numbers(6, &[1.0]);
    refused(begin(worker, vec![], vec![fixed.clone(), fixed]), &["6"]);
    let wait = worker.wait(Handler::new(17), Some(SOON), Since::Call, &mut always);
    let error = wait.unwrap_err();
    assert_eq!(error.status.code, Code::NotFound, "{error}");
    assert!(error.to_string().contains("17"), "{error}");
    let error = worker.get_batch(&mut always).unwrap_err();
    assert_eq!(error.status.code, Code::FailedPrecondition, "{error}");
    assert!(error.to_string().contains("worker") && error.to_string().contains("server"));
    let handler = begin(worker, vec![numbers(1, &[1.0])], vec![]).unwrap();
    let wait = worker.wait(handler, Some(Duration::from_millis(100)), Since::Call, &mut always);
    let error = wait.unwrap_err();
    assert_eq!(error.status.code, Code::DeadlineExceeded, "{error}");
    for server in &servers {
        let batch = server.get_batch(&mut always).unwrap();
        server.respond(batch[0].handler, vec![]).unwrap();
    }
    worker.wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
    let error = worker.wait(handler, Some(SOON), Since::Call, &mut always).unwrap_err();
    assert_eq!(error.status.code, Code::NotFound, "waited for twice: {error}");
}

#[test]
fn a_server_is_told_what_is_wrong_and_may_do_it_right() {
    let bed = Bed::new(1, 1, 1, Ways::default());
    let (workers, servers) = bed.start();
    let server = &servers[0];
    let error = server.respond(UnitHandler::new(3), vec![]).unwrap_err();
    assert_eq!(error.status.code, Code::NotFound, "{error}");
    let pull = room(2, 3);
    let handler = begin(&workers[0], vec![numbers(1, &[1.0])], vec![pull.clone()]).unwrap();
    let unit = server.get_batch(&mut always).unwrap().remove(0).handler;
    let error = server.respond(unit, vec![]).unwrap_err();
    assert_eq!(error.status.code, Code::InvalidArgument, "{error}");
    let short = numbers(0, &[1.0, 2.0]);
    let error = server.respond(unit, vec![(short.info, short.payload)]).unwrap_err();
    assert!(error.to_string().contains('8') && error.to_string().contains("12"), "{error}");
    let right = numbers(0, &[1.0, 2.0, 3.0]);
    server.respond(unit, vec![(right.info, right.payload.clone())]).unwrap();
    let error = server.respond(unit, vec![(right.info, right.payload)]).unwrap_err();
    assert_eq!(error.status.code, Code::FailedPrecondition, "{error}");
    workers[0].wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
    assert_eq!(values(&pull.payload), [1.0, 2.0, 3.0]);
    let fixed = Region::from(Bytes::from_static(&[0; 8]));
    let refusal = |buffer, workers: &[u32]| {
        let workers: Vec<WorkerRank> = workers.iter().copied().map(WorkerRank::new).collect();
        let keys = workers.iter().map(|_| Key::new(9)).collect();
        register(server, buffer, workers, keys).unwrap_err().status.code
    };
    assert_eq!(refusal(fixed, &[0]), Code::InvalidArgument);
    assert_eq!(refusal(Region::allocate(7), &[0, 0]), Code::InvalidArgument);
    assert_eq!(refusal(Region::allocate(8), &[5]), Code::InvalidArgument);
}

#[test]
fn a_push_that_is_larger_than_its_slot_is_refused_to_who_pushes_it() {
    let bed = Bed::new(1, 1, 1, Ways::default());
    let (workers, servers) = bed.start();
    let (ranks, keys) = (vec![WorkerRank::new(0)], vec![Key::new(9)]);
    register(&servers[0], Region::allocate(8), ranks, keys).unwrap();
    let handler = begin(&workers[0], vec![numbers(9, &[1.0; 3])], vec![]).unwrap();
    let error = workers[0].wait(handler, Some(SOON), Since::Call, &mut always).unwrap_err();
    let text = error.to_string();
    assert!(text.contains('9') && text.contains("12") && text.contains('8'), "{text}");
    let handler = begin(&workers[0], vec![numbers(9, &[1.0; 2])], vec![]).unwrap();
    let batch = servers[0].get_batch(&mut always).unwrap();
    assert_eq!(batch[0].tensors[0].info, list(2));
    servers[0].respond(batch[0].handler, vec![]).unwrap();
    workers[0].wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
}

#[test]
fn processes_that_contradict_each_other_are_told_what_both_say() {
    let bed = Bed::new(1, 1, 1, Ways::default());
    let (workers, servers) = bed.start();
    let start = |settings| match Exchange::start(settings, &mut always) {
        Ok(_) => panic!("it takes part"),
        Err(error) => error,
    };
    let error = start(bed.settings(Role::Worker, 0));
    assert_eq!(error.status.code, Code::AlreadyExists, "{error}");
    let error = start(bed.settings(Role::Worker, 4));
    assert!(error.to_string().contains('4'), "{error}");
    let mut other = bed.settings(Role::Server, 0);
    other.sizes = Sizes { workers: 5, servers: 1, group: 1 };
    let error = start(other);
    assert!(error.to_string().contains('5'), "{error}");
    drop((workers, servers));
}

#[test]
fn nobody_who_comes_is_waited_for_no_longer_than_said() {
    let bed = Bed::new(1, 1, 1, Ways::default());
    let mut settings = bed.settings(Role::Worker, 0);
    settings.join_timeout = Some(Duration::from_millis(200));
    let error = Exchange::start(settings, &mut always).err().expect("there is no server");
    assert_eq!(error.status.code, Code::DeadlineExceeded, "{error}");
    let mut settings = bed.settings(Role::Worker, 0);
    settings.scheduler = "127.0.0.1:1".into();
    settings.join_timeout = Some(Duration::from_millis(200));
    let error = Exchange::start(settings, &mut always).err().expect("there is no scheduler");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

/// Each way to allow an address that other machines can reach.
const WAYS_TO_ALLOW: [&str; 3] = ["--insecure", "`insecure`", "RONDO_INSECURE=true"];

fn is_exposed(status: &Status) {
    assert_eq!(status.code, Code::InvalidArgument, "{status}");
    for word in WAYS_TO_ALLOW.into_iter().chain(["0.0.0.0:", "other machines"]) {
        assert!(status.message.contains(word), "{word}: {status}");
    }
}

#[test]
fn an_address_that_other_machines_can_reach_is_refused_unless_it_is_allowed() {
    let start = |insecure| {
        Scheduler::start(scheduler::Settings::default(), "0.0.0.0", 0, insecure).map(drop)
    };
    is_exposed(&start(false).unwrap_err());
    start(true).unwrap();
    let bed = Bed::new(1, 1, 1, Ways::default());
    let exposed = Settings { host: "0.0.0.0".into(), ..bed.settings(Role::Server, 0) };
    let error = Exchange::start(exposed.clone(), &mut always).err().expect("it is refused");
    is_exposed(&error.status);
    // A worker listens nowhere.
    let host = exposed.host.clone();
    let worker = Settings { host, ..bed.settings(Role::Worker, 0) };
    let worker = std::thread::spawn(move || Exchange::start(worker, &mut always));
    let allowed = Settings { insecure: true, ..exposed };
    let server = Exchange::start(allowed, &mut always).unwrap();
    drop((worker.join().unwrap().unwrap(), server));
}

#[test]
fn the_command_line_refuses_such_an_address_as_a_wrong_use() {
    let mut command = Command::new(rondo_tests::binary::rondo());
    command.args(["exchange", "scheduler", "--listen=0.0.0.0:0"]).env_remove("RONDO_INSECURE");
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    for word in WAYS_TO_ALLOW {
        assert!(said.contains(word), "{word}: {said}");
    }
}
