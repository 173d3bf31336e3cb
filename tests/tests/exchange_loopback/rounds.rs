//! Rounds: units of all workers taken, answered, and received.

use std::time::Duration;

use rondo::exchange::Ways;
use rondo::tensor::Region;
use rondo_core::exchange::message::Scope;
use rondo_core::exchange::server::RowsOf;
use rondo_core::exchange::worker::Since;
use rondo_core::exchange::{
    Handler, Key, Mask, ScalarType, ServerRank, TensorInfo, UnitHandler, WorkerRank,
};

use crate::bed::{
    Bed, SOON, all_ways, always, at_once, begin, begin_push_pull, list, numbers, register, room,
    values,
};

/// Workers push several tensors; each server answers with their sum, times its rank and one.
#[test]
fn each_server_answers_each_worker_with_what_it_made_of_its_own_tensors() {
    for ways in all_ways() {
        for (workers, servers, length) in [(1, 1, 3), (2, 2, 100_000), (3, 1, 1)] {
            let bed = Bed::new(workers, servers, 1, ways);
            let (all_workers, all_servers) = bed.start();
            const ROUNDS: usize = 20;
            let serving = std::thread::spawn(move || {
                at_once(&all_servers, |server, exchange| {
                    for _ in 0..ROUNDS {
                        let batch = exchange.get_batch(&mut always).unwrap();
                        assert_eq!(batch.len(), workers as usize);
                        for (rank, unit) in batch.into_iter().enumerate() {
                            assert_eq!(unit.worker, WorkerRank::new(rank as u32));
                            let keys: Vec<u64> =
                                unit.tensors.iter().map(|it| it.key.get()).collect();
                            assert_eq!(keys, [7, 8]);
                            let [a, b] = [0, 1].map(|at: usize| values(&unit.tensors[at].payload));
                            let factor = (server + 1) as f32;
                            let sums: Vec<f32> =
                                a.iter().zip(&b).map(|(a, b)| (a + b) * factor).collect();
                            let answer = numbers(0, &sums);
                            let tensors = vec![(answer.info, answer.payload)];
                            exchange.respond(unit.handler, tensors).unwrap();
                        }
                    }
                });
                all_servers
            });
            at_once(&all_workers, |worker, exchange| {
                for round in 0..ROUNDS {
                    let value = |at: usize| (worker * 1000 + round * 10 + at % 7) as f32;
                    let pushed: Vec<f32> = (0..length).map(value).collect();
                    let pushes = vec![numbers(7, &pushed), numbers(8, &vec![1.0; length])];
                    let pulls: Vec<_> = (0..servers as u64).map(|key| room(key, length)).collect();
                    let handler = begin_push_pull(exchange, pushes, pulls.clone()).unwrap();
                    exchange.wait(handler, Some(SOON), Since::Request, &mut always).unwrap();
                    for (server, pull) in pulls.iter().enumerate() {
                        let factor = (server + 1) as f32;
                        let expected: Vec<f32> =
                            pushed.iter().map(|value| (value + 1.0) * factor).collect();
                        assert!(values(&pull.payload) == expected, "{ways:?} {worker} {round}");
                    }
                }
            });
            let all_servers = serving.join().unwrap();
            let all: Vec<_> = all_workers.into_iter().chain(all_servers).collect();
            std::thread::scope(|scope| {
                for exchange in all {
                    scope.spawn(|| exchange.stop(Some(SOON), &mut always).unwrap());
                }
            });
            bed.scheduler.ended(&mut always).unwrap();
        }
    }
}

/// Processes of a group talk to those of their own index only.
#[test]
fn groups_exchange_index_by_index() {
    let bed = Bed::new(2, 1, 2, Ways::default());
    let (workers, servers) = bed.start();
    let serving = std::thread::spawn(move || {
        at_once(&servers, |index, exchange| {
            let batch = exchange.get_batch(&mut always).unwrap();
            assert_eq!(batch.len(), 2);
            for unit in batch {
                let first = values(&unit.tensors[0].payload)[0];
                assert_eq!(first, (unit.worker.get() * 2) as f32 + index as f32);
                let answer = numbers(0, &[-first]);
                exchange.respond(unit.handler, vec![(answer.info, answer.payload)]).unwrap();
            }
        });
        servers
    });
    at_once(&workers, |rank, exchange| {
        let pull = room(1, 1);
        let pushes = vec![numbers(0, &[rank as f32])];
        let handler = begin(exchange, pushes, vec![pull.clone()]).unwrap();
        exchange.wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
        assert_eq!(values(&pull.payload), [-(rank as f32)]);
        // One of each group: of all four the last one would be alone if the others came before it.
        if rank % 2 == 0 {
            exchange.barrier(Mask::WORKERS, Scope::Group, Some(SOON), &mut always).unwrap();
        }
    });
    drop(serving.join().unwrap());
}

