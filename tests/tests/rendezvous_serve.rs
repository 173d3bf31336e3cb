//! `rondo serve --rendezvous`: producers and consumers in other processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed unwrap is a failed test"
)]

use std::time::Duration;

use prost::Message;
use rondo::transport::{Client, Transport};
use rondo_core::rendezvous::{FrameAndIter, Key};
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{RendezvousMethod, WorkerDevice, decode_worker_devices};
use rondo_proto::{admin, tf};
use rondo_tests::server::{Options, Server};
use tokio::runtime::Runtime;

const STEP: i64 = 42;
const RESPONSE: &[u8] = &[1, 2, 3, 4];

/// A connection to a server.
struct Peer {
    runtime: Runtime,
    client: Client,
    address: String,
}

impl Peer {
    fn of(server: &Server) -> Self {
        Self { runtime: Runtime::new().unwrap(), client: Client::new(), address: server.address() }
    }

    fn call(
        &self,
        method: RendezvousMethod,
        message: &impl Message,
    ) -> Result<bytes::Bytes, Status> {
        let message = message.encode_to_vec().into();
        let patience = Duration::from_secs(20);
        self.runtime.block_on(async {
            self.client.unary(&self.address, method.path(), message, patience).await
        })
    }

    fn device(&self) -> WorkerDevice {
        let status = self.call(RendezvousMethod::GetStatus, &tf::GetStatusRequest {}).unwrap();
        decode_worker_devices(&status).unwrap().remove(0)
    }

    fn send(&self, key: &Key) -> Result<bytes::Bytes, Status> {
        let tensor = tf::TensorProto {
            dtype: 4,
            tensor_shape: Some(tf::TensorShapeProto {
                dim: vec![tf::tensor_shape_proto::Dim { size: 4 }],
                unknown_rank: false,
            }),
            tensor_content: RESPONSE.to_vec().into(),
            ..Default::default()
        };
        let send = admin::SendRequest {
            step_id: STEP,
            rendezvous_key: key.text().to_owned(),
            tensor: Some(tensor),
            ..Default::default()
        };
        self.call(RendezvousMethod::Send, &send)
    }

    fn recv(&self, key: &Key, request_id: i64) -> Result<tf::RecvTensorResponse, Status> {
        let request = tf::RecvTensorRequest {
            step_id: STEP,
            rendezvous_key: key.text().to_owned(),
            request_id,
            ..Default::default()
        };
        let answer = self.call(RendezvousMethod::RecvTensor, &request)?;
        Ok(tf::RecvTensorResponse::decode(answer).unwrap())
    }
}

fn key(device: &WorkerDevice, edge: &str) -> Key {
    let to = "/job:other/replica:0/task:0/device:CPU:0";
    Key::create(&device.name, device.incarnation, to, edge, FrameAndIter::default()).unwrap()
}

#[test]
fn tensors_pass_between_processes_and_a_restart_is_noticed() {
    let options = Options::store("segment")
        .flag("--rendezvous")
        .flag("--rendezvous-worker=/job:w/replica:0/task:3")
        .flag("--rendezvous-step-size-max=1500");
    let mut server = Server::start(&options);
    let peer = Peer::of(&server);
    let device = peer.device();
    let found = (device.name.as_str(), device.kind.as_str());
    assert_eq!(found, ("/job:w/replica:0/task:3/device:CPU:0", "CPU"));
    peer.send(&key(&device, "edge")).unwrap();
    let answer = peer.recv(&key(&device, "edge"), 1).unwrap();
    assert_eq!(answer.tensor.unwrap().tensor_content, RESPONSE);

    for _ in 0..2 {
        peer.send(&key(&device, "edge")).unwrap();
    }
    let refused = peer.send(&key(&device, "edge")).unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert!(refused.message.contains("--rendezvous-step-size-max"), "{refused}");

    server.kill();
    server.start_again();
    let refused = peer.recv(&key(&device, "edge"), 2).unwrap_err();
    assert_eq!(refused.code, Code::Aborted, "{refused}");
    assert_ne!(peer.device().incarnation, device.incarnation);
}

#[test]
fn it_is_not_there_unless_asked_for() {
    let server = Server::start(&Options::store("segment"));
    let peer = Peer::of(&server);
    let refused = peer.call(RendezvousMethod::GetStatus, &tf::GetStatusRequest {}).unwrap_err();
    assert_eq!(refused.code, Code::Unimplemented);
}
