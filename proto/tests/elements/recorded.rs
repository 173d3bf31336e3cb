//! What TensorFlow's workers answered.

use prost::Message;
use rondo_core::element::{Dtype, Tensor, Values};
use rondo_proto::convert::{HeldTask, decode_worker_tasks};
use rondo_proto::element::{decode_tensor, encode_compressed, encode_uncompressed};
use rondo_proto::tf::data as wire;
use serde_json::Value;

use crate::{BYTES_MAX, described, element, meaning, recorded, unhex};

fn check_components(name: &str, found: &[Tensor], expected: &Value) {
    let expected = expected.as_array().unwrap();
    assert_eq!(found.len(), expected.len(), "{name}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        if expected["variant"] == true {
            assert_eq!(found.dtype(), Dtype::Variant, "{name} {index}");
            assert_eq!(serde_json::json!(found.shape().sizes()), expected["shape"], "{name}");
            continue;
        }
        assert_eq!(meaning(found), meaning(&described(expected)), "{name} {index}");
    }
}

#[test]
fn elements_of_tensorflow_are_what_was_put_in() {
    let all = recorded("elements.json");
    let mut forms = 0;
    for case in all["elements"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        for form in ["uncompressed", "compressed"].into_iter().filter(|it| !case[it].is_null()) {
            let found = element(&unhex(&case[form]));
            check_components(&format!("{name}, {form}"), &found.components, &case["components"]);
            forms += 1;
        }
    }
    assert!(forms >= 15, "{forms}");
}

/// All types that elements have but the one that means nothing elsewhere, and the latest, which has come
/// into tensors that pass between workers only.
#[test]
fn every_dtype_was_recorded() {
    let all = recorded("elements.json");
    let components = all["elements"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|case| case["components"].as_array().unwrap());
    let seen: Vec<i64> = components.filter_map(|component| component["dtype"].as_i64()).collect();
    for dtype in Dtype::ALL {
        let has_bytes = !matches!(dtype, Dtype::Variant | Dtype::Resource | Dtype::Float4E2m1fn);
        assert_eq!(seen.contains(&i64::from(dtype.number())), has_bytes, "{dtype}");
    }
}

#[test]
fn what_was_read_is_written_as_tensorflow_wrote_it() {
    for case in recorded("elements.json")["elements"].as_array().unwrap() {
        if !case["uncompressed"].is_null() {
            let answer = unhex(&case["uncompressed"]);
            assert_eq!(encode_uncompressed(&element(&answer)).unwrap(), answer, "{}", case["name"]);
        }
        let answer = unhex(&case["compressed"]);
        let again = encode_compressed(&element(&answer)).unwrap();
        assert_eq!(metadata(&again), metadata(&answer), "{}", case["name"]);
        assert_eq!(element(&again), element(&answer), "{}", case["name"]);
    }
}

/// What a compressed element says of its components; snappy may choose other blocks.
fn metadata(answer: &bytes::Bytes) -> Vec<wire::CompressedComponentMetadata> {
    use wire::get_element_response::Element;
    match wire::GetElementResponse::decode(answer.clone()).unwrap().element.unwrap() {
        Element::Compressed(element) => element.component_metadata,
        Element::Uncompressed(_) => panic!("not compressed"),
    }
}

#[test]
fn a_ragged_tensor_is_kept_as_the_tensor_proto_it_came_in() {
    let all = recorded("elements.json");
    let cases = all["elements"].as_array().unwrap();
    let ragged = cases.iter().find(|case| case["name"] == "ragged").unwrap();
    for form in ["uncompressed", "compressed"] {
        let found = element(&unhex(&ragged[form]));
        let Values::Encoded(proto) = found.components[0].values() else { panic!("{form}") };
        assert_eq!(decode_tensor(proto, BYTES_MAX).unwrap(), found.components[0], "{form}");
        let name = b"RaggedTensorVariant";
        assert!(proto.windows(name.len()).any(|bytes| bytes == name), "{form}");
    }
}

#[test]
fn values_are_slices_of_the_message() {
    let all = recorded("elements.json");
    let shapes = all["elements"].as_array().unwrap().iter().find(|case| case["name"] == "shapes");
    let answer = unhex(&shapes.unwrap()["uncompressed"]);
    let range = answer.as_ptr_range();
    let found = element(&answer);
    let Values::Fixed(long) = found.components[0].values() else { panic!("a list of numbers") };
    assert_eq!(long.len(), 4000);
    assert!(range.contains(&long.as_ptr()));
}

#[test]
fn a_worker_tells_its_tasks() {
    let all = recorded("elements.json");
    let address = all["worker"].as_str().unwrap();
    let answer = unhex(&all["tasks"]);
    let tasks = decode_worker_tasks(address, &answer).unwrap();
    let said = wire::GetWorkerTasksResponse::decode(answer.clone()).unwrap().tasks;
    let same = |(held, said): (&HeldTask, &wire::TaskInfo)| {
        (held.task.get(), held.iteration.get()) == (said.task_id, said.iteration_id)
    };
    assert!(!tasks.is_empty() && tasks.len() == said.len());
    assert!(tasks.iter().zip(&said).all(same), "{tasks:?}");
    assert_eq!(rondo_proto::convert::encode_worker_tasks(address, &tasks), answer);
    let status = decode_worker_tasks("other:1", &answer).unwrap_err();
    assert!(status.message.ends_with("the worker asked is \"other:1\""), "{status}");
}
