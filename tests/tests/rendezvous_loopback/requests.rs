//! Requests as any program can make them: right ones, repeated ones, and wrong ones.

use bytes::Bytes;
use prost::Message;
use rondo::rendezvous::{Args, Config};
use rondo::transport::{Client, MessageStream, Transport};
use rondo_core::element::Dtype;
use rondo_core::status::{Code, Status};
use rondo_proto::convert::{RendezvousMethod, decode_received_tensor};
use rondo_proto::{admin, tf};

use crate::bed::{STEP, Worker, config, in_time, key, pair};
use crate::tensors::{fixed, of_bytes};

const RECV_TENSOR: &str = RendezvousMethod::RecvTensor.path();

fn request(edge: &str, request_id: i64) -> Bytes {
    let request = tf::RecvTensorRequest {
        step_id: STEP.get(),
        rendezvous_key: key(0, 1, edge).text().to_owned(),
        request_id,
        ..Default::default()
    };
    request.encode_to_vec().into()
}

fn stream(worker: &Worker, path: &'static str, message: Bytes) -> MessageStream {
    Client::new().streaming(&worker.address, path, message)
}

#[tokio::test]
async fn a_request_that_comes_twice_is_refused_or_answered_again() {
    for caches_responses in [false, true] {
        let worker = Worker::alone(Config { caches_responses, ..config(0) });
        let step = worker.manager.find(STEP).unwrap();
        step.send(&key(0, 1, "edge"), Args::default(), of_bytes(4000), false).unwrap();
        let first = in_time(worker.call(RECV_TENSOR, request("edge", -5))).await.unwrap();
        let first = decode_received_tensor(&first, 0).unwrap();
        assert_eq!((&first.tensor, first.require_ack), (&of_bytes(4000), caches_responses));
        assert!(first.send_start_micros > 1_600_000_000_000_000);
        let again = in_time(worker.call(RECV_TENSOR, request("edge", -5))).await;
        if caches_responses {
            let again = decode_received_tensor(&again.unwrap(), 0).unwrap();
            assert_eq!(again.tensor, first.tensor);
            let finished = tf::MarkRecvFinishedRequest { request_id: -5 }.encode_to_vec();
            let path = RendezvousMethod::MarkRecvFinished.path();
            in_time(worker.call(path, finished)).await.unwrap();
        } else {
            let refused = again.unwrap_err();
            assert_eq!(refused.code, Code::Aborted);
            let text = "The same RecvTensor (GrpcWorker) request was received twice.";
            assert!(refused.message.starts_with(text), "{refused}");
        }
        worker.is_empty().await;
    }
}

/// The client went away while it waited: the tensor stays for who comes next.
#[tokio::test]
async fn a_client_that_leaves_takes_nothing_with_it() {
    let worker = Worker::alone(config(0));
    let step = worker.manager.find(STEP).unwrap();
    for path in [RECV_TENSOR, RendezvousMethod::Fetch.path()] {
        let message = match path {
            RECV_TENSOR => request("edge", 9),
            _ => fetch("edge", 10, 0).encode_to_vec().into(),
        };
        let mut waiting = stream(&worker, path, message);
        tokio::select! {
            biased;
            _ = waiting.next() => panic!("nothing was sent"),
            () = worker.has_waiting(1) => {}
        }
        drop(waiting);
        worker.has_waiting(0).await;
        step.send(&key(0, 1, "edge"), Args::default(), of_bytes(8), false).unwrap();
        let answer = in_time(worker.call(RECV_TENSOR, request("edge", 0))).await.unwrap();
        assert_eq!(decode_received_tensor(&answer, 0).unwrap().tensor, of_bytes(8));
        worker.is_empty().await;
    }
}

fn fetch(edge: &str, request_id: i64, offset: u64) -> admin::FetchRequest {
    admin::FetchRequest {
        step_id: STEP.get(),
        rendezvous_key: key(0, 1, edge).text().to_owned(),
        request_id,
        offset,
        chunk_bytes: 10_000,
        finished: vec![],
    }
}

#[tokio::test]
async fn an_answer_to_fetch_comes_in_pieces_from_anywhere_on_until_it_is_finished() {
    let worker = Worker::alone(config(0));
    let tensor = fixed(Dtype::Int16, &[50_000], 1);
    let step = worker.manager.find(STEP).unwrap();
    step.send(&key(0, 1, "edge"), Args::default(), tensor.clone(), false).unwrap();
    let mut whole = Vec::new();
    for offset in [0, 1, 99_999, 100_000] {
        let path = RendezvousMethod::Fetch.path();
        let message = fetch("edge", 3, offset).encode_to_vec().into();
        let (mut stream, mut came) = (stream(&worker, path, message), Vec::new());
        while let Some(message) = in_time(stream.next()).await.unwrap() {
            let chunk = admin::FetchChunk::decode(message).unwrap();
            assert_eq!(chunk.offset, offset + came.len() as u64);
            assert_eq!(chunk.total_bytes > 0, came.is_empty());
            assert!(chunk.data.len() <= 10_000);
            came.extend_from_slice(&chunk.data);
        }
        if offset == 0 {
            let answer = decode_received_tensor(&Bytes::from(came.clone()), 0).unwrap();
            assert_eq!((&answer.tensor, answer.send_start_micros), (&tensor, 0));
            whole = came;
        } else {
            assert!(came == whole[offset as usize..], "from {offset} on");
        }
    }
    let behind = fetch("edge", 3, 200_000).encode_to_vec().into();
    let refused = in_time(stream(&worker, RendezvousMethod::Fetch.path(), behind).next()).await;
    assert_eq!(refused.unwrap_err().code, Code::OutOfRange);
    let finish = admin::FinishRequest { request_id: vec![3, 4] }.encode_to_vec();
    in_time(worker.call(RendezvousMethod::Finish.path(), finish)).await.unwrap();
    worker.is_empty().await;
}

