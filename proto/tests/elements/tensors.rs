//! Tensors with typed fields, as TensorFlow reads them.

use rondo_proto::element::decode_tensor;

use crate::{BYTES_MAX, described, meaning, recorded, unhex};

#[test]
fn tensors_are_what_tensorflow_makes_of_them() {
    let (mut made, mut refused) = (0, 0);
    for case in recorded("tensors.json").as_array().unwrap() {
        let (name, found) = (&case["name"], decode_tensor(&unhex(&case["proto"]), BYTES_MAX));
        if case["made"].is_null() {
            found.unwrap_err();
            refused += 1;
        } else {
            let found = found.unwrap_or_else(|status| panic!("{name}: {status}"));
            assert_eq!(meaning(&found), meaning(&described(&case["made"])), "{name}");
            made += 1;
        }
    }
    assert!(made >= 150 && refused >= 5, "{made} made, {refused} refused");
}
