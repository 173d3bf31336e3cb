//! Pinned memory: bounded, used again, never while a copy needs it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rondo_core::status::{Code, Status};
use rondo_tensor::cuda::{CudaError, Ordinal};

use super::double::Hardware;
use super::{counted, pageable};

const GPU: Ordinal = Ordinal(0);
const BLOCK: usize = 64 << 10;

#[test]
fn pinned_memory_is_used_again() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 16 * BLOCK);
    let memory = cuda.allocate(GPU, BLOCK).unwrap();
    for seed in 0..100 {
        memory.fill(pageable(&counted(BLOCK, seed))).unwrap();
        assert_eq!(memory.to_host().unwrap().to_vec(), counted(BLOCK, seed));
    }
    assert!(hardware.counts().pins <= 4, "{:?}", hardware.counts());
    assert_eq!(hardware.counts().up, 100);
    hardware.assert_sound();
}

#[test]
fn there_is_no_more_than_the_bound_which_the_error_names() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 4 * BLOCK);
    let held: Vec<_> = (0..4).map(|_| cuda.stage(GPU, BLOCK).unwrap()).collect();
    let refused = cuda.stage(GPU, 1).unwrap_err();
    assert_eq!(refused, CudaError::NoStaging { bytes: 1, used: 4 * BLOCK, max: 4 * BLOCK });
    let status = Status::from(refused);
    assert_eq!(status.code, Code::ResourceExhausted);
    assert!(status.message.contains("262144 (staging_bytes_max)"), "{status}");
    drop(held);
    // What nobody uses makes room for what is longer.
    assert_eq!(cuda.stage(GPU, 4 * BLOCK).unwrap().len(), 4 * BLOCK);
    assert_eq!(cuda.staging_bytes(), (4 * BLOCK, 0));
    assert!(cuda.stage(GPU, 4 * BLOCK + 1).is_err());
    assert!(cuda.stage(GPU, usize::MAX).is_err());
    hardware.assert_sound();
}

#[test]
fn who_finds_none_left_waits_for_copies_and_not_for_ever() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 2 * BLOCK);
    let memories: Vec<_> = (0..50).map(|_| cuda.allocate(GPU, BLOCK).unwrap()).collect();
    for (seed, memory) in memories.iter().enumerate() {
        memory.fill(pageable(&counted(BLOCK, seed))).unwrap();
        let (pinned, used) = cuda.staging_bytes();
        assert!(pinned <= 2 * BLOCK && used <= pinned);
    }
    for (seed, memory) in memories.iter().enumerate() {
        memory.wait().unwrap();
        let seen = hardware.seen_by(hardware.stream(), memory.pointer(), BLOCK);
        assert_eq!(seen, counted(BLOCK, seed));
    }
    hardware.assert_sound();
}

#[test]
fn nobody_gets_what_a_copy_still_reads() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 8 * BLOCK);
    let memory = cuda.allocate(GPU, BLOCK).unwrap();
    let staged = cuda.stage(GPU, BLOCK).unwrap();
    let place = staged.as_ptr();
    // SAFETY: nobody else has it yet.
    unsafe { staged.write(0, &counted(BLOCK, 1)) };
    memory.fill(staged).unwrap();
    let next = cuda.stage(GPU, BLOCK).unwrap();
    assert_ne!(next.as_ptr(), place);
    // SAFETY: as above.
    unsafe { next.write(0, &counted(BLOCK, 2)) };
    memory.wait().unwrap();
    assert_eq!(cuda.stage(GPU, BLOCK).unwrap().as_ptr(), place, "the copy is over");
    assert_eq!(memory.to_host().unwrap().to_vec(), counted(BLOCK, 1));
    hardware.assert_sound();
}

