//! A peer that knows RecvTensor and no more, as TensorFlow's workers.

use bytes::Bytes;
use rondo::rendezvous::{Args, RendezvousService};
use rondo::transport::{BoxFuture, Call, MessageWriter, Service};
use rondo_core::status::{Code, Status};

use crate::bed::{STEP, Worker, config, in_time, key, place};
use crate::proxy::Proxy;
use crate::tensors::{all, of_bytes};

/// A worker's service without what is Rondo's own.
struct Plain(RendezvousService);

fn known(path: &str) -> Result<(), Status> {
    match path.starts_with("/tensorflow.") {
        true => Ok(()),
        false => Err(Status::new(Code::Unimplemented, "")),
    }
}

impl Service for Plain {
    fn unary(&self, call: Call) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async {
            known(&call.path)?;
            self.0.unary(call).await
        })
    }

    fn streaming_paths(&self) -> Vec<&'static str> {
        self.0.streaming_paths()
    }

    fn streaming(&self, call: Call, to: MessageWriter) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async {
            known(&call.path)?;
            self.0.streaming(call, to).await
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_asked_as_it_understands() {
    for caches_responses in [false, true] {
        let (listener, address) = place();
        let machine = rondo::rendezvous::Config { caches_responses, ..config(0) };
        let from = Worker::serving(listener, machine, &[], Plain);
        let to = Worker::start(place().0, config(1), &[(0, &address)]);
        let (sender, step) = (from.manager.find(STEP).unwrap(), to.manager.find(STEP).unwrap());
        for tensor in all().into_iter().step_by(7).chain([of_bytes(9 << 20)]) {
            let key = key(0, 1, "edge");
            let receive = step.recv_async(&key, Args::default());
            sender.send(&key, Args::default(), tensor.clone(), false).unwrap();
            assert!(in_time(receive).await.unwrap().value.tensor == tensor);
        }
        from.is_empty().await;
        to.is_empty().await;
    }
}

/// It keeps nothing that it gave out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tensor_that_was_lost_with_its_connection_is_told_to_be() {
    let (listener, address) = place();
    let from = Worker::serving(listener, config(0), &[], Plain);
    let proxy = Proxy::before(&address, 1, 2 << 20);
    let to = Worker::start(place().0, config(1), &[(0, &proxy.address)]);
    let (sender, step) = (from.manager.find(STEP).unwrap(), to.manager.find(STEP).unwrap());
    let key = key(0, 1, "edge");
    sender.send(&key, Args::default(), of_bytes(9 << 20), false).unwrap();
    let refused = in_time(step.recv(&key, Args::default(), None)).await.unwrap_err();
    assert_eq!(refused.code, Code::Unavailable, "{refused}");
    assert!(refused.message.contains("and the tensor with it"), "{refused}");
    sender.send(&key, Args::default(), of_bytes(8), false).unwrap();
    let value = in_time(step.recv(&key, Args::default(), None)).await.unwrap().value;
    assert_eq!(value.tensor, of_bytes(8), "the next one comes");
}
