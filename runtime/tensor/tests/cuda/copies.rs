//! Copies: one each way, in the order that streams and events say.

use rondo_tensor::cuda::{CudaError, CudaMemory, Ordinal};
use rondo_tensor::{Region, TensorBuffer};

use super::double::Hardware;
use super::{counted, pageable};

const GPU: Ordinal = Ordinal(0);
const LENGTH: usize = 100_000;

#[test]
fn what_was_read_into_pinned_memory_costs_one_copy_onto_the_device() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let memory = cuda.allocate(GPU, LENGTH).unwrap();
    let staged = cuda.stage(GPU, LENGTH).unwrap();
    // SAFETY: nobody else has it yet.
    unsafe { staged.write(0, &counted(LENGTH, 1)) };
    memory.fill(staged).unwrap();
    assert_eq!((hardware.counts().up, hardware.counts().down), (1, 0));
    // The caller's stream waits for it; this thread need not.
    let stream = hardware.stream();
    memory.before(stream).unwrap();
    assert_eq!(hardware.seen_by(stream, memory.pointer(), LENGTH), counted(LENGTH, 1));
    hardware.assert_sound();
}

#[test]
fn a_copy_is_under_way_when_the_call_returns_and_there_when_it_was_waited_for() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let memory = cuda.allocate(GPU, LENGTH).unwrap();
    memory.fill(pageable(&counted(LENGTH, 2))).unwrap();
    let stream = hardware.stream();
    let seen = hardware.seen_by(stream, memory.pointer(), LENGTH);
    assert_eq!(seen, vec![0; LENGTH], "whoever does not wait sees what was there");
    memory.wait().unwrap();
    assert_eq!(hardware.seen_by(stream, memory.pointer(), LENGTH), counted(LENGTH, 2));
    assert_eq!(hardware.counts().up, 1);
    hardware.assert_sound();
}

#[test]
fn what_is_sent_is_copied_once_after_what_the_caller_has_begun() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let memory = cuda.allocate(GPU, LENGTH).unwrap();
    let stream = hardware.stream();
    hardware.kernel(stream, memory.pointer(), &counted(LENGTH, 3));
    let early = memory.to_host().unwrap();
    assert_eq!(early.to_vec(), vec![0; LENGTH], "nobody said that the kernel comes first");
    let sent = memory.after(stream).unwrap();
    let staged = sent.staged().unwrap();
    assert_eq!(staged.to_vec(), counted(LENGTH, 3));
    assert_eq!(sent.staged().unwrap().as_ptr(), staged.as_ptr(), "made once");
    assert_eq!(hardware.counts().down, 2);
    hardware.kernel(stream, memory.pointer(), &counted(LENGTH, 4));
    let again = sent.after(stream).unwrap().staged().unwrap();
    assert_eq!(again.to_vec(), counted(LENGTH, 4), "what is sent later is what is there then");
    assert_eq!(staged.to_vec(), counted(LENGTH, 3));
    hardware.assert_sound();
}

#[test]
fn copies_of_several_are_under_way_at_once_and_keep_what_they_need() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let stream = hardware.stream();
    let all: Vec<CudaMemory> = (0..4)
        .map(|seed| {
            let memory = cuda.allocate(GPU, LENGTH).unwrap();
            hardware.kernel(stream, memory.pointer(), &counted(LENGTH, seed));
            memory.after(stream).unwrap()
        })
        .collect();
    all.iter().for_each(|memory| memory.stage().unwrap());
    assert!(all.iter().all(CudaMemory::is_staged));
    for (seed, memory) in all.iter().enumerate() {
        assert_eq!(memory.staged().unwrap().to_vec(), counted(LENGTH, seed));
    }
    assert_eq!(hardware.counts().down, 4);
    // Whoever gives up what was begun takes nothing away from it.
    for seed in 0..20 {
        let memory = cuda.allocate(GPU, LENGTH).unwrap();
        memory.fill(pageable(&counted(LENGTH, seed))).unwrap();
        memory.stage().unwrap();
    }
    drop((all, cuda));
    hardware.assert_sound();
    hardware.assert_empty();
}

#[test]
fn what_is_received_does_not_overtake_who_still_uses_the_memory() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let memory = cuda.allocate(GPU, LENGTH).unwrap();
    let stream = hardware.stream();
    hardware.kernel(stream, memory.pointer(), &counted(LENGTH, 5));
    let receiving = memory.after(stream).unwrap();
    receiving.fill(pageable(&counted(LENGTH, 6))).unwrap();
    hardware.finish_all();
    assert_eq!(hardware.seen_by(stream, memory.pointer(), LENGTH), counted(LENGTH, 6));
    hardware.assert_sound();
}

