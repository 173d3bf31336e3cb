//! Memory that passes between processes of one host on the device.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rondo_tensor::cuda::{CudaError, Named, Ordinal, Uuid};

use super::double::{Hardware, uuid};
use super::{counted, pageable};

const GPU: Ordinal = Ordinal(0);
const LENGTH: usize = 10_000;

#[test]
fn a_process_copies_from_anothers_memory_without_the_host() {
    let hardware = Hardware::new(2, 1 << 30);
    let (sends, receives) = (hardware.process(&[1], 1 << 20), hardware.process(&[0, 1], 1 << 20));
    let whole = sends.allocate(GPU, 3 * LENGTH).unwrap();
    let from = whole.part(LENGTH, LENGTH).unwrap();
    from.fill(pageable(&counted(LENGTH, 1))).unwrap();
    from.wait().unwrap();
    let named = Named::from_bytes(&from.name().unwrap().to_bytes()).unwrap();
    assert_eq!((named.device, named.offset, named.length), (uuid(1), LENGTH as u64, LENGTH as u64));
    // Once on the same device, once on another.
    for device in [Ordinal(1), Ordinal(0)] {
        let to = receives.allocate(device, LENGTH).unwrap();
        let before = hardware.counts();
        to.fill_from(&named).unwrap();
        let after = hardware.counts();
        assert_eq!(
            (after.up, after.down, after.across),
            (before.up, before.down, before.across + 1)
        );
        let seen = hardware.seen_by(hardware.stream(), to.pointer(), LENGTH);
        assert_eq!(seen, counted(LENGTH, 1), "done when the call returns");
    }
    drop(receives);
    drop((whole, from, sends));
    hardware.assert_sound();
    hardware.assert_empty();
}

#[test]
fn a_device_that_is_not_seen_is_refused_and_so_is_what_is_not_there() {
    let hardware = Hardware::new(2, 1 << 30);
    let (sends, receives) = (hardware.process(&[0, 1], 1 << 20), hardware.process(&[0], 1 << 20));
    let to = receives.allocate(GPU, LENGTH).unwrap();
    let unseen = sends.allocate(Ordinal(1), LENGTH).unwrap();
    let refused = to.fill_from(&unseen.name().unwrap()).unwrap_err();
    assert_eq!(refused, CudaError::NotSeen { device: uuid(1) });
    let seen = sends.allocate(GPU, LENGTH).unwrap();
    let named = Named { offset: 1, ..seen.name().unwrap() };
    let refused = to.fill_from(&named).unwrap_err();
    let bytes = LENGTH as u64;
    assert_eq!(refused, CudaError::NotThere { offset: 1, length: bytes, bytes });
    let far = Named { offset: u64::MAX, ..named };
    assert!(matches!(to.fill_from(&far), Err(CudaError::NotThere { .. })));
    // The driver opens no memory of the same process.
    let own = receives.allocate(GPU, LENGTH).unwrap();
    assert!(matches!(to.fill_from(&own.name().unwrap()), Err(CudaError::Call { .. })));
    hardware.assert_sound();
}

#[test]
fn few_allocations_are_open_at_once() {
    let hardware = Hardware::new(1, 1 << 30);
    let (sends, receives) = (hardware.process(&[0], 1 << 20), hardware.process(&[0], 1 << 20));
    let to = receives.allocate(GPU, 8).unwrap();
    let all: Vec<_> = (0..100).map(|_| sends.allocate(GPU, 8).unwrap()).collect();
    for (seed, memory) in all.iter().enumerate() {
        memory.fill(pageable(&counted(8, seed))).unwrap();
        memory.wait().unwrap();
        to.fill_from(&memory.name().unwrap()).unwrap();
        assert_eq!(to.to_host().unwrap().to_vec(), counted(8, seed));
    }
    drop(receives);
    hardware.assert_sound();
}

#[test]
fn what_is_not_used_any_more_is_closed_and_opened_again() {
    let hardware = Hardware::new(1, 1 << 30);
    let (sends, receives) = (hardware.process(&[0], 1 << 20), hardware.process(&[0], 1 << 20));
    let (from, to) = (sends.allocate(GPU, 8).unwrap(), receives.allocate(GPU, 8).unwrap());
    for seed in 0..2 {
        from.fill(pageable(&counted(8, seed))).unwrap();
        from.wait().unwrap();
        to.fill_from(&from.name().unwrap()).unwrap();
        assert_eq!(to.to_host().unwrap().to_vec(), counted(8, seed));
        assert_eq!(hardware.opened(), 1);
        let began = Instant::now();
        while hardware.opened() > 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "it stays open");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    // A copy under way keeps it.
    let stream = hardware.stream();
    let gate = hardware.gate(stream);
    let copying = to.after(stream).unwrap().begin_fill_from(&from.name().unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(!copying.is_done().unwrap() && hardware.opened() == 1);
    gate.store(true, Ordering::SeqCst);
    copying.wait().unwrap();
    drop((sends, receives));
    hardware.assert_sound();
}

#[test]
fn who_finds_that_a_copy_is_done_does_not_wait_for_the_device() {
    let hardware = Hardware::new(1, 1 << 30);
    let (sends, receives) = (hardware.process(&[0], 1 << 20), hardware.process(&[0], 1 << 20));
    let (from, to) = (sends.allocate(GPU, 8).unwrap(), receives.allocate(GPU, 8).unwrap());
    from.fill(pageable(&counted(8, 1))).unwrap();
    from.wait().unwrap();
    let stream = hardware.stream();
    let gate = hardware.gate(stream);
    let copying = to.after(stream).unwrap().begin_fill_from(&from.name().unwrap()).unwrap();
    // Longer than an allocation stays open from which nothing is copied.
    std::thread::sleep(Duration::from_millis(2500));
    gate.store(true, Ordering::SeqCst);
    copying.wait().unwrap();
    // The program's next kernel, behind which the driver closes nothing.
    let next = hardware.gate(hardware.stream());
    let ends = Arc::clone(&next);
    let program = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(5));
        ends.store(true, Ordering::SeqCst);
    });
    receives.stage_if_room(GPU, 8).unwrap();
    assert!(!next.load(Ordering::SeqCst), "it waited for the program's kernel");
    program.join().unwrap();
    drop((sends, receives));
    hardware.assert_sound();
}