#[tokio::test]
async fn producers_outside_of_the_process() {
    let worker = Worker::alone(Config { session: None, ..config(0) });
    let initialize = admin::InitializeRequest {
        step_id: STEP.get(),
        worker_name: "/job:w/replica:0/task:0".into(),
    };
    let send = |waits| {
        let tensor = tf::TensorProto { dtype: 3, int_val: vec![5], ..Default::default() };
        let send = admin::SendRequest {
            step_id: STEP.get(),
            rendezvous_key: key(0, 0, "own").text().to_owned(),
            is_dead: false,
            waits,
            tensor: Some(tensor),
        };
        Bytes::from(send.encode_to_vec())
    };
    let path = RendezvousMethod::Send.path();
    in_time(worker.call(path, send(false))).await.unwrap();
    let first = RendezvousMethod::Initialize.path();
    in_time(worker.call(first, initialize.encode_to_vec())).await.unwrap();
    in_time(worker.call(path, send(true))).await.unwrap();
    for _ in 0..2 {
        let own = worker.manager.recv_local_async(STEP, &key(0, 0, "own"));
        let tensor = in_time(own).await.unwrap().value.tensor;
        assert_eq!((tensor.dtype(), tensor.size_bytes()), (Dtype::Int32, 4));
    }
    let waiting = worker.manager.recv_local_async(STEP, &key(0, 0, "own"));
    let abort = admin::AbortRequest { step_id: STEP.get(), code: 15, message: "lost".into() };
    let path = RendezvousMethod::Abort.path();
    in_time(worker.call(path, abort.encode_to_vec())).await.unwrap();
    assert_eq!(in_time(waiting).await.unwrap_err(), Status::new(Code::DataLoss, "lost"));
    let path = RendezvousMethod::CleanupGraph.path();
    let cleanup = tf::CleanupGraphRequest { step_id: STEP.get() }.encode_to_vec();
    in_time(worker.call(path, cleanup)).await.unwrap();
    assert_eq!(worker.manager.report().steps, 0);
}

#[tokio::test]
async fn what_is_wrong_is_refused_and_harms_nobody() {
    let (worker, other) = pair();
    let waiting = other.manager.recv_local_async(STEP, &key(1, 0, "edge"));
    for method in RendezvousMethod::ALL {
        for bytes in [&[0x12, 0x7f, 1][..], &[0xff; 64], &[0x0b; 300]] {
            let message = Bytes::copy_from_slice(bytes);
            let refused = in_time(worker.call(method.path(), message)).await.unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument, "{} {refused}", method.name());
        }
    }
    let refused = in_time(worker.call("/tensorflow.WorkerService/RunGraph", Bytes::new())).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, Code::Unimplemented);
    assert!(refused.message.contains("RunGraph"), "{refused}");
    let with = |text: &str| {
        let request =
            tf::RecvTensorRequest { step_id: 1, rendezvous_key: text.into(), ..Default::default() };
        worker.call(RECV_TENSOR, request.encode_to_vec())
    };
    let right = key(0, 1, "edge").text().to_owned();
    for (text, code, begins) in [
        ("foo;bar;baz".to_owned(), Code::InvalidArgument, "Invalid  rendezvous key: "),
        (
            right.replace("CPU:0;0", "GPU:7;0"),
            Code::InvalidArgument,
            "/device:GPU:7 unknown device.",
        ),
        (right.replace("5eed", "beef"), Code::Aborted, "RecvTensor expects a different device"),
        (right.replace("task:0", "task:10"), Code::InvalidArgument, "Invalid rendezvous key (src)"),
    ] {
        let refused = in_time(with(&text)).await.unwrap_err();
        assert_eq!(refused.code, code, "{text}: {refused}");
        assert!(refused.message.starts_with(begins), "{refused}");
    }
    let step = other.manager.find(STEP).unwrap();
    step.send(&key(1, 0, "edge"), Args::default(), of_bytes(8), false).unwrap();
    assert_eq!(in_time(waiting).await.unwrap().value.tensor, of_bytes(8));
}
