//! What `rondo exchange scheduler --log json` logs of those who take part.

use std::process::Command;
use std::time::{Duration, Instant};

use rondo::exchange::{Exchange, Settings};
use rondo_core::exchange::Role;
use rondo_core::exchange::membership::Sizes;
use rondo_tests::process::Process;
use serde_json::{Value, json};

use crate::bed::{SOON, always};

/// The fields of the line with this message, once it is there.
fn fields(scheduler: &Process, message: &str) -> Value {
    let began = Instant::now();
    loop {
        let log = scheduler.log();
        let lines = log.lines().map(|line| {
            let line: Result<Value, _> = serde_json::from_str(line);
            line.unwrap_or_else(|error| panic!("{error}: {log}"))
        });
        let mut fields = lines.map(|mut line| line["fields"].take());
        if let Some(found) = fields.find(|fields| fields["message"] == message) {
            return found;
        }
        assert!(began.elapsed() < SOON, "nothing says {message:?}:\n{log}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_log_of_a_scheduler_has_a_field_for_each_fact() {
    let mut command = Command::new(rondo_tests::binary::rondo());
    command.args(["exchange", "scheduler", "--listen=127.0.0.1:0", "--log=json"]);
    let mut scheduler = Process::start("rondo exchange scheduler", &mut command);
    let address = fields(&scheduler, "scheduler of an exchange")["address"].take();
    let address = address.as_str().unwrap();
    let sizes = Sizes { workers: 1, servers: 1, group: 1 };
    let of = |role| Settings { join_timeout: Some(SOON), ..Settings::new(role, sizes, address) };
    let server = of(Role::Server);
    let server = std::thread::spawn(move || Exchange::start(server, &mut always));
    let worker = Exchange::start(of(Role::Worker), &mut always).unwrap();
    let server = server.join().unwrap().unwrap();
    let begun = fields(&scheduler, "all processes have registered");
    let counts = json!({"workers": 1, "servers": 1, "group": 1});
    for (name, count) in counts.as_object().unwrap() {
        assert_eq!(&begun[name], count, "{begun}");
    }
    assert!(begun["membership"].is_u64(), "{begun}");
    // A process that breaks its connection is lost a while later.
    drop(worker);
    let lost = fields(&scheduler, "a process is lost");
    assert_eq!((&lost["role"], &lost["rank"]), (&json!("worker"), &json!(0)), "{lost}");
    assert!(lost["reason"].is_string() && lost["incarnation"].is_string(), "{lost}");
    drop(server);
    scheduler.signal("TERM");
    let ended = scheduler.wait(SOON);
    for debug in ["Some(", "None", "Lost(", " { "] {
        assert!(!ended.log.contains(debug), "{debug:?} in {}", ended.log);
    }
}
