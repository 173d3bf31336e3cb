//! The same by NVIDIA's driver, on the first GPU of this machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rondo_tensor::cuda::{Cuda, CudaError, CudaMemory, Ordinal, StreamHandle};

use super::gpu::Stream;
use super::{counted, pageable};

const GPU: Ordinal = Ordinal(0);
const STAGING: usize = 64 << 20;
const LENGTH: usize = 1 << 20;
/// Long enough that whoever does not wait is seen.
const PAUSE: Duration = Duration::from_millis(100);

fn cuda() -> Option<Cuda> {
    super::gpu::cuda("a GPU's own memory", STAGING)
}

/// Memory with these bytes in it.
fn filled(cuda: &Cuda, bytes: &[u8]) -> CudaMemory {
    let memory = cuda.allocate(GPU, bytes.len()).unwrap();
    memory.fill(pageable(bytes)).unwrap();
    memory.wait().unwrap();
    memory
}

fn bytes_of(memory: &CudaMemory) -> Vec<u8> {
    memory.to_host().unwrap().to_vec()
}

#[test]
fn bytes_come_back_from_the_device() {
    let Some(cuda) = cuda() else { return };
    for length in [1, 1000, 16 << 20] {
        let memory = cuda.allocate(GPU, length).unwrap();
        memory.fill(pageable(&counted(length, length))).unwrap();
        assert!(memory.to_host().unwrap().to_vec() == counted(length, length), "{length}");
        memory.before(StreamHandle::DEFAULT).unwrap();
        let again = memory.after(StreamHandle::DEFAULT).unwrap();
        assert!(again.staged().unwrap().to_vec() == counted(length, length), "{length}");
    }
}

#[test]
fn parts_are_copied_and_nothing_beside_them() {
    let Some(cuda) = cuda() else { return };
    let whole = filled(&cuda, &[9; 100_000]);
    let mut wanted = vec![9; 100_000];
    for (offset, length) in [(1, 1), (3, 4095), (8193, 70_001), (99_999, 1)] {
        let part = whole.part(offset, length).unwrap();
        part.fill(pageable(&counted(length, offset))).unwrap();
        part.wait().unwrap();
        wanted[offset..offset + length].copy_from_slice(&counted(length, offset));
        assert!(bytes_of(&part) == counted(length, offset), "{offset}");
    }
    assert!(bytes_of(&whole) == wanted);
    assert!(whole.part(99_999, 2).is_none());
}

#[test]
fn copies_from_the_device_wait_for_what_is_on_its_stream() {
    let Some(cuda) = cuda() else { return };
    let (memory, stream) = (filled(&cuda, &[1; LENGTH]), Stream::new());
    let gate = stream.gate();
    stream.write(memory.pointer(), 2, LENGTH);
    assert!(bytes_of(&memory) == [1; LENGTH], "nobody said that the stream comes first");
    let sent = memory.after(stream.handle()).unwrap();
    sent.stage().unwrap();
    assert!(!stream.is_done());
    let (began, opened) = (Instant::now(), gate.open_in(PAUSE));
    assert!(sent.staged().unwrap().to_vec() == [2; LENGTH]);
    assert!(began.elapsed() >= PAUSE / 2);
    opened.join().unwrap();
}

#[test]
fn copies_onto_the_device_do_not_overtake_what_is_on_its_stream() {
    let Some(cuda) = cuda() else { return };
    let (memory, read) = (filled(&cuda, &[1; LENGTH]), filled(&cuda, &[0; LENGTH]));
    let stream = Stream::new();
    let gate = stream.gate();
    // The program still reads what was received before, and then writes.
    stream.copy(read.pointer(), memory.pointer(), LENGTH);
    stream.write(memory.pointer(), 2, LENGTH);
    let receiving = memory.after(stream.handle()).unwrap();
    receiving.fill(pageable(&[3; LENGTH])).unwrap();
    assert!(bytes_of(&memory) == [1; LENGTH]);
    gate.open();
    receiving.wait().unwrap();
    assert!(bytes_of(&memory) == [3; LENGTH]);
    assert!(bytes_of(&read) == [1; LENGTH]);
}

