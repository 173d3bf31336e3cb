//! How much is held, and who is refused or waits for room.

use rondo::rendezvous::{Args, Config};
use rondo_core::ids::StepId;
use rondo_core::status::Code;

use crate::bed::{STEP, Worker, config, in_time, key, pair};
use crate::tensors::of_bytes;

#[tokio::test]
async fn a_tensor_above_a_bound_is_refused_by_the_name_of_its_setting() {
    let worker = Worker::alone(Config {
        steps_max: 2,
        step_tensors_max: 2,
        step_bytes_max: 10_000,
        tensors_max: 3,
        bytes_max: 12_000,
        ..config(0)
    });
    let send = |step: i64, bytes: usize| {
        let step = worker.manager.find(StepId::new(step))?;
        step.send(&key(0, 0, "own"), Args::default(), of_bytes(bytes), false)
    };
    let refused = |step, bytes, setting: &str| {
        let refused = send(step, bytes).unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted, "{refused}");
        assert!(refused.message.contains(setting), "{refused}");
    };
    refused(1, 10_000, "--rendezvous-step-size-max");
    send(1, 4000).unwrap();
    send(1, 4000).unwrap();
    refused(1, 4, "--rendezvous-step-tensors-max");
    refused(2, 4000, "--rendezvous-size-max");
    send(2, 1000).unwrap();
    refused(2, 4, "--rendezvous-tensors-max");
    refused(3, 4, "--rendezvous-steps-max");
    for (step, bytes) in [(1, 4000), (1, 4000), (2, 1000)] {
        let own = key(0, 0, "own");
        let receive = worker.manager.recv_local_async(StepId::new(step), &own);
        let value = in_time(receive).await.unwrap().value;
        assert_eq!(value.tensor.size_bytes(), bytes);
        assert!(value.bytes > bytes + own.text().len() as u64, "its key takes memory too");
    }
    worker.is_empty().await;
}

#[tokio::test]
async fn a_sender_may_wait_for_room_and_may_give_up() {
    let worker = Worker::alone(Config { step_bytes_max: 10_000, ..config(0) });
    let (own, step) = (key(0, 0, "own"), worker.manager.find(STEP).unwrap());
    let send = || step.send_when_room(&own, Args::default(), of_bytes(8000), false);
    in_time(send()).await.unwrap();
    let mut waiting = Box::pin(send());
    let soon = std::time::Duration::from_millis(20);
    tokio::time::timeout(soon, &mut waiting).await.expect_err("there is no room");
    let mut given_up = Box::pin(send());
    tokio::time::timeout(soon, &mut given_up).await.expect_err("there is no room");
    assert_eq!(worker.manager.report().parked, 2);
    drop(given_up);
    assert_eq!(worker.manager.report().parked, 1);
    for _ in 0..2 {
        in_time(step.recv(&own, Args::default(), None)).await.unwrap();
    }
    in_time(waiting).await.unwrap();
    let refused =
        in_time(step.send_when_room(&own, Args::default(), of_bytes(10_000), false)).await;
    assert_eq!(refused.unwrap_err().code, Code::ResourceExhausted, "it never fits");
    worker.is_empty().await;
}

/// What another worker fetches counts until that one says that it has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn room_comes_back_when_another_worker_has_its_tensor() {
    let (from, to) = pair();
    let key = key(0, 1, "edge");
    let step = to.manager.find(STEP).unwrap();
    for bytes in [400, 200_000, 400, 10_000_000] {
        let sender = from.manager.find(STEP).unwrap();
        sender.send(&key, Args::default(), of_bytes(bytes), false).unwrap();
        in_time(step.recv(&key, Args::default(), None)).await.unwrap();
        from.is_empty().await;
    }
}
