//! Rounds between GPUs: each tensor is copied once from its GPU and once onto the other.

use rondo_core::exchange::server::RowsOf;
use rondo_core::exchange::{Key, WorkerRank};

use super::bed::*;
use super::double::Hardware;

const LENGTH: usize = 100_000;
const STAGING: usize = 1 << 20;

#[test]
fn a_tensor_on_a_gpu_costs_one_copy_at_each_end() {
    for ways in all_ways() {
        let hardware = Hardware::new(2, 1 << 30);
        let (near, far) = (hardware.process(&[0], STAGING), hardware.process(&[1], STAGING));
        let (worker, server) = start(ways, Some(&near), Some(&far));
        let (slot, their_stream) = room(&hardware, &far, LENGTH);
        let (rank, key) = (vec![WorkerRank::new(0)], vec![Key::new(9)]);
        register(&server, slot.clone(), rank, key).unwrap();
        for seed in 0..5 {
            let before = hardware.counts();
            let (push, _) = made(&hardware, &near, &counted(LENGTH, seed));
            let (pull, stream) = room(&hardware, &near, LENGTH);
            let pulls = vec![tensor(1, pull.clone())];
            let handler = begin(&worker, vec![tensor(9, push)], pulls).unwrap();
            let batch = server.get_batch(&mut always).unwrap();
            let landed = batch[0].tensors[0].payload.cuda().unwrap();
            assert_eq!(landed.pointer(), slot.pointer());
            // The server's kernel runs behind what was received, and before what is sent.
            let seen = hardware.seen_by(their_stream, landed.pointer(), LENGTH);
            assert_eq!(seen, counted(LENGTH, seed), "{ways:?}");
            let (answer, _) = made(&hardware, &far, &counted(LENGTH, seed + 100));
            server.respond(batch[0].handler, vec![(info(LENGTH), answer.into())]).unwrap();
            wait(&worker, handler);
            let seen = hardware.seen_by(stream, pull.pointer(), LENGTH);
            assert_eq!(seen, counted(LENGTH, seed + 100), "{ways:?}");
            let after = hardware.counts();
            let copies = (after.up - before.up, after.down - before.down, after.across);
            assert_eq!(copies, (2, 2, 0), "{ways:?}");
        }
        assert!(hardware.counts().pins <= 8, "staging is used again: {:?}", hardware.counts());
        drop((worker, server));
        drop((near, far));
        hardware.assert_sound();
    }
}

#[test]
fn each_end_has_its_tensors_where_it_likes() {
    for ways in all_ways() {
        let hardware = Hardware::new(1, 1 << 30);
        let cuda = hardware.process(&[0], STAGING);
        // Only the worker has a GPU; then only the server.
        let (worker, server) = start(ways, Some(&cuda), None);
        let (push, _) = made(&hardware, &cuda, &counted(LENGTH, 1));
        let (pull, stream) = room(&hardware, &cuda, LENGTH);
        let pushes = vec![tensor(1, push), tensor(2, on_host(&counted(7, 2)))];
        let host = on_host(&[0; 10]);
        let pulls = vec![tensor(1, pull.clone()), tensor(2, host.clone())];
        let handler = begin(&worker, pushes, pulls).unwrap();
        let batch = server.get_batch(&mut always).unwrap();
        let found = [0, 1].map(|at| batch[0].tensors[at].payload.to_host().unwrap().to_vec());
        assert_eq!(found, [counted(LENGTH, 1), counted(7, 2)], "{ways:?}");
        let answers = [counted(LENGTH, 3), counted(10, 4)];
        let answers = answers.map(|bytes| (info(bytes.len()), on_host(&bytes).into()));
        server.respond(batch[0].handler, answers.to_vec()).unwrap();
        wait(&worker, handler);
        assert_eq!(hardware.seen_by(stream, pull.pointer(), LENGTH), counted(LENGTH, 3));
        assert_eq!(host.to_vec(), counted(10, 4));
        drop((worker, server));

        let (worker, server) = start(ways, None, Some(&cuda));
        let slots = cuda.allocate(GPU, 2 * LENGTH).unwrap();
        let (ranks, keys) = (vec![WorkerRank::new(0); 2], [1, 2].map(Key::new));
        register(&server, slots.clone(), ranks, keys.to_vec()).unwrap();
        let pushes = [1, 2].map(|key| tensor(key, on_host(&counted(LENGTH, key as usize))));
        let pull = on_host(&vec![0; LENGTH]);
        let handler = begin(&worker, pushes.to_vec(), vec![tensor(3, pull.clone())]).unwrap();
        let batch = server.get_batch(&mut always).unwrap();
        batch[0].tensors.iter().for_each(|it| it.payload.cuda().unwrap().wait().unwrap());
        let (rows, unit) = (slots.part(0, 2 * LENGTH).unwrap(), batch[0].handler);
        let of = [RowsOf { unit, first: LENGTH as u64, rows: LENGTH as u64 }];
        server.respond_rows((info(2 * LENGTH), rows.into()), &of).unwrap();
        wait(&worker, handler);
        assert_eq!(pull.to_vec(), counted(LENGTH, 2), "{ways:?}");
        drop((worker, server));
        hardware.assert_sound();
    }
}

