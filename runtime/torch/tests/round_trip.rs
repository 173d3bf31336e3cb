//! Tensors of libtorch come back as they went, and what cannot be sent is refused by name.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is a failed test")]

use bytes::Bytes;
use rondo_core::element::{Dtype, Shape, Tensor, Values};
use rondo_torch::{TorchError, dtype_of, from_torch, kind_of, load_cuda, share_torch, to_torch};
use tch::{Device, Kind};

/// A tensor of libtorch with these sizes, whose bytes count up.
fn counted(sizes: &[i64], kind: Kind) -> tch::Tensor {
    let count: i64 = sizes.iter().product();
    let length = usize::try_from(count).unwrap() * kind.elt_size_in_bytes();
    let bytes: Vec<u8> = (0..length).map(|at| u8::try_from(at % 2).unwrap()).collect();
    tch::Tensor::f_from_data_size(&bytes, sizes, kind).unwrap()
}

fn bytes_of(tensor: &Tensor) -> Bytes {
    let Values::Fixed(bytes) = tensor.values() else {
        panic!("values of {} without a width", tensor.dtype());
    };
    bytes.clone()
}

const KINDS: [Kind; 15] = [
    Kind::Float,
    Kind::Double,
    Kind::Int,
    Kind::Uint8,
    Kind::Int16,
    Kind::Int8,
    Kind::ComplexFloat,
    Kind::Int64,
    Kind::Bool,
    Kind::BFloat16,
    Kind::ComplexDouble,
    Kind::Half,
    Kind::Float8e5m2,
    Kind::Float8e4m3fn,
    Kind::Float8e5m2fnuz,
];

#[test]
fn tensors_of_each_type_and_shape_come_back_as_they_went() {
    for kind in KINDS {
        for sizes in [&[][..], &[0], &[3], &[2, 3], &[0, 3], &[1, 2, 1, 4]] {
            let torch = counted(sizes, kind);
            let sent = from_torch(&torch).unwrap();
            assert_eq!(sent.dtype().width(), Some(kind.elt_size_in_bytes() as u64));
            let back = to_torch(&sent, Device::Cpu).unwrap();
            assert_eq!((back.kind(), back.size()), (kind, sizes.to_vec()));
            assert_eq!(
                bytes_of(&from_torch(&back).unwrap()),
                bytes_of(&sent),
                "{kind:?} {sizes:?}"
            );
            let dtype = dtype_of(kind).unwrap();
            assert_eq!(kind_of(dtype).unwrap(), kind);
        }
    }
}

#[test]
fn values_mean_the_same_on_both_sides() {
    let torch = tch::Tensor::from_slice(&[1.5_f32, -2.0, 1e9]).reshape([3, 1]);
    let sent = from_torch(&torch).unwrap();
    let wanted: Vec<u8> = [1.5_f32, -2.0, 1e9].iter().flat_map(|it| it.to_le_bytes()).collect();
    assert_eq!((sent.dtype(), bytes_of(&sent)), (Dtype::Float, wanted.into()));
    assert_eq!(sent.shape(), &Shape::of([3, 1]).unwrap());
    let received = to_torch(&sent, Device::Cpu).unwrap();
    assert_eq!(Vec::<f32>::try_from(received.reshape([3])).unwrap(), [1.5, -2.0, 1e9]);
}

#[test]
fn a_shared_tensor_is_sent_from_where_it_is_and_held_as_long() {
    let torch = tch::Tensor::from_slice(&[1_i64, 2, 3]);
    // SAFETY: nobody writes the tensor.
    let (sent, place) = (unsafe { share_torch(&torch) }.unwrap(), torch.data_ptr());
    let bytes = bytes_of(&sent);
    assert_eq!(bytes.as_ptr().cast(), place.cast_const(), "not copied");
    drop((torch, sent));
    assert_eq!(bytes[16..], 3_i64.to_le_bytes(), "the memory is still there");
}

#[test]
fn what_is_written_into_a_tensor_later_does_not_change_what_is_sent() {
    let mut torch = tch::Tensor::from_slice(&[1_i64, 2, 3]);
    let sent = from_torch(&torch).unwrap();
    let _ = torch.fill_(7);
    assert_eq!(bytes_of(&sent)[..8], 1_i64.to_le_bytes());
}

#[test]
fn what_cannot_be_sent_is_refused_by_name() {
    let rows = counted(&[4, 3], Kind::Float);
    let refused = from_torch(&rows.transpose(0, 1)).unwrap_err().to_string();
    assert!(refused.contains("[3, 4]") && refused.contains("contiguous()"), "{refused}");
    let part = from_torch(&rows.narrow(0, 1, 2)).unwrap();
    assert_eq!(part.size_bytes(), 24, "rows of a tensor stand one after the other");
    let refused = from_torch(&rows.to_sparse(None, None::<&[i64]>, 0)).map(|_| ());
    assert!(matches!(refused, Err(TorchError::Sparse)), "{refused:?}");
    for kind in [Kind::QInt8, Kind::ComplexHalf] {
        assert!(matches!(dtype_of(kind), Err(TorchError::NoDtype { .. })));
    }
    let strings = Tensor::strings(Shape::list(1).unwrap(), Bytes::new(), vec![0].into()).unwrap();
    let refused = to_torch(&strings, Device::Cpu).unwrap_err().to_string();
    assert!(refused.contains("string"), "{refused}");
}

#[test]
fn a_gpu_is_used_where_there_is_one() {
    if !load_cuda() {
        let is_required = std::env::var("RONDO_CUDA_REQUIRED").is_ok_and(|it| it == "1");
        assert!(!is_required, "RONDO_CUDA_REQUIRED is 1, but libtorch uses no GPU");
        // Shown although the test passes, which `println!` is not.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: tensors received onto a GPU: libtorch uses none\n",
        );
        return;
    }
    let sent = from_torch(&counted(&[1000, 3], Kind::Half)).unwrap();
    let on_gpu = to_torch(&sent, Device::Cuda(0)).unwrap();
    assert_eq!(on_gpu.device(), Device::Cuda(0));
    assert_eq!(bytes_of(&from_torch(&on_gpu).unwrap()), bytes_of(&sent));
}
