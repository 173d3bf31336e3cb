//! Attacks on the rendezvous.

use bytes::Bytes;
use prost::Message;
use rondo_proto::convert::{RendezvousMethod, decode_worker_devices};
use rondo_proto::{admin, tf};
use rondo_tests::dispatcher::Dispatcher;

use super::attacks::Attack;
use super::families::calls;

const SEND: &str = "/rondo.v1.Rendezvous/Send";
const RECV_TENSOR: &str = "/tensorflow.WorkerService/RecvTensor";
const DEVICE: &str = "/job:worker/replica:0/task:0/device:CPU:0";

/// A tensor of bytes with a shape that may be another one.
pub(crate) fn tensor(shape: i64, content: usize) -> tf::TensorProto {
    tf::TensorProto {
        dtype: 4,
        tensor_shape: Some(tf::TensorShapeProto {
            dim: vec![tf::tensor_shape_proto::Dim { size: shape }],
            unknown_rank: false,
        }),
        tensor_content: vec![7; content].into(),
        ..Default::default()
    }
}

/// A client that sends to the server's device, which has this incarnation.
#[derive(Clone, Copy)]
pub(crate) struct Sender(u64);

impl Sender {
    /// A sender to the device of this server.
    pub(crate) fn to(dispatcher: &Dispatcher) -> Self {
        let devices = dispatcher.bytes(RendezvousMethod::GetStatus.path(), Bytes::new()).unwrap();
        Self(decode_worker_devices(&devices).unwrap().remove(0).incarnation)
    }

    fn key(self, edge: &str) -> String {
        format!("{DEVICE};{:016x};{DEVICE};{edge};0:0", self.0)
    }

    /// The request that sends a tensor.
    pub(crate) fn send(
        self,
        step_id: i64,
        edge: &str,
        tensor: tf::TensorProto,
    ) -> admin::SendRequest {
        let rendezvous_key = self.key(edge);
        admin::SendRequest { step_id, rendezvous_key, tensor: Some(tensor), ..Default::default() }
    }
}

/// Attacks on a rendezvous by clients that send so.
pub(crate) fn attacks(sender: Sender) -> Vec<Attack> {
    [held(sender), others(sender)].into_iter().flatten().collect()
}

/// Tensors that the server holds.
fn held(sender: Sender) -> Vec<Attack> {
    vec![
        calls("tensors that nobody wants", SEND.into(), move |number, count| {
            let edge = format!("e{number}-{count}");
            sender.send(1, &edge, tensor(50_000, 50_000)).encode_to_vec()
        }),
        calls("strings that nobody wants", SEND.into(), move |number, count| {
            // Without values all are empty, and each needs a place.
            let strings = tf::TensorProto { dtype: 7, ..tensor(16_000, 0) };
            sender.send(1, &format!("s{number}-{count}"), strings).encode_to_vec()
        }),
        calls("short tensors in long messages", SEND.into(), move |number, count| {
            let edge = format!("m{number}-{count}");
            let mut message = sender.send(1, &edge, tensor(1, 1)).encode_to_vec();
            // A field that no release has.
            prost::encoding::bytes::encode(100, &vec![7_u8; 60_000], &mut message);
            message
        }),
        calls("senders that wait for room", SEND.into(), move |number, count| {
            let sent = sender.send(1, &format!("w{number}-{count}"), tensor(50_000, 50_000));
            admin::SendRequest { waits: true, ..sent }.encode_to_vec()
        }),
    ]
}

fn others(sender: Sender) -> Vec<Attack> {
    vec![
        calls("tensors of false shapes", SEND.into(), move |_, count| {
            sender.send(2, &format!("f{count}"), tensor(1 << 40, 100)).encode_to_vec()
        }),
        calls("strings of false shapes", SEND.into(), move |_, count| {
            let strings = tf::TensorProto { dtype: 7, ..tensor(262_144, 0) };
            sender.send(2, &format!("g{count}"), strings).encode_to_vec()
        }),
        calls("new steps", SEND.into(), move |number, count| {
            let step = i64::try_from(number * 100_000 + count).unwrap();
            sender.send(step, "s", tensor(1, 1)).encode_to_vec()
        }),
        calls("receives of what never comes", RECV_TENSOR.into(), move |number, count| {
            let rendezvous_key = sender.key(&format!("r{number}-{count}"));
            tf::RecvTensorRequest { step_id: 3, rendezvous_key, ..Default::default() }
                .encode_to_vec()
        }),
    ]
}
