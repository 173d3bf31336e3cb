//! A GPU that is long about what a program has begun on it keeps nobody waiting but who wants what it makes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rondo_core::exchange::ScalarType;

use super::bed::*;
use super::double::Hardware;

const LENGTH: usize = 100_000;
/// The worker's pinned memory: for one tensor.
const STAGING: usize = 128 << 10;
/// How long calls may take that have nothing to do with the GPU's work.
const PROMPT: Duration = Duration::from_millis(1500);

#[test]
fn calls_are_answered_while_what_came_waits_for_the_programs_stream() {
    for (ways, sees) in [(all_ways()[0], 0), (shared(), 0), (shared(), 1)] {
        let hardware = Hardware::new(2, 1 << 30);
        let (near, far) = (hardware.process(&[0], STAGING), hardware.process(&[sees], 1 << 20));
        let (worker, server) = start(ways, Some(&near), Some(&far));
        meet(&worker, &server);
        let stream = hardware.stream();
        let gate = hardware.gate(stream);
        let opened = gate.clone();
        let opener = std::thread::spawn(move || {
            std::thread::sleep(2 * PROMPT);
            opened.store(true, Ordering::SeqCst);
        });
        let mut under_way = Vec::new();
        for seed in 0..2 {
            let pull = near.allocate(GPU, LENGTH).unwrap().after(stream).unwrap();
            let pulls = vec![tensor(seed, pull.clone())];
            let handler = begin(&worker, vec![tensor(seed, on_host(&[1]))], pulls).unwrap();
            let batch = server.get_batch(&mut always).unwrap();
            let (answer, _) = made(&hardware, &far, &counted(LENGTH, seed as usize));
            server.respond(batch[0].handler, vec![(info(LENGTH), answer.into())]).unwrap();
            under_way.push((handler, pull));
        }
        let began = Instant::now();
        while began.elapsed() < PROMPT / 3 {
            assert!(worker.membership().is_some());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(began.elapsed() < PROMPT, "{ways:?}: a call waited for the stream");
        assert!(!gate.load(Ordering::SeqCst));
        opener.join().unwrap();
        for (seed, (handler, pull)) in under_way.into_iter().enumerate() {
            wait(&worker, handler);
            let seen = hardware.seen_by(stream, pull.pointer(), LENGTH);
            assert_eq!(seen, counted(LENGTH, seed), "{ways:?}");
        }
        drop((worker, server));
        hardware.assert_sound();
    }
}

#[test]
fn tensors_of_host_and_gpu_in_one_frame_are_staged_before_they_are_sent() {
    let hardware = Hardware::new(1, 1 << 30);
    let (near, far) = (hardware.process(&[0], 1 << 20), hardware.process(&[0], 1 << 20));
    let (worker, server) = start(shared(), Some(&near), Some(&far));
    meet(&worker, &server);
    let (push, _) = made(&hardware, &near, &counted(LENGTH, 1));
    let pushes = vec![tensor(1, push), tensor(2, on_host(&counted(LENGTH, 2)))];
    let handler = begin(&worker, pushes, vec![]).unwrap();
    assert_eq!(hardware.counts().down, 1);
    let batch = server.get_batch(&mut always).unwrap();
    let found = [0, 1].map(|at| batch[0].tensors[at].payload.to_host().unwrap().to_vec());
    assert_eq!(found, [counted(LENGTH, 1), counted(LENGTH, 2)]);
    assert_eq!(batch[0].tensors[0].info.dtype(), ScalarType::Byte);
    server.respond(batch[0].handler, vec![]).unwrap();
    wait(&worker, handler);
    drop((worker, server));
    hardware.assert_sound();
}

#[test]
fn what_could_never_be_staged_is_not_pulled() {
    let hardware = Hardware::new(1, 1 << 30);
    // For two tensors.
    let cuda = hardware.process(&[0], 2 * STAGING);
    let (worker, server) = start(all_ways()[0], Some(&cuda), None);
    let place = || cuda.allocate(GPU, LENGTH).unwrap();
    let pulls = (0..3).map(|key| tensor(key, place())).collect();
    let error = begin(&worker, vec![tensor(1, on_host(&[1]))], pulls).unwrap_err().to_string();
    assert!(error.contains("300000") && error.contains("(staging_bytes_max)"), "{error}");
    let pulls = (0..2).map(|key| tensor(key, place())).collect();
    let handler = begin(&worker, vec![tensor(1, on_host(&[1]))], pulls).unwrap();
    let batch = server.get_batch(&mut always).unwrap();
    let answers = [3, 4].map(|seed| (info(LENGTH), on_host(&counted(LENGTH, seed)).into()));
    server.respond(batch[0].handler, answers.to_vec()).unwrap();
    wait(&worker, handler);
    drop((worker, server));
    hardware.assert_sound();
}
