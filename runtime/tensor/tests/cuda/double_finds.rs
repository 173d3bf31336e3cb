//! The double finds what it is there to find.

use rondo_tensor::cuda::Ordinal;

use super::double::Hardware;
use super::{counted, pageable};

const GPU: Ordinal = Ordinal(0);

#[test]
fn memory_that_is_used_after_its_end_is_noted() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let memory = cuda.allocate(GPU, 100).unwrap();
    let pointer = memory.pointer();
    // SAFETY: the double has no memory that could be spoilt.
    let dangling = unsafe {
        rondo_tensor::cuda::CudaMemory::from_raw(
            &cuda,
            GPU,
            pointer,
            100,
            true,
            std::sync::Arc::new(()),
        )
    };
    drop(memory);
    dangling.unwrap().fill(pageable(&counted(100, 1))).unwrap();
    hardware.finish_all();
    let found = hardware.violations();
    assert!(found.iter().any(|it| it.contains("not allocated")), "{found:?}");
}

#[test]
fn memory_that_is_freed_under_a_kernel_is_noted() {
    let hardware = Hardware::new(1, 1 << 30);
    let cuda = hardware.process(&[0], 1 << 20);
    let memory = cuda.allocate(GPU, 100).unwrap();
    hardware.kernel(hardware.stream(), memory.pointer(), &[1; 100]);
    drop(memory);
    let found = hardware.violations();
    assert!(found.iter().any(|it| it.contains("freed with work under way")), "{found:?}");
}
