//! Processes of one host that cannot share memory: one of them maps none, or not as much as the other has.

use rondo::exchange::{Exchange, Settings, Ways};
use rondo_core::exchange::Role;
use rondo_core::exchange::worker::Since;

use crate::bed::{Bed, SOON, always, begin, numbers, room, values};

/// Shared memory of so many bytes, and no Unix sockets.
const fn shared(shared_bytes: u64) -> Ways {
    Ways { unix: false, shared_bytes }
}

/// No system maps so much.
const UNMAPPABLE: Ways = shared(1 << 60);

/// Starts a worker and a server with ways of their own. The server answers the worker with what it pushed.
fn is_answered(worker_ways: Ways, server_ways: Ways) {
    let bed = Bed::new(1, 1, 1, Ways::default());
    let start = |role: Role, ways: Ways| {
        let settings = Settings { ways, ..bed.settings(role, 0) };
        std::thread::spawn(move || Exchange::start(settings, &mut always))
    };
    let begun = [start(Role::Worker, worker_ways), start(Role::Server, server_ways)];
    let [worker, server] = begun.map(|it| it.join().unwrap().unwrap());
    let serving = std::thread::spawn(move || {
        for unit in server.get_batch(&mut always).unwrap() {
            let answer = numbers(0, &values(&unit.tensors[0].payload));
            server.respond(unit.handler, vec![(answer.info, answer.payload)]).unwrap();
        }
        server
    });
    let pushed: Vec<f32> = (0..100_000_u32).map(|at| at as f32).collect();
    let pull = room(1, pushed.len());
    let handler = begin(&worker, vec![numbers(0, &pushed)], vec![pull.clone()]).unwrap();
    let answered = worker.wait(handler, Some(SOON), Since::Call, &mut always);
    answered.unwrap_or_else(|error| panic!("{worker_ways:?} {server_ways:?}: {error}"));
    assert!(values(&pull.payload) == pushed, "{worker_ways:?} {server_ways:?}");
    drop(serving.join().unwrap());
}

#[test]
fn a_process_that_cannot_map_memory_is_reached_by_other_ways() {
    is_answered(shared(16 << 20), UNMAPPABLE);
    is_answered(UNMAPPABLE, shared(16 << 20));
    let with_unix = |ways: Ways| Ways { unix: true, ..ways };
    is_answered(with_unix(shared(16 << 20)), with_unix(UNMAPPABLE));
}

#[test]
fn a_process_that_takes_less_memory_than_the_other_lends_is_reached_by_other_ways() {
    is_answered(shared(16 << 20), shared(32 << 20));
    is_answered(shared(32 << 20), shared(16 << 20));
}