#[test]
fn names_are_as_long_as_they_say() {
    let named = Named {
        device: Uuid([1; 16]),
        handle: rondo_tensor::cuda::IpcHandle([2; 64]),
        offset: 3,
        length: u64::MAX,
    };
    let bytes = named.to_bytes();
    assert_eq!(bytes.len(), Named::BYTES);
    assert_eq!(Named::from_bytes(&bytes), Some(named));
    for length in 0..Named::BYTES {
        assert_eq!(Named::from_bytes(&bytes[..length]), None);
    }
    assert_eq!(Named::from_bytes(&[bytes, vec![0]].concat()), None);
}

/// As many as may be open at once.
const OPENED_MAX: usize = 32;

#[test]
fn the_allocation_used_longest_ago_is_closed_for_the_next() {
    let hardware = Hardware::new(1, 1 << 30);
    let (sends, receives) = (hardware.process(&[0], 1 << 20), hardware.process(&[0], 1 << 20));
    let to = receives.allocate(GPU, 8).unwrap();
    let all: Vec<_> = (0..=OPENED_MAX).map(|_| sends.allocate(GPU, 8).unwrap()).collect();
    // Each is opened anew, since as many others were used behind it.
    for _ in 0..2 {
        all.iter().for_each(|memory| to.fill_from(&memory.name().unwrap()).unwrap());
    }
    assert_eq!(hardware.counts().opens, 2 * all.len());
    drop(receives);
    hardware.assert_sound();
}

#[test]
fn who_finds_that_the_copy_from_a_closed_allocation_is_done_does_not_wait_either() {
    let hardware = Hardware::new(1, 1 << 30);
    let (sends, receives) = (hardware.process(&[0], 1 << 20), hardware.process(&[0], 1 << 20));
    let to = receives.allocate(GPU, 8).unwrap();
    let all: Vec<_> = (0..=OPENED_MAX).map(|_| sends.allocate(GPU, 8).unwrap()).collect();
    let stream = hardware.stream();
    let gate = hardware.gate(stream);
    // The copy from the first is under way when the others need its place.
    let behind = to.after(stream).unwrap();
    let copying: Vec<_> =
        all.iter().map(|it| behind.begin_fill_from(&it.name().unwrap()).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(2500));
    gate.store(true, Ordering::SeqCst);
    copying.iter().for_each(|copying| copying.wait().unwrap());
    // The program's next kernel, behind which the driver closes nothing.
    let next = hardware.gate(hardware.stream());
    let ends = Arc::clone(&next);
    let program = std::thread::spawn(move || {
        let began = Instant::now();
        while !ends.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        ends.swap(true, Ordering::SeqCst)
    });
    receives.stage_if_room(GPU, 8).unwrap();
    next.store(true, Ordering::SeqCst);
    assert!(program.join().unwrap(), "it waited for the program's kernel");
    drop((sends, receives));
    hardware.assert_sound();
}

#[test]
fn what_is_fetched_does_not_wait_for_what_a_program_sends() {
    let hardware = Hardware::new(1, 1 << 30);
    let (sends, receives) = (hardware.process(&[0], 1 << 20), hardware.process(&[0], 1 << 20));
    let from = sends.allocate(GPU, LENGTH).unwrap();
    from.fill(pageable(&counted(LENGTH, 3))).unwrap();
    from.wait().unwrap();
    // The program sends memory that its kernel is long about.
    let stream = hardware.stream();
    let gate = hardware.gate(stream);
    let own = receives.allocate(GPU, LENGTH).unwrap().after(stream).unwrap();
    own.stage().unwrap();
    let named = from.name().unwrap();
    let short = receives.stage(GPU, LENGTH - 1).unwrap();
    let refused = receives.begin_fetch(&named, &short).unwrap_err();
    assert_eq!(refused, CudaError::Length { from: LENGTH, to: LENGTH - 1 });
    let staged = receives.stage(GPU, LENGTH).unwrap();
    let copying = receives.begin_fetch(&named, &staged).unwrap();
    let began = Instant::now();
    while !copying.is_done().unwrap() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let is_done = copying.is_done().unwrap();
    gate.store(true, Ordering::SeqCst);
    assert!(is_done, "it waited for the program's kernel");
    assert_eq!(staged.to_vec(), counted(LENGTH, 3));
    own.staged().unwrap();
    drop((sends, receives));
    hardware.assert_sound();
}
