//! Who waits, gives up, or is told that there is nothing to wait for.

use std::time::Duration;

use rondo::rendezvous::{Args, Config, Session};
use rondo_core::element::Tensor;
use rondo_core::ids::StepId;
use rondo_core::status::{Code, Status};

use crate::bed::{STEP, Worker, config, in_time, key, name, pair, pair_of};
use crate::tensors::of_bytes;

fn one(number: usize) -> Tensor {
    of_bytes(4 * number)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_takes_one_receive_away_and_no_tensor() {
    let (from, to) = pair();
    let (key, step) = (key(0, 1, "edge"), to.manager.find(STEP).unwrap());
    let mut receives = Vec::new();
    for count in 1..=4 {
        receives.push(step.recv_async(&key, Args::default()));
        // One after the other, so that their order is known.
        from.has_waiting(count).await;
    }
    drop(receives.remove(2));
    drop(receives.remove(0));
    from.has_waiting(2).await;
    for number in 1..=3 {
        let step = from.manager.find(STEP).unwrap();
        step.send(&key, Args::default(), one(number), false).unwrap();
    }
    for (number, receive) in (1..).zip(receives) {
        assert_eq!(in_time(receive).await.unwrap().value.tensor, one(number));
    }
    let left = in_time(from.manager.recv_local(STEP, &key, None)).await.unwrap();
    assert_eq!(left.value.tensor, one(3), "nobody wanted it yet");
    from.is_empty().await;
    to.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_is_over_lets_everybody_know() {
    let (from, to) = pair();
    let step = to.manager.find(STEP).unwrap();
    let receives: Vec<_> = (0..1000)
        .map(|edge| step.recv_async(&key(0, 1, &format!("edge_{edge}")), Args::default()))
        .collect();
    from.has_waiting(1000).await;
    from.manager.cleanup(STEP);
    for receive in receives {
        let refused = in_time(receive).await.unwrap_err();
        // What another worker says of its step follows from why that ended, which it knows.
        let wanted = (Code::Aborted, "[_Derived_]Cleanup 7");
        assert_eq!((refused.code, refused.message.as_str()), wanted);
    }
    from.is_empty().await;
    to.manager.cleanup_all();
    to.is_empty().await;
    assert_eq!(to.manager.report().steps, 0);
}

#[tokio::test]
async fn an_aborted_step_gives_its_first_reason() {
    let worker = Worker::alone(config(0));
    let (own, step) = (key(0, 0, "own"), worker.manager.find(STEP).unwrap());
    let receive = step.recv_async(&own, Args::default());
    step.start_abort(Status::new(Code::DataLoss, "the disk is gone"));
    step.start_abort(Status::new(Code::Internal, "later"));
    for refused in [
        in_time(receive).await.unwrap_err(),
        in_time(step.recv(&own, Args::default(), None)).await.unwrap_err(),
        step.send(&own, Args::default(), one(1), false).unwrap_err(),
    ] {
        assert_eq!(refused, Status::new(Code::DataLoss, "the disk is gone"));
    }
    worker.is_empty().await;
}

#[tokio::test]
async fn a_receive_in_time_or_not() {
    let worker = Worker::alone(config(0));
    let (own, step) = (key(0, 0, "own"), worker.manager.find(STEP).unwrap());
    let soon = Some(Duration::from_millis(20));
    let refused = in_time(step.recv(&own, Args::default(), soon)).await.unwrap_err();
    assert_eq!(refused.code, Code::DeadlineExceeded);
    step.send(&own, Args::default(), one(1), false).unwrap();
    let delivery = in_time(worker.manager.recv_local(STEP, &own, soon)).await.unwrap();
    assert_eq!(delivery.value.tensor, one(1));
}

/// What overtakes the beginning of a step waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_before_a_step_is_initialised_is_carried_out_then() {
    let bare = |task| Config { session: None, ..config(task) };
    let (from, to) = pair_of(bare(0), bare(1));
    let key = key(0, 1, "edge");
    let receiver = to.manager.find(STEP).unwrap();
    let receive = receiver.recv_async(&key, Args::default());
    let sender = from.manager.find(STEP).unwrap();
    sender.send(&key, Args::default(), one(5), false).unwrap();
    let session = |task| Session { worker_name: name(task).into() };
    receiver.initialize(&session(1)).unwrap();
    from.has_waiting(1).await;
    sender.initialize(&session(0)).unwrap();
    sender.initialize(&session(0)).unwrap();
    assert_eq!(in_time(receive).await.unwrap().value.tensor, one(5));
    let refused = sender.initialize(&session(1)).unwrap_err();
    assert_eq!(refused.code, Code::Internal);
    assert!(refused.message.starts_with("Double init!"), "{refused}");

    let never = StepId::new(8);
    let receive = to.manager.find(never).unwrap().recv_async(&key, Args::default());
    to.manager.cleanup(never);
    assert_eq!(in_time(receive).await.unwrap_err().message, "Cleanup 8");
    from.is_empty().await;
    to.is_empty().await;
}

#[tokio::test]
async fn a_step_that_nobody_cleans_up_is_given_up() {
    let expiry = rondo_core::time::Duration::from_millis(50);
    let worker = Worker::alone(Config { step_expiry: Some(expiry), ..config(0) });
    let (own, step) = (key(0, 0, "own"), worker.manager.find(STEP).unwrap());
    step.send(&own, Args::default(), one(1), false).unwrap();
    let receive = step.recv_async(&key(0, 0, "other"), Args::default());
    let refused = in_time(receive).await.unwrap_err();
    assert_eq!(refused.code, Code::Aborted);
    assert!(refused.message.contains("--rendezvous-step-expiry"), "{refused}");
    worker.is_empty().await;
    assert_eq!(worker.manager.report().steps, 0);
}
