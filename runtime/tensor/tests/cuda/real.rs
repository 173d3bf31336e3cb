//! The same by NVIDIA's driver, on the first GPU of this machine.

use std::io::Write;

use rondo_tensor::cuda::{Cuda, CudaSettings, Ordinal, StreamHandle};

use super::{counted, pageable};

const GPU: Ordinal = Ordinal(0);

/// The GPUs of this machine; without any, says so, or fails if `RONDO_CUDA_REQUIRED=1`.
fn cuda() -> Option<Cuda> {
    let settings = CudaSettings { staging_bytes_max: 64 << 20 };
    let why = match Cuda::load(settings) {
        Ok(cuda) if !cuda.devices().is_empty() => return Some(cuda),
        Ok(_) => "the CUDA driver sees no device".to_owned(),
        Err(error) => error.to_string(),
    };
    let is_required = std::env::var("RONDO_CUDA_REQUIRED").is_ok_and(|it| it == "1");
    assert!(!is_required, "RONDO_CUDA_REQUIRED is 1, but {why}");
    // Shown although the test passes, which `println!` is not.
    let _ = writeln!(std::io::stderr(), "skipped: a GPU's own memory: {why}");
    None
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
fn pinned_memory_stays_within_its_bound() {
    let Some(cuda) = cuda() else { return };
    let memories: Vec<_> = (0..64).map(|_| cuda.allocate(GPU, 4 << 20).unwrap()).collect();
    for (seed, memory) in memories.iter().enumerate() {
        memory.fill(pageable(&counted(4 << 20, seed))).unwrap();
        assert!(cuda.staging_bytes().0 <= 64 << 20);
    }
    for (seed, memory) in memories.iter().enumerate() {
        assert!(memory.to_host().unwrap().to_vec() == counted(4 << 20, seed), "{seed}");
    }
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