#[test]
fn a_stream_waits_for_what_is_received_and_the_thread_does_not() {
    let Some(cuda) = cuda() else { return };
    let (length, busy, stream) = (16 << 20, Stream::new(), Stream::new());
    let (memory, read) = (filled(&cuda, &vec![1; length]), cuda.allocate(GPU, length).unwrap());
    let gate = busy.gate();
    let receiving = memory.after(busy.handle()).unwrap();
    receiving.fill(pageable(&counted(length, 5))).unwrap();
    receiving.before(stream.handle()).unwrap();
    stream.copy(read.pointer(), memory.pointer(), length);
    std::thread::sleep(PAUSE);
    assert!(!stream.is_done());
    gate.open();
    stream.finish();
    assert!(bytes_of(&read) == counted(length, 5));
}

#[test]
fn memory_that_is_only_to_be_read_is_read() {
    let Some(cuda) = cuda() else { return };
    let memory = filled(&cuda, &counted(100, 1));
    let (pointer, owner) = (memory.pointer(), Arc::new(memory));
    // SAFETY: the memory is kept by its owner.
    let fixed = unsafe { CudaMemory::from_raw(&cuda, GPU, pointer, 100, false, owner) }.unwrap();
    assert_eq!(fixed.fill(pageable(&[7; 100])), Err(CudaError::ReadOnly { device: GPU }));
    assert_eq!(bytes_of(&fixed), counted(100, 1));
}

#[test]
fn pinned_memory_stays_within_its_bound() {
    let Some(cuda) = cuda() else { return };
    let memories: Vec<_> = (0..64).map(|_| cuda.allocate(GPU, 4 << 20).unwrap()).collect();
    for (seed, memory) in memories.iter().enumerate() {
        memory.fill(pageable(&counted(4 << 20, seed))).unwrap();
        assert!(cuda.staging_bytes().0 <= STAGING);
    }
    for (seed, memory) in memories.iter().enumerate() {
        assert!(memory.to_host().unwrap().to_vec() == counted(4 << 20, seed), "{seed}");
    }
}

#[test]
fn threads_share_the_pinned_memory_and_wait_for_each_others_copies() {
    let Some(cuda) = super::gpu::cuda("pinned memory of many threads", 2 * LENGTH) else { return };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let cuda = &cuda;
            scope.spawn(move || {
                let memory = cuda.allocate(GPU, LENGTH).unwrap();
                for seed in 0..50 {
                    let wanted = counted(LENGTH, 50 * thread + seed);
                    let staged = loop {
                        match cuda.stage(GPU, LENGTH) {
                            Ok(staged) => break staged,
                            // The others have it, and nothing is under way.
                            Err(CudaError::NoStaging { .. }) => std::thread::yield_now(),
                            Err(error) => panic!("{error}"),
                        }
                    };
                    // SAFETY: nobody else has it yet.
                    unsafe { staged.write(0, &wanted) };
                    memory.fill(staged).unwrap();
                    memory.wait().unwrap();
                    assert!(cuda.staging_bytes().0 <= 2 * LENGTH);
                }
            });
        }
    });
    cuda.finish().unwrap();
}

#[test]
fn memory_that_goes_while_it_is_copied_is_not_missed() {
    let Some(cuda) = cuda() else { return };
    let length = 8 << 20;
    let kept = filled(&cuda, &counted(length, 3));
    for seed in 0..50 {
        let memory = cuda.allocate(GPU, length).unwrap();
        memory.fill(pageable(&counted(length, seed))).unwrap();
        memory.stage().unwrap();
        drop(memory);
    }
    cuda.finish().unwrap();
    assert!(bytes_of(&kept) == counted(length, 3));
    // What is under way ends before the GPUs are let go of.
    kept.fill(pageable(&counted(length, 4))).unwrap();
    drop((kept, cuda));
}

#[test]
fn a_device_that_is_not_there_and_memory_that_is_not_are_refused() {
    let Some(cuda) = cuda() else { return };
    let count = cuda.devices().len();
    assert!(cuda.allocate(Ordinal(u32::try_from(count).unwrap()), 1).is_err());
    let refused = cuda.allocate(GPU, 1 << 50).unwrap_err().to_string();
    assert!(refused.contains("are free"), "{refused}");
    let own = cuda.allocate(GPU, 100).unwrap();
    let to = cuda.allocate(GPU, 100).unwrap();
    assert!(to.fill_from(&own.name().unwrap()).is_err(), "memory of the same process");
}
