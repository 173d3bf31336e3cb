use bytes::Bytes;
use prost::Message;
use rondo_core::element::{Dtype, Shape, Tensor};
use rondo_core::ids::{RequestId, StepId};
use rondo_core::limits::{
    ELEMENT_BYTES_MAX, EXPANDED_BYTES_MAX, HEARTBEAT_ITEMS_MAX, REQUEST_BYTES_MAX,
};
use rondo_core::rendezvous::{Key, Session};
use rondo_core::status::{Code, Status};

use super::*;
use crate::{admin as wire, tf};

const KEY: &str = "/job:worker/replica:0/task:1/device:CPU:0;00c0ffee12345678;\
                   /job:worker/replica:0/task:0/device:CPU:0;edge_x;0:0";
const BYTES_MAX: u64 = 1 << 20;

fn key() -> Key {
    Key::parse(KEY).unwrap()
}

fn decode(method: RendezvousMethod, message: &impl Message) -> Result<RendezvousRequest, Status> {
    decode_rendezvous_request(method, &message.encode_to_vec().into(), BYTES_MAX)
}

/// Every request there is.
fn all() -> Vec<RendezvousRequest> {
    let (step, request) = (StepId::new(-7), RequestId::new(i64::MIN));
    let tensor = Tensor::fixed(Dtype::Uint8, Shape::list(9000).unwrap(), vec![3; 9000].into());
    let send = |tensor, is_dead, waits| SendTensor { step, key: key(), tensor, is_dead, waits };
    vec![
        RendezvousRequest::GetStatus,
        RendezvousRequest::RecvTensor(RecvTensor { step, key: key(), request }),
        RendezvousRequest::CleanupGraph { step },
        RendezvousRequest::CleanupAll,
        RendezvousRequest::MarkRecvFinished { request },
        RendezvousRequest::Fetch(Fetch {
            step,
            key: key(),
            request,
            offset: u64::MAX,
            chunk_bytes: 1,
            finished: vec![RequestId::new(1), RequestId::new(-1)],
        }),
        RendezvousRequest::Finish { requests: vec![request] },
        RendezvousRequest::Send(send(tensor.unwrap(), false, true)),
        RendezvousRequest::Send(send(dead_tensor(), true, false)),
        RendezvousRequest::Initialize {
            step,
            session: Session { worker_name: "/job:a/replica:0/task:0".into() },
        },
        RendezvousRequest::Abort { step, status: Status::new(Code::DataLoss, "it is lost") },
    ]
}

#[test]
fn what_one_side_encodes_the_other_decodes() {
    let mut methods = Vec::new();
    for request in all() {
        let bytes = encode_rendezvous_request(&request).unwrap().join();
        let found = decode_rendezvous_request(request.method(), &bytes, BYTES_MAX).unwrap();
        assert_eq!(format!("{found:?}"), format!("{request:?}"));
        methods.push(request.method());
    }
    methods.dedup();
    assert_eq!(methods, RendezvousMethod::ALL);
}

#[test]
fn requests_as_other_clients_write_them() {
    let request = tf::RecvTensorRequest {
        step_id: 9,
        rendezvous_key: KEY.into(),
        client_locality: Some(tf::DeviceLocality { bus_id: 1, numa_node: 1 }),
        server_locality: None,
        request_id: -5,
    };
    let found = decode(RendezvousMethod::RecvTensor, &request).unwrap();
    let RendezvousRequest::RecvTensor(found) = found else { panic!("{found:?}") };
    let expected = RecvTensor { step: StepId::new(9), key: key(), request: RequestId::new(-5) };
    assert_eq!(found, expected);
    let tensor = tf::TensorProto { dtype: 1, float_val: vec![1.0], ..Default::default() };
    let request = wire::SendRequest {
        step_id: 9,
        rendezvous_key: KEY.into(),
        is_dead: false,
        waits: true,
        tensor: Some(tensor),
    };
    let found = decode(RendezvousMethod::Send, &request).unwrap();
    let RendezvousRequest::Send(found) = found else { panic!("{found:?}") };
    let one = Bytes::copy_from_slice(&1_f32.to_le_bytes());
    assert_eq!(found.tensor, Tensor::fixed(Dtype::Float, Shape::scalar(), one).unwrap());
    assert!(found.waits && !found.is_dead);
}