#[test]
fn what_comes_next_waits_for_who_still_reads_what_came_before() {
    for (ways, sees) in [(all_ways()[0], 0), (shared(), 0), (shared(), 1)] {
        let hardware = Hardware::new(2, 1 << 30);
        let (near, far) = (hardware.process(&[0], STAGING), hardware.process(&[sees], STAGING));
        let (worker, server) = start(ways, Some(&near), Some(&far));
        let (slot, stream) = room(&hardware, &far, LENGTH);
        let (rank, key) = (vec![WorkerRank::new(0)], vec![Key::new(9)]);
        register(&server, slot.clone(), rank, key).unwrap();
        let mut all = Vec::new();
        for seed in 0..5 {
            let (push, _) = made(&hardware, &near, &counted(LENGTH, seed));
            let handler = begin(&worker, vec![tensor(9, push)], vec![]).unwrap();
            let batch = server.get_batch(&mut always).unwrap();
            // The server's kernel has not run when it says that it is done.
            all.push(hardware.reads(stream, slot.pointer(), LENGTH));
            server.respond(batch[0].handler, vec![]).unwrap();
            wait(&worker, handler);
        }
        hardware.finish_all();
        for (seed, seen) in all.iter().enumerate() {
            let seen = seen.lock().unwrap().take();
            assert_eq!(seen, Some(counted(LENGTH, seed)), "{ways:?}");
        }
        drop((worker, server));
        hardware.assert_sound();
    }
}

#[test]
fn nothing_is_copied_to_what_a_request_pulled_that_was_given_up() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], STAGING);
    let (worker, server) = start(all_ways()[0], Some(&cuda), None);
    for seed in 0..20 {
        let (pull, stream) = room(&hardware, &cuda, LENGTH);
        let pushes = vec![tensor(1, on_host(&[1]))];
        let handler = begin(&worker, pushes, vec![tensor(1, pull.clone())]).unwrap();
        let batch = server.get_batch(&mut always).unwrap();
        let answer = on_host(&counted(LENGTH, seed)).into();
        server.respond(batch[0].handler, vec![(info(LENGTH), answer)]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(seed as u64));
        worker.abandon(handler).unwrap();
        hardware.kernel(stream, pull.pointer(), &counted(LENGTH, 77));
        assert_eq!(hardware.seen_by(stream, pull.pointer(), LENGTH), counted(LENGTH, 77));
        hardware.finish_all();
        assert_eq!(hardware.seen_by(stream, pull.pointer(), LENGTH), counted(LENGTH, 77));
    }
    drop((worker, server));
    hardware.assert_sound();
}