#[test]
fn pushes_land_in_registered_buffers_and_rows_answer() {
    for ways in all_ways() {
        let bed = Bed::new(2, 1, 1, ways);
        let (workers, servers) = bed.start();
        let server = &servers[0];
        let buffer = Region::allocate(2 * 4 * 50);
        let (ranks, keys) = ([0, 1].map(WorkerRank::new), [9, 9].map(Key::new));
        register(server, buffer.clone(), ranks.to_vec(), keys.to_vec()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let batch = server.get_batch(&mut always).unwrap();
                let info = TensorInfo::new(ScalarType::Float, &[4, 2]).unwrap();
                for (rank, unit) in batch.iter().enumerate() {
                    let slot = buffer.part(rank * 200, 120).unwrap();
                    let there = unit.tensors[0].payload.host().unwrap();
                    assert_eq!(there.as_ptr(), slot.as_ptr(), "{ways:?}");
                    assert_eq!(values(&slot.into()), vec![rank as f32 + 1.0; 30]);
                }
                let of = |at: usize, first| RowsOf { unit: batch[at].handler, first, rows: 2 };
                let rows = numbers(0, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
                server.respond_rows((info, rows.payload), &[of(0, 0), of(1, 2)]).unwrap();
            });
            at_once(&workers, |rank, exchange| {
                let pull = room(1, 4);
                let pushes = vec![numbers(9, &[rank as f32 + 1.0; 30])];
                let handler = begin(exchange, pushes, vec![pull.clone()]).unwrap();
                exchange.wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
                let first = 4.0 * rank as f32;
                let expected = [first, first + 1.0, first + 2.0, first + 3.0];
                assert_eq!(values(&pull.payload), expected, "{ways:?}");
            });
        });
    }
}

#[test]
fn handlers_are_consecutive_and_a_trace_tells_where_time_went() {
    let bed = Bed::new(1, 1, 1, Ways::default());
    let (workers, servers) = bed.start();
    let (worker, server) = (&workers[0], &servers[0]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 {
                let batch = server.get_batch(&mut always).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                let answer = numbers(0, &[1.0]);
                server.respond(batch[0].handler, vec![(answer.info, answer.payload)]).unwrap();
            }
        });
        for first in [0, 3] {
            let pushes = vec![numbers(1, &[1.0; 4]), numbers(2, &[2.0])];
            let handler = begin_push_pull(worker, pushes, vec![room(3, 1)]).unwrap();
            assert_eq!(handler, Handler::new(first));
            let all = [first, first + 1, first + 2].map(Handler::new);
            assert_eq!(worker.get_all_handlers(handler).unwrap(), all);
            worker.wait(handler, Some(SOON), Since::Request, &mut always).unwrap();
            assert_eq!(worker.get_all_handlers(handler).unwrap(), [handler]);
            for (handler, at_least) in [(first, 0), (first + 2, 20_000_000)] {
                let stamps = *worker.fetch_trace(Handler::new(handler)).unwrap().get();
                assert!(stamps.is_sorted() && stamps[0] > 0, "one clock: {stamps:?}");
                assert!(stamps[4] - stamps[3] >= at_least, "the server's time: {stamps:?}");
                assert!(stamps[7] <= worker.nanos());
            }
        }
    });
    let offset = worker.offset(ServerRank::new(0)).unwrap().unwrap();
    assert!(offset.nanos.unsigned_abs() <= offset.error_nanos, "one clock: {offset:?}");
}

/// Units go out one of each worker at a time; those that came later wait.
#[test]
fn a_server_that_waits_for_nobody_takes_what_is_there() {
    let bed = Bed::new(1, 1, 1, Ways::default());
    let (workers, servers) = bed.start();
    let handlers: Vec<Handler> = (0..5)
        .map(|key| begin_push_pull(&workers[0], vec![numbers(key, &[1.0]); 1], vec![]).unwrap())
        .collect();
    for unit in 0..5 {
        let batch = servers[0].get_batch(&mut always).unwrap();
        assert_eq!(batch[0].handler, UnitHandler::new(unit));
        assert_eq!(batch[0].tensors[0].info, list(1));
        servers[0].respond(batch[0].handler, vec![]).unwrap();
    }
    for handler in handlers {
        workers[0].wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
    }
}
