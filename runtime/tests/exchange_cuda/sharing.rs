//! Processes of one host that see the same GPU: tensors do not leave it.

use std::time::Instant;

use rondo_core::exchange::{Key, WorkerRank};

use super::bed::*;
use super::double::Hardware;

const LENGTH: usize = 100_000;
const STAGING: usize = 1 << 20;

#[test]
fn who_sees_the_device_copies_from_it_and_nothing_is_staged() {
    let hardware = Hardware::new(3, 1 << 30);
    // The same device has another number in the other process.
    let (near, far) = (hardware.process(&[2], STAGING), hardware.process(&[1, 2], STAGING));
    let (worker, server) = start(shared(), Some(&near), Some(&far));
    meet(&worker, &server);
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
        let seen = hardware.seen_by(their_stream, slot.pointer(), LENGTH);
        assert_eq!(seen, counted(LENGTH, seed));
        // Its first device is not seen by the worker: what is there is staged.
        let (answer, _) = made(&hardware, &far, &counted(LENGTH, seed + 100));
        server.respond(batch[0].handler, vec![(info(LENGTH), answer.into())]).unwrap();
        wait(&worker, handler);
        assert_eq!(hardware.seen_by(stream, pull.pointer(), LENGTH), counted(LENGTH, seed + 100));
        let after = hardware.counts();
        let copies = [after.up - before.up, after.down - before.down, after.across - before.across];
        assert_eq!(copies, [1, 1, 1]);
    }
    drop((worker, server));
    drop((near, far));
    hardware.assert_sound();
}

#[test]
fn what_nobody_has_a_place_for_comes_to_the_host() {
    let hardware = Hardware::new(1, 1 << 30);
    let (near, far) = (hardware.process(&[0], STAGING), hardware.process(&[0], STAGING));
    let (worker, server) = start(shared(), Some(&near), Some(&far));
    meet(&worker, &server);
    let (first, _) = made(&hardware, &near, &counted(LENGTH, 1));
    let second = near.allocate(GPU, 0).unwrap();
    let pull = on_host(&[0; 50]);
    let pushes = vec![tensor(1, first), tensor(2, second)];
    let handler = begin(&worker, pushes, vec![tensor(1, pull.clone())]).unwrap();
    let batch = server.get_batch(&mut always).unwrap();
    let found = batch[0].tensors[0].payload.host().unwrap().to_vec();
    assert_eq!(found, counted(LENGTH, 1));
    assert!(batch[0].tensors[1].payload.is_empty());
    let (answer, _) = made(&hardware, &far, &counted(50, 2));
    server.respond(batch[0].handler, vec![(info(50), answer.into())]).unwrap();
    wait(&worker, handler);
    assert_eq!(pull.to_vec(), counted(50, 2));
    let counts = hardware.counts();
    assert_eq!((counts.up, counts.down), (0, 2), "straight from the other process' device");
    drop((worker, server));
    drop((near, far));
    hardware.assert_sound();
}

#[test]
fn memory_that_cannot_be_opened_is_staged_after_all() {
    let hardware = Hardware::new(1, 1 << 30);
    // The driver opens no memory of the process' own, which both ends are here.
    let cuda = hardware.process(&[0], STAGING);
    let (worker, server) = start(shared(), Some(&cuda), Some(&cuda));
    meet(&worker, &server);
    for seed in 0..3 {
        let (push, _) = made(&hardware, &cuda, &counted(LENGTH, seed));
        let (pull, stream) = room(&hardware, &cuda, LENGTH);
        let pulls = vec![tensor(1, pull.clone())];
        let handler = begin(&worker, vec![tensor(9, push)], pulls).unwrap();
        let batch = server.get_batch(&mut always).unwrap();
        let found = batch[0].tensors[0].payload.to_host().unwrap().to_vec();
        assert_eq!(found, counted(LENGTH, seed));
        let (answer, _) = made(&hardware, &cuda, &counted(LENGTH, seed + 100));
        server.respond(batch[0].handler, vec![(info(LENGTH), answer.into())]).unwrap();
        wait(&worker, handler);
        assert_eq!(hardware.seen_by(stream, pull.pointer(), LENGTH), counted(LENGTH, seed + 100));
    }
    assert_eq!(hardware.counts().across, 0);
    drop((worker, server));
    hardware.assert_sound();
}

#[test]
fn what_does_not_fit_the_receivers_pinned_memory_is_staged_by_the_sender() {
    let hardware = Hardware::new(1, 1 << 30);
    // One tensor takes two blocks; of two short ones, each takes the one that there is.
    for lengths in [vec![LENGTH], vec![40_000, 40_000]] {
        let (near, far) = (hardware.process(&[0], STAGING), hardware.process(&[0], 64 << 10));
        let (worker, server) = start(shared(), Some(&near), Some(&far));
        meet(&worker, &server);
        let pushes = lengths.iter().zip(1..).map(|(length, key)| {
            let (push, _) = made(&hardware, &near, &counted(*length, 1));
            tensor(key, push)
        });
        let handler = begin(&worker, pushes.collect(), vec![]).unwrap();
        let until = Instant::now() + SOON;
        let batch = server.get_batch(&mut || Instant::now() < until).unwrap();
        for (tensor, length) in batch[0].tensors.iter().zip(&lengths) {
            assert_eq!(tensor.payload.to_host().unwrap().to_vec(), counted(*length, 1));
        }
        server.respond(batch[0].handler, vec![]).unwrap();
        wait(&worker, handler);
        drop((batch, worker, server));
        drop((near, far));
        hardware.assert_sound();
    }
}
