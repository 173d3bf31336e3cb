//! What cannot be done is refused with what was wanted and what there is.

use std::sync::Arc;

use rondo_core::status::{Code, Status};
use rondo_tensor::cuda::{Cuda, CudaError, CudaMemory, CudaSettings, Ordinal};

use super::double::{Hardware, uuid};
use super::pageable;

#[test]
fn without_a_driver_the_error_says_what_was_looked_for() {
    match Cuda::load(CudaSettings::default()) {
        Ok(cuda) => println!("there is a driver: {cuda:?}"),
        Err(error) => {
            assert!(matches!(error, CudaError::NoDriver { .. }), "{error:?}");
            assert!(error.to_string().contains("libcuda.so.1"), "{error}");
            assert_eq!(Status::from(error).code, Code::FailedPrecondition);
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_refused_by_its_number() {
    let hardware = Hardware::new(3, 1000);
    let cuda = hardware.process(&[2, 0], 1 << 20);
    assert_eq!(cuda.devices(), [uuid(2), uuid(0)]);
    assert_eq!(cuda.device_of(uuid(0)), Some(Ordinal(1)));
    assert_eq!(cuda.device_of(uuid(1)), None);
    for refused in [
        cuda.allocate(Ordinal(2), 1).map(drop),
        cuda.stage(Ordinal(2), 1).map(drop),
        // SAFETY: it is never used.
        unsafe { CudaMemory::from_raw(&cuda, Ordinal(2), 0, 0, true, Arc::new(())) }.map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused, CudaError::NoDevice { asked: Ordinal(2), count: 2 });
        let text = refused.to_string();
        assert!(text.contains("cuda:2") && text.contains("sees 2"), "{text}");
    }
    hardware.assert_sound();
}

#[test]
fn a_full_device_says_what_is_free() {
    let hardware = Hardware::new(1, 1000);
    let cuda = hardware.process(&[0], 1 << 20);
    let held = cuda.allocate(Ordinal(0), 600).unwrap();
    let refused = cuda.allocate(Ordinal(0), 401).unwrap_err();
    let wanted = CudaError::OutOfMemory { device: Ordinal(0), bytes: 401, free: 400, total: 1000 };
    assert_eq!(refused, wanted);
    assert_eq!(Status::from(refused).code, Code::ResourceExhausted);
    drop(held);
    assert_eq!(cuda.allocate(Ordinal(0), 1000).unwrap().len(), 1000);
    hardware.assert_sound();
}

#[test]
fn nothing_is_written_where_it_may_not_or_does_not_fit() {
    let hardware = Hardware::new(1, 1000);
    let cuda = hardware.process(&[0], 1 << 20);
    let memory = cuda.allocate(Ordinal(0), 100).unwrap();
    let pointer = memory.pointer();
    // SAFETY: the memory is kept by its owner.
    let fixed = unsafe {
        CudaMemory::from_raw(&cuda, Ordinal(0), pointer, 100, false, Arc::new(memory.clone()))
    };
    let fixed = fixed.unwrap();
    let refused = fixed.fill(pageable(&[7; 100])).unwrap_err();
    assert_eq!(refused, CudaError::ReadOnly { device: Ordinal(0) });
    let refused = memory.fill(pageable(&[7; 99])).unwrap_err();
    assert_eq!(refused, CudaError::Length { from: 99, to: 100 });
    assert_eq!(hardware.counts().up, 0);
    hardware.assert_sound();
}
