//! Tensors of libtorch are sent from and received into where they lie.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use rondo_tensor::cuda::{Cuda, CudaSettings, StreamHandle};
use rondo_tensor::{Region, TensorBuffer};
use rondo_torch::{TorchError, buffer_of, load_cuda, tensor_in};
use tch::{Device, Kind};

const KINDS: [Kind; 8] = [
    Kind::Float,
    Kind::Double,
    Kind::Int64,
    Kind::Bool,
    Kind::BFloat16,
    Kind::ComplexHalf,
    Kind::ComplexDouble,
    Kind::Float8e4m3fn,
];

#[test]
fn what_is_received_into_a_tensor_of_any_type_is_in_it() {
    for kind in KINDS {
        for sizes in [&[][..], &[0], &[3], &[2, 3, 4]] {
            let tensor = tch::Tensor::empty(sizes, (kind, Device::Cpu));
            // SAFETY: only this test uses the tensor, one use after the other.
            let buffer = unsafe { buffer_of("landing", &tensor, None, None) }.unwrap();
            assert_eq!(buffer.len(), tensor.numel() * kind.elt_size_in_bytes());
            assert!(buffer.is_writable());
            let bytes: Vec<u8> =
                (0..buffer.len()).map(|at| u8::try_from(at % 2).unwrap()).collect();
            let received = Region::allocate(bytes.len());
            // SAFETY: as above.
            let again = unsafe {
                received.write(0, &bytes);
                buffer.fill(received).unwrap();
                buffer_of("sent", &tensor, None, None).unwrap()
            };
            drop(tensor);
            assert_eq!(again.to_host().unwrap().to_vec(), bytes, "{kind:?} {sizes:?}");
        }
    }
}

#[test]
fn memory_of_others_is_a_tensor_where_it_lies() {
    let region = Region::allocate(24);
    let values = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(f32::to_le_bytes).concat();
    // SAFETY: nobody else has it yet.
    unsafe { region.write(0, &values) };
    let buffer = TensorBuffer::from(region.clone());
    // SAFETY: the memory is there until the end of this test, and nobody else writes it.
    let tensor = unsafe { tensor_in(&buffer, Kind::Float, &[2, 3]) }.unwrap();
    assert_eq!(tensor.data_ptr().cast_const().cast(), region.as_ptr());
    assert_eq!(f64::try_from(tensor.sum(Kind::Double)).unwrap(), 21.0);
    for sizes in [&[2, 2][..], &[7], &[-1], &[i64::MAX, 2]] {
        // SAFETY: as above.
        let refused = unsafe { tensor_in(&buffer, Kind::Float, sizes) };
        assert!(matches!(refused, Err(TorchError::Bytes { found: 24, .. })), "{sizes:?}");
    }
}

#[test]
fn what_cannot_be_sent_is_refused_by_its_name() {
    let rows = tch::Tensor::zeros([4, 3], (Kind::Float, Device::Cpu));
    // SAFETY: only this test uses the tensors, and nothing is written.
    let refused = |name, tensor: &tch::Tensor| unsafe { buffer_of(name, tensor, None, None) };
    let text = refused("push 3 of layer 7", &rows.transpose(0, 1)).unwrap_err().to_string();
    assert!(text.starts_with("push 3 of layer 7: ") && text.contains("[3, 4]"), "{text}");
    let sparse = rows.to_sparse(None, None::<&[i64]>, 0);
    let text = refused("mask", &sparse).unwrap_err().to_string();
    assert!(text.contains("mask: ") && text.contains("to_dense()"), "{text}");
}

#[test]
fn a_gpus_tensors_are_sent_from_and_received_into_where_there_is_one() {
    let cuda = if load_cuda() { Cuda::load(CudaSettings::default()).ok() } else { None };
    let Some(cuda) = cuda else {
        let is_required = std::env::var("RONDO_CUDA_REQUIRED").is_ok_and(|it| it == "1");
        assert!(!is_required, "RONDO_CUDA_REQUIRED is 1, but libtorch uses no GPU");
        // Shown although the test passes, which `println!` is not.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: tensors on GPUs: libtorch uses none\n",
        );
        return;
    };
    // libtorch works on the default stream of its device unless it is told otherwise.
    let stream = Some(StreamHandle::DEFAULT);
    let tensor = tch::Tensor::arange(1000, (Kind::Int64, Device::Cuda(0)));
    // SAFETY: only this test uses the tensors, in the order of that stream.
    let buffer = |name, tensor: &tch::Tensor| unsafe { buffer_of(name, tensor, Some(&cuda), stream) };
    let sent = buffer("sent", &tensor).unwrap().to_host().unwrap();
    let wanted: Vec<u8> = (0..1000_i64).flat_map(i64::to_le_bytes).collect();
    assert!(sent.to_vec() == wanted);
    let landing = tch::Tensor::zeros([1000], (Kind::Int64, Device::Cuda(0)));
    let landed = buffer("landing", &landing).unwrap();
    let landed = landed.cuda().unwrap();
    landed.fill(sent).unwrap();
    landed.hand_over().unwrap();
    assert!(landing.equal(&tensor));
}
