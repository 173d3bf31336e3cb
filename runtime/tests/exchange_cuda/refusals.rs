//! What GPUs cannot do is said where it is asked, with the bound, and harms nobody else.

use rondo_core::exchange::{Key, WorkerRank};
use rondo_core::status::Code;

use super::bed::*;
use super::double::Hardware;

const LENGTH: usize = 100_000;

#[test]
fn more_than_can_be_staged_is_refused_to_who_sends_it() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 256 << 10);
    let (worker, server) = start(all_ways()[0], Some(&cuda), None);
    let (large, _) = made(&hardware, &cuda, &counted(300 << 10, 1));
    let error = begin(&worker, vec![tensor(1, large.clone())], vec![]).unwrap_err();
    assert_eq!(error.status.code, Code::ResourceExhausted, "{error}");
    let text = error.to_string();
    assert!(text.contains("307200") && text.contains("262144 (staging_bytes_max)"), "{text}");
    // Its kernel runs, though nobody sends what it makes.
    hardware.finish_all();
    drop(large);
    // What fits still goes, and what is staged is given back when it has arrived.
    for seed in 0..10 {
        let (push, _) = made(&hardware, &cuda, &counted(LENGTH, seed));
        let handler = begin(&worker, vec![tensor(1, push)], vec![]).unwrap();
        let batch = server.get_batch(&mut always).unwrap();
        let found = batch[0].tensors[0].payload.to_host().unwrap().to_vec();
        assert_eq!(found, counted(LENGTH, seed));
        server.respond(batch[0].handler, vec![]).unwrap();
        wait(&worker, handler);
    }
    drop((worker, server));
    hardware.assert_sound();
}

#[test]
fn memory_of_gpus_that_were_not_named_is_refused() {
    let hardware = Hardware::new(1, 1 << 30);
    let (cuda, other) = (hardware.process(&[0], 1 << 20), hardware.process(&[0], 1 << 20));
    let (worker, server) = start(all_ways()[0], Some(&cuda), None);
    let strange = || tensor(7, other.allocate(GPU, LENGTH).unwrap());
    for error in [
        begin(&worker, vec![strange()], vec![]).unwrap_err(),
        begin(&worker, vec![tensor(1, on_host(&[1]))], vec![strange()]).unwrap_err(),
    ] {
        assert_eq!(error.status.code, Code::InvalidArgument);
        assert!(error.to_string().contains("key 7 is on cuda:0"), "{error}");
    }
    let buffer = cuda.allocate(GPU, LENGTH).unwrap();
    let (rank, key) = (vec![WorkerRank::new(0)], vec![Key::new(9)]);
    let error = register(&server, buffer, rank, key).unwrap_err();
    assert!(error.to_string().contains("Settings::cuda"), "{error}");
    hardware.assert_sound();
}
