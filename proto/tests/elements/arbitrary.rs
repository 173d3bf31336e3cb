//! Any element goes through the wire unchanged; any bytes are taken or refused in words.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;
use rondo_core::element::{Dtype, Element, PartialShape, Shape, Spec, Tensor, TensorSpec};
use rondo_proto::convert::{ElementAnswer, decode_element_answer};
use rondo_proto::element::{
    decode_spec, decode_tensor, encode_compressed, encode_spec, encode_uncompressed,
};
use rondo_proto::tf::data as wire;
use wire::get_element_response::Element as Form;

use crate::{BYTES_MAX, recorded, text, unhex};

fn shape() -> impl Strategy<Value = Shape> {
    vec(0_i64..5, 0..4).prop_map(|sizes| Shape::of(sizes).unwrap())
}

fn tensor() -> impl Strategy<Value = Tensor> {
    let fixed = (shape(), prop::sample::select(Dtype::ALL), any::<u64>());
    let fixed = fixed.prop_map(|(shape, dtype, seed)| {
        let bits = if dtype == Dtype::Bool { 1 } else { 255 };
        let Some(width) = dtype.width() else {
            let empty: [&[u8]; 0] = [];
            return text(Shape::list(0).unwrap(), &empty);
        };
        let bytes = 0..shape.elements() * width;
        let bytes = bytes.map(|at| (seed.rotate_left(at as u32 % 64) & bits) as u8).collect();
        Tensor::fixed(dtype, shape, bytes).unwrap()
    });
    let strings = vec(vec(any::<u8>(), 0..200), 0..6);
    let strings = strings.prop_map(|all| text(Shape::list(all.len() as u64).unwrap(), &all));
    prop_oneof![fixed, strings]
}

fn spec() -> impl Strategy<Value = Spec> {
    let shape = prop_oneof![
        Just(PartialShape::UnknownRank),
        vec(prop::option::of(0_u64..100), 0..4).prop_map(PartialShape::Sizes),
    ];
    let tensor = (shape, prop::sample::select(Dtype::ALL));
    let tensor = tensor.prop_map(|(shape, dtype)| TensorSpec { dtype, shape });
    let leaf = prop_oneof![
        (tensor.clone(), "[a-z]{0,3}").prop_map(|(tensor, name)| Spec::Tensor { tensor, name }),
        tensor.clone().prop_map(Spec::Sparse),
        (tensor, 1_u64..5).prop_map(|(tensor, ragged_rank)| {
            Spec::Ragged { tensor, ragged_rank, row_splits: Dtype::Int64 }
        }),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Spec::List),
            vec(inner.clone(), 0..4).prop_map(Spec::Tuple),
            prop::collection::btree_map(".{0,3}", inner.clone(), 0..4).prop_map(Spec::Dict),
            ("[A-Z]", vec(("[a-z]", inner), 0..4))
                .prop_map(|(class, fields)| Spec::NamedTuple { class, fields }),
        ]
    })
}

/// Every value of a kept answer lies within the bound.
fn check_any(bytes: &Bytes) {
    match decode_element_answer(bytes, 4096) {
        Ok(ElementAnswer::Element(element)) => {
            // A slice of the message, or made within the bound.
            assert!(element.size_bytes() <= 2 * 4096);
            let again = encode_compressed(&element).unwrap();
            let again = decode_element_answer(&again, 1 << 20).unwrap();
            assert_eq!(again, ElementAnswer::Element(element));
        }
        Ok(ElementAnswer::End | ElementAnswer::Skip) => {}
        Err(status) => assert!(!status.message.is_empty()),
    }
}

proptest! {
    #[test]
    fn elements_return_as_they_left(components in vec(tensor(), 0..6)) {
        let element = Element { components };
        for answer in [encode_uncompressed(&element), encode_compressed(&element)] {
            let found = decode_element_answer(&answer.unwrap(), BYTES_MAX).unwrap();
            prop_assert_eq!(found, ElementAnswer::Element(element.clone()));
        }
    }

    /// Written by hand on the way out, read by generated code.
    #[test]
    fn what_is_written_is_the_message(components in vec(tensor(), 0..6)) {
        let element = Element { components };
        let answer = encode_uncompressed(&element).unwrap();
        let message = wire::GetElementResponse::decode(answer.clone()).unwrap();
        prop_assert_eq!(message.encode_to_vec(), answer.to_vec());
        let Some(Form::Uncompressed(found)) = message.element else { panic!("{message:?}") };
        for (found, tensor) in found.components.iter().zip(&element.components) {
            prop_assert_eq!(found.dtype, tensor.dtype().number());
            let sizes = &found.tensor_shape.as_ref().unwrap().dim;
            let wanted = tensor.shape().sizes().iter().copied();
            let same = sizes.iter().map(|dim| dim.size as u64).eq(wanted);
            prop_assert!(same, "{:?}", found);
        }
        prop_assert_eq!(found.components.len(), element.components.len());
    }

    #[test]
    fn specs_return_as_they_left(spec in spec()) {
        prop_assert_eq!(decode_spec(&encode_spec(&spec)), Ok(spec));
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        check_any(&bytes);
        decode_spec(&bytes).err();
        if let Ok(tensor) = decode_tensor(&bytes, 4096) {
            prop_assert!(tensor.size_bytes() <= 4096 + bytes.len() as u64);
        }
    }

    /// What TensorFlow wrote, with some bytes changed: most of it is still a message.
    #[test]
    fn damaged_elements_are_taken_or_refused(
        case in any::<prop::sample::Index>(), is_compressed: bool,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let all = recorded("elements.json");
        let case = case.get(all["elements"].as_array().unwrap());
        let only = case["uncompressed"].is_null();
        let form = if is_compressed || only { "compressed" } else { "uncompressed" };
        let mut bytes = unhex(&case[form]).to_vec();
        for (at, byte) in changes {
            *at.get_mut(&mut bytes) = byte;
        }
        check_any(&bytes.into());
    }

    #[test]
    fn damaged_specs_are_taken_or_refused(
        case in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte: u8,
    ) {
        let all = recorded("specs.json");
        let mut bytes = unhex(&case.get(all.as_array().unwrap())["spec"]).to_vec();
        *at.get_mut(&mut bytes) = byte;
        if let Ok(spec) = decode_spec(&bytes) {
            prop_assert_eq!(decode_spec(&encode_spec(&spec)), Ok(spec));
        }
    }

    #[test]
    fn strings_ends_are_checked(bytes in vec(any::<u8>(), 0..6), ends in vec(0_u32..8, 0..4)) {
        let is_right = ends.is_sorted()
            && ends.last().map_or(0, |end| *end as usize) == bytes.len();
        let shape = Shape::list(ends.len() as u64).unwrap();
        let made = Tensor::strings(shape, bytes.into(), Arc::from(ends));
        prop_assert_eq!(made.is_ok(), is_right);
    }
}