#[test]
fn who_makes_room_does_not_wait_for_what_the_device_is_long_about() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 4 * BLOCK);
    drop(cuda.stage(GPU, BLOCK).unwrap());
    let gate = hardware.gate(hardware.stream());
    // The driver unpins nothing before the device is done.
    let began = Instant::now();
    for _ in 0..10 {
        assert!(cuda.stage_if_room(GPU, 4 * BLOCK).unwrap().is_none());
    }
    assert!(cuda.try_stage(GPU, 4 * BLOCK).is_err());
    assert_eq!(cuda.stage(GPU, 3 * BLOCK).unwrap().len(), 3 * BLOCK, "that fits beside it");
    assert!(began.elapsed() < Duration::from_secs(5));
    let opener = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        gate.store(true, Ordering::SeqCst);
    });
    assert_eq!(cuda.stage(GPU, 4 * BLOCK).unwrap().len(), 4 * BLOCK);
    opener.join().unwrap();
    assert_eq!(cuda.staging_bytes(), (4 * BLOCK, 0));
    hardware.assert_sound();
}

#[test]
fn no_more_blocks_leave_than_are_in_the_way() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 4 * BLOCK);
    drop((0..4).map(|_| cuda.stage(GPU, BLOCK).unwrap()).collect::<Vec<_>>());
    // The driver unpins nothing before the device is done.
    let gate = hardware.gate(hardware.stream());
    for _ in 0..10 {
        assert!(cuda.stage_if_room(GPU, 2 * BLOCK).unwrap().is_none());
    }
    let held = [cuda.try_stage(GPU, BLOCK).unwrap(), cuda.try_stage(GPU, BLOCK).unwrap()];
    assert!(cuda.try_stage(GPU, BLOCK).is_err(), "the other two are on their way");
    gate.store(true, Ordering::SeqCst);
    assert_eq!(cuda.stage(GPU, 2 * BLOCK).unwrap().len(), 2 * BLOCK);
    assert_eq!(hardware.counts().pins, 5);
    drop(held);
    hardware.assert_sound();
}

#[test]
fn what_is_asked_for_together_takes_whole_blocks() {
    let hardware = Hardware::new(1, 1 << 30);
    for lengths in [&[1, 1, 1, 1][..], &[BLOCK + 1, 2 * BLOCK], &[4 * BLOCK], &[0; 4], &[]] {
        let cuda = hardware.process(&[0], 4 * BLOCK);
        cuda.check_room(lengths).unwrap();
        let all: Result<Vec<_>, _> = lengths.iter().map(|it| cuda.stage(GPU, *it)).collect();
        assert!(all.is_ok(), "{lengths:?}");
    }
    let cuda = hardware.process(&[0], 4 * BLOCK);
    for lengths in [&[1; 5][..], &[BLOCK + 1, 2 * BLOCK + 1], &[4 * BLOCK + 1], &[usize::MAX, 1]] {
        let refused = cuda.check_room(lengths).unwrap_err();
        assert!(matches!(refused, CudaError::NoStaging { .. }), "{lengths:?}: {refused}");
    }
    hardware.assert_sound();
}

#[test]
fn a_block_that_is_too_long_leaves_room_for_what_is_asked_for_together() {
    let hardware = Hardware::new(1, 1 << 30);
    for (before, together) in [(4, [1, 3]), (3, [2, 2]), (4, [3, 1])] {
        let cuda = hardware.process(&[0], 4 * BLOCK);
        drop(cuda.stage(GPU, before * BLOCK).unwrap());
        let together = together.map(|blocks| blocks * BLOCK);
        cuda.check_room(&together).unwrap();
        let all = together.map(|length| cuda.stage(GPU, length).unwrap());
        assert_eq!(all.each_ref().map(|region| region.len()), together);
        assert_eq!(cuda.staging_bytes(), (4 * BLOCK, 4 * BLOCK), "after one of {before} blocks");
    }
    hardware.assert_sound();
}

#[test]
fn a_longer_block_is_used_again_as_far_as_nothing_else_was_promised() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 4 * BLOCK);
    drop(cuda.stage(GPU, 4 * BLOCK).unwrap());
    cuda.check_room(&[BLOCK]).unwrap();
    for _ in 0..10 {
        assert_eq!(cuda.stage(GPU, BLOCK).unwrap().len(), BLOCK);
    }
    assert_eq!(hardware.counts().pins, 1);
    hardware.assert_sound();
}