#[test]
fn what_is_received_next_waits_for_who_reads_what_came_before() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let stream = hardware.stream();
    let mut memory = cuda.allocate(GPU, LENGTH).unwrap().after(stream).unwrap();
    let mut all = Vec::new();
    for seed in 0..5 {
        memory = memory.again().unwrap();
        memory.fill(pageable(&counted(LENGTH, seed))).unwrap();
        memory.hand_over().unwrap();
        all.push(hardware.reads(stream, memory.pointer(), LENGTH));
    }
    hardware.finish_all();
    for (seed, seen) in all.into_iter().enumerate() {
        assert_eq!(seen.lock().unwrap().take(), Some(counted(LENGTH, seed)));
    }
    hardware.assert_sound();
}

#[test]
fn what_was_received_is_sent_on_without_being_waited_for() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let memory = cuda.allocate(GPU, LENGTH).unwrap();
    memory.fill(pageable(&counted(LENGTH, 7))).unwrap();
    assert_eq!(memory.to_host().unwrap().to_vec(), counted(LENGTH, 7));
    memory.fill(pageable(&counted(LENGTH, 8))).unwrap();
    let anew = memory.anew();
    assert_eq!(anew.staged().unwrap().to_vec(), counted(LENGTH, 8));
    hardware.assert_sound();
}

#[test]
fn memory_goes_only_when_the_copies_of_it_are_over() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    for seed in 0..20 {
        let memory = cuda.allocate(GPU, LENGTH).unwrap();
        memory.fill(pageable(&counted(LENGTH, seed))).unwrap();
        // Neither the device's memory nor the staging is the program's to keep.
        drop(memory);
    }
    hardware.assert_sound();
    drop(cuda);
    hardware.assert_sound();
    hardware.assert_empty();
}

#[test]
fn parts_are_of_the_same_memory() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let memory = cuda.allocate(GPU, 4 * LENGTH).unwrap();
    let parts: Vec<CudaMemory> =
        (0..4).map(|at| memory.part(at * LENGTH, LENGTH).unwrap()).collect();
    for (seed, part) in parts.iter().enumerate() {
        part.fill(pageable(&counted(LENGTH, seed))).unwrap();
    }
    parts.iter().for_each(|part| part.wait().unwrap());
    let whole: Vec<u8> = (0..4).flat_map(|seed| counted(LENGTH, seed)).collect();
    assert_eq!(memory.to_host().unwrap().to_vec(), whole);
    assert!(memory.part(LENGTH, 4 * LENGTH).is_none() && memory.part(usize::MAX, 1).is_none());
    hardware.assert_sound();
}

#[test]
fn a_buffer_is_filled_and_read_wherever_it_lies() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let all = [
        TensorBuffer::from(Region::allocate(LENGTH)),
        TensorBuffer::from(cuda.allocate(GPU, LENGTH).unwrap()),
    ];
    for buffer in all {
        assert_eq!((buffer.len(), buffer.is_empty(), buffer.is_writable()), (LENGTH, false, true));
        assert!(buffer.host().is_some() != buffer.cuda().is_some());
        // SAFETY: only this test uses the memory.
        unsafe { buffer.fill(pageable(&counted(LENGTH, 9))) }.unwrap();
        let part = buffer.part(10, 20).unwrap();
        assert_eq!(part.to_host().unwrap().to_vec(), counted(LENGTH, 9)[10..30]);
        // SAFETY: as above.
        let refused = unsafe { part.fill(pageable(&[0; 21])) }.unwrap_err();
        assert_eq!(refused, CudaError::Length { from: 21, to: 20 });
    }
    let none = TensorBuffer::from(cuda.allocate(GPU, 0).unwrap());
    // SAFETY: there is nothing to write.
    unsafe { none.fill(Region::allocate(0)) }.unwrap();
    assert!(none.to_host().unwrap().is_empty());
    hardware.assert_sound();
}

#[test]
fn what_was_received_is_there_for_who_names_a_stream_afterwards() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let memory = cuda.allocate(GPU, LENGTH).unwrap();
    memory.fill(pageable(&counted(LENGTH, 1))).unwrap();
    let stream = hardware.stream();
    let named = memory.after(stream).unwrap();
    assert_eq!(named.to_host().unwrap().to_vec(), counted(LENGTH, 1), "sent on");
    memory.fill(pageable(&counted(LENGTH, 2))).unwrap();
    memory.after(stream).unwrap().hand_over().unwrap();
    assert_eq!(hardware.seen_by(stream, memory.pointer(), LENGTH), counted(LENGTH, 2));
    hardware.assert_sound();
}
