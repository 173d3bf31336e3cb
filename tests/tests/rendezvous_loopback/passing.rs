//! Tensors pass from worker to worker as they are.

use rondo::rendezvous::Args;
use rondo::tensor::{ALIGNMENT, HostBuffer};
use rondo_core::element::Tensor;
use rondo_proto::convert::dead_tensor;

use crate::bed::{STEP, Worker, config, device, in_time, incarnation, key, pair};
use crate::tensors::{all, of_bytes};

/// Sends from the first to the second, under keys of their own.
fn send(from: &Worker, edge: &str, tensor: &Tensor, is_dead: bool) {
    let step = from.manager.find(STEP).unwrap();
    step.send(&key(0, 1, edge), Args::default(), tensor.clone(), is_dead).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_and_shape_whoever_comes_first() {
    let (from, to) = pair();
    let step = to.manager.find(STEP).unwrap();
    for (index, tensor) in all().iter().enumerate() {
        let (edge, is_dead) = (format!("edge_{index}"), index % 5 == 0);
        let (later, receive);
        if index % 2 == 0 {
            send(&from, &edge, tensor, is_dead);
            receive = step.recv_async(&key(0, 1, &edge), Args::default());
        } else {
            later = step.recv_async(&key(0, 1, &edge), Args::default());
            from.has_waiting(1).await;
            send(&from, &edge, tensor, is_dead);
            receive = later;
        }
        let value = in_time(receive).await.unwrap().value;
        assert_eq!((&value.tensor, value.is_dead), (tensor, is_dead), "{edge}");
    }
    from.is_empty().await;
    to.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_values_under_one_key_come_in_order() {
    let (from, to) = pair();
    let step = to.manager.find(STEP).unwrap();
    for length in 0..100 {
        send(&from, "edge", &of_bytes(4 * length), false);
    }
    for length in 0..100 {
        let value = in_time(step.recv(&key(0, 1, "edge"), Args::default(), None)).await.unwrap();
        assert_eq!(value.value.tensor, of_bytes(4 * length));
    }
    from.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_ones_both_ways_at_once_into_aligned_memory() {
    const BYTES: usize = 64 << 20;
    let workers = pair();
    let tensor = of_bytes(BYTES);
    let there = async |from: &Worker, to: &Worker, (source, target): (u32, u32)| {
        let key = key(source, target, "long");
        let receive = to.manager.find(STEP).unwrap().recv_async(&key, Args::default());
        let step = from.manager.find(STEP).unwrap();
        step.send(&key, Args::default(), tensor.clone(), false).unwrap();
        let value = in_time(receive).await.unwrap().value;
        assert!(value.tensor == tensor);
        assert_eq!(value.bytes, BYTES as u64);
        assert!(HostBuffer::of(&value.tensor).is_aligned_to(ALIGNMENT));
    };
    tokio::join!(there(&workers.0, &workers.1, (0, 1)), there(&workers.1, &workers.0, (1, 0)),);
    workers.0.is_empty().await;
    workers.1.is_empty().await;
}

#[tokio::test]
async fn within_a_worker_nothing_is_copied() {
    let worker = Worker::alone(config(0));
    let step = worker.manager.find(STEP).unwrap();
    assert!(step.is_cross_process());
    let tensor = of_bytes(4000);
    let own = key(0, 0, "own");
    let (sent, received) = (Args { device_context: 1, ..Args::default() }, Args::default());
    step.send(&own, sent, tensor.clone(), false).unwrap();
    let delivery = in_time(step.recv(&own, received, None)).await.unwrap();
    assert_eq!((delivery.sent, delivery.received), (sent, received));
    let lies = |tensor: &Tensor| HostBuffer::of(tensor).bytes().as_ptr();
    assert_eq!(lies(&delivery.value.tensor), lies(&tensor));
    step.send(&own, sent, dead_tensor(), true).unwrap();
    assert!(in_time(worker.manager.recv_local(STEP, &own, None)).await.unwrap().value.is_dead);
    worker.is_empty().await;
}

#[tokio::test]
async fn a_worker_tells_others_of_its_devices() {
    let (first, second) = pair();
    let devices = in_time(first.manager.devices_of("/job:w/replica:0/task:1")).await.unwrap();
    assert_eq!(devices, second.manager.devices());
    let found = (devices[0].name.as_str(), devices[0].kind.as_str(), devices[0].incarnation);
    assert_eq!(found, (device(1).as_str(), "CPU", incarnation(1)));
}