/// Refusals name the field and its value, or begin as TensorFlow's do.
#[test]
fn what_is_refused_and_how() {
    let fetch =
        wire::FetchRequest { rendezvous_key: KEY.into(), request_id: 1, ..Default::default() };
    let sent = wire::SendRequest { rendezvous_key: KEY.into(), ..Default::default() };
    let with = |tensor| wire::SendRequest { tensor: Some(tensor), ..sent.clone() };
    let no_shape =
        tf::TensorProto { dtype: 1, tensor_content: vec![0; 5].into(), ..Default::default() };
    let variant = tf::TensorProto { dtype: 21, ..Default::default() };
    let huge = tf::TensorShapeProto {
        dim: vec![tf::tensor_shape_proto::Dim { size: 1 << 40 }],
        unknown_rank: false,
    };
    let huge = tf::TensorProto { dtype: 1, tensor_shape: Some(huge), ..Default::default() };
    let many = wire::FetchRequest { finished: vec![1; HEARTBEAT_ITEMS_MAX + 1], ..fetch.clone() };
    use RendezvousMethod as Method;
    let cases = [
        (
            decode(Method::RecvTensor, &tf::RecvTensorRequest::default()),
            Code::InvalidArgument,
            "Invalid  rendezvous key: ",
        ),
        (
            decode(Method::Fetch, &wire::FetchRequest { request_id: 0, ..fetch }),
            Code::InvalidArgument,
            "FetchRequest.request_id is 0",
        ),
        (decode(Method::Fetch, &many), Code::InvalidArgument, "FetchRequest.finished is a list of"),
        (decode(Method::Send, &sent), Code::InvalidArgument, "SendRequest has no tensor"),
        (decode(Method::Send, &with(no_shape)), Code::InvalidArgument, "SendRequest.tensor is"),
        (decode(Method::Send, &with(variant)), Code::Unimplemented, "a tensor of variant"),
        (decode(Method::Send, &with(huge)), Code::ResourceExhausted, "SendRequest.tensor is"),
        (
            decode(Method::Abort, &wire::AbortRequest::default()),
            Code::InvalidArgument,
            "AbortRequest.code is 0",
        ),
        (
            decode(
                Method::Initialize,
                &wire::InitializeRequest { step_id: 1, worker_name: "x".repeat(5000) },
            ),
            Code::InvalidArgument,
            "InitializeRequest.worker_name is 5000 bytes long",
        ),
    ];
    for (found, code, text) in cases {
        let refused = found.unwrap_err();
        assert_eq!(refused.code, code, "{refused}");
        assert!(refused.message.starts_with(text), "{refused}");
    }
}

/// The bytes of a tensor as Send and RecvTensor bring it, or why it is refused; and the message's.
fn brought(tensor: &tf::TensorProto) -> [(Result<u64, Status>, u64); 2] {
    let sent = wire::SendRequest {
        rendezvous_key: KEY.into(),
        tensor: Some(tensor.clone()),
        ..Default::default()
    };
    let sent = Bytes::from(sent.encode_to_vec());
    let found = decode_rendezvous_request(RendezvousMethod::Send, &sent, ELEMENT_BYTES_MAX);
    let found = found.map(|request| match request {
        RendezvousRequest::Send(send) => send.tensor.size_bytes(),
        other => panic!("{other:?}"),
    });
    let answer = tf::RecvTensorResponse { tensor: Some(tensor.clone()), ..Default::default() };
    let answer = Bytes::from(answer.encode_to_vec());
    let received = decode_received_tensor(&answer, ELEMENT_BYTES_MAX);
    let received = received.map(|answer| answer.tensor.size_bytes());
    [(found, sent.len() as u64), (received, answer.len() as u64)]
}

fn list(dtype: i32, size: i64) -> tf::TensorProto {
    let dim = vec![tf::tensor_shape_proto::Dim { size }];
    let tensor_shape = Some(tf::TensorShapeProto { dim, unknown_rank: false });
    tf::TensorProto { dtype, tensor_shape, ..Default::default() }
}

/// The shape is believed only as far as the message's length, or a little memory, goes with it.
#[test]
fn a_short_message_brings_no_large_tensor() {
    let floats = |size| tf::TensorProto { float_val: vec![1.5], ..list(1, size) };
    for tensor in [floats(1 << 28), list(9, 1 << 27), list(7, 1 << 28)] {
        for (found, length) in brought(&tensor) {
            let status = found.unwrap_err();
            assert_eq!(status.code, Code::ResourceExhausted, "{status}");
            let bound = 8 * length + EXPANDED_BYTES_MAX;
            let text = format!("an element may take {bound} in memory");
            assert!(status.message.ends_with(&text), "{status}");
        }
    }
    // Values of their own take no more than eight times the message, and a few may be repeated.
    let integers = tf::TensorProto { int64_val: vec![7; 1 << 20], ..list(9, 1 << 20) };
    let strings = tf::TensorProto { string_val: vec![Bytes::new(); 1 << 20], ..list(7, 1 << 20) };
    let lengths = tf::TensorProto { tensor_content: vec![0; 1 << 20].into(), ..list(7, 1 << 20) };
    for (tensor, size) in
        [(floats(1000), 4000), (integers, 8 << 20), (strings, 0), (lengths, 0), (list(7, 1000), 0)]
    {
        for (found, _) in brought(&tensor) {
            assert_eq!(found, Ok(size));
        }
    }
}

#[test]
fn arbitrary_bytes_are_taken_or_refused() {
    let long = Bytes::from(vec![0; REQUEST_BYTES_MAX + 1]);
    for method in RendezvousMethod::ALL {
        let broken = Bytes::from_static(&[0x12, 0x7f, 1, 2]);
        let refused = decode_rendezvous_request(*method, &broken, BYTES_MAX).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument, "{refused}");
        let refused = decode_rendezvous_request(*method, &long, BYTES_MAX).unwrap_err();
        let code = match method {
            RendezvousMethod::Send => Code::InvalidArgument,
            _ => Code::ResourceExhausted,
        };
        assert_eq!(refused.code, code, "{refused}");
    }
}

#[test]
fn devices_are_told_as_tensorflow_tells_them() {
    let device = WorkerDevice {
        name: "/job:worker/replica:0/task:1/device:CPU:0".into(),
        kind: "CPU".into(),
        incarnation: u64::MAX - 1,
    };
    let bytes = encode_worker_devices(std::slice::from_ref(&device));
    let plain = tf::GetStatusResponse::decode(bytes.clone()).unwrap();
    assert_eq!(plain.device_attributes[0].incarnation, u64::MAX - 1);
    assert_eq!(decode_worker_devices(&bytes), Ok(vec![device]));
    let refused = decode_worker_devices(&Bytes::from_static(&[10, 9])).unwrap_err();
    assert_eq!(refused.code, Code::Internal);
}
