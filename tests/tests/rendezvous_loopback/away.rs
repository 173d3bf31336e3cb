//! Workers that are away for a while or for good, and connections that break.

use std::time::{Duration, Instant};

use rondo::rendezvous::{Args, Config};
use rondo_core::status::Code;
use rondo_core::time;

use crate::bed::{STEP, Worker, config, in_time, key, place};
use crate::proxy::Proxy;
use crate::tensors::of_bytes;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_tensor_goes_on_where_its_connection_broke() {
    const BYTES: usize = 64 << 20;
    let (listener, address) = place();
    let from = Worker::distant(listener, config(0));
    let proxy = Proxy::before(&address, 6, 9 << 20);
    let to = Worker::start(place().0, config(1), &[(0, &proxy.address)]);
    let (key, tensor) = (key(0, 1, "long"), of_bytes(BYTES));
    let receive = to.manager.find(STEP).unwrap().recv_async(&key, Args::default());
    let step = from.manager.find(STEP).unwrap();
    step.send(&key, Args::default(), tensor.clone(), false).unwrap();
    assert!(in_time(receive).await.unwrap().value.tensor == tensor);
    assert_eq!(proxy.cuts_left(), 0);
    // What was read of a message that did not end is all that came twice.
    let again = proxy.brought() - BYTES as u64;
    assert!(again < 6 * (5 << 20), "{again} bytes came more than once");
    from.is_empty().await;
    to.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tensor_is_lost_or_given_twice_however_often_connections_break() {
    let (listener, address) = place();
    let from = Worker::start(listener, config(0), &[]);
    let proxy = Proxy::before(&address, 6, 3000);
    let to = Worker::start(place().0, config(1), &[(0, &proxy.address)]);
    let step = to.manager.find(STEP).unwrap();
    let key = |edge: usize| key(0, 1, &format!("edge_{edge}"));
    let receives: Vec<_> =
        (0..100).map(|edge| step.recv_async(&key(edge), Args::default())).collect();
    let sender = from.manager.find(STEP).unwrap();
    for edge in 0..100 {
        let (args, tensor) = (Args::default(), of_bytes(4 * (edge + 1)));
        in_time(sender.send_when_room(&key(edge), args, tensor, false)).await.unwrap();
    }
    for (edge, receive) in receives.into_iter().enumerate() {
        let value = in_time(receive).await.unwrap().value;
        assert_eq!(value.tensor, of_bytes(4 * (edge + 1)), "{edge}");
    }
    assert!(proxy.cuts_left() < 6, "it has cut");
    from.is_empty().await;
    to.is_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_comes_later_is_waited_for() {
    let (listener, address) = place();
    drop(listener);
    let to = Worker::start(place().0, config(1), &[(0, &address)]);
    let key = key(0, 1, "edge");
    let receive = to.manager.find(STEP).unwrap().recv_async(&key, Args::default());
    tokio::time::sleep(Duration::from_millis(200)).await;
    let address = address.parse().unwrap();
    let from = Worker::start(rondo::transport::listener::bind(address).unwrap(), config(0), &[]);
    let step = from.manager.find(STEP).unwrap();
    step.send(&key, Args::default(), of_bytes(8), false).unwrap();
    assert_eq!(in_time(receive).await.unwrap().value.tensor, of_bytes(8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_stays_away_is_given_up_in_time() {
    let (listener, address) = place();
    let from = Worker::start(listener, config(0), &[]);
    let patience = time::Duration::from_millis(300);
    let patient = Config { patience, ..config(1) };
    let to = Worker::start(place().0, patient, &[(0, &address)]);
    let step = to.manager.find(STEP).unwrap();
    let receive = step.recv_async(&key(0, 1, "edge"), Args::default());
    from.has_waiting(1).await;
    let began = Instant::now();
    from.end().await;
    let refused = in_time(receive).await.unwrap_err();
    assert_eq!(refused.code, Code::Unavailable, "{refused}");
    assert!(refused.message.contains("--rendezvous-peer-patience"), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let unknown = in_time(step.recv(&key(3, 1, "edge"), Args::default(), None)).await.unwrap_err();
    assert_eq!(unknown.code, Code::Internal);
    let text = "No worker known as /job:w/replica:0/task:3";
    assert!(unknown.message.starts_with(text), "{unknown}");
    to.is_empty().await;
}

/// A worker that was restarted has another incarnation: what was asked of the one before is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_was_restarted_is_another_one() {
    let (listener, address) = place();
    let from = Worker::start(listener, config(0), &[]);
    let to = Worker::start(place().0, config(1), &[(0, &address)]);
    let step = to.manager.find(STEP).unwrap();
    let receive = step.recv_async(&key(0, 1, "edge"), Args::default());
    from.has_waiting(1).await;
    from.end().await;
    let again = Config { devices: [("/device:CPU:0".to_owned(), 99)].into(), ..config(0) };
    let listener = rondo::transport::listener::bind(address.parse().unwrap()).unwrap();
    let _from = Worker::start(listener, again, &[]);
    let refused = in_time(receive).await.unwrap_err();
    assert_eq!(refused.code, Code::Aborted, "{refused}");
    let text = "RecvTensor expects a different device incarnation: ";
    assert!(refused.message.starts_with(text), "{refused}");
}
