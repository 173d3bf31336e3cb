//! Peers that are lost, and that return.

use std::time::{Duration, Instant};

use rondo::exchange::{Exchange, Ways};
use rondo_core::exchange::message::Scope;
use rondo_core::exchange::server::Partial;
use rondo_core::exchange::worker::Since;
use rondo_core::exchange::{Config, Mask, Policy, Role};
use rondo_core::status::Code;
use rondo_core::time;

use crate::bed::{Bed, SOON, all_ways, always, begin, begin_push_pull, numbers, room, values};

pub(crate) fn hasty() -> Config {
    Config {
        heartbeat_interval: time::Duration::from_millis(50),
        heartbeat_timeout: time::Duration::from_millis(1500),
        reconnect_grace: time::Duration::from_millis(400),
        ..Config::default()
    }
}

#[test]
fn a_server_that_is_gone_is_named_to_who_waits_for_it() {
    for ways in all_ways() {
        let bed = Bed::with(1, 2, 1, ways, hasty());
        let (workers, mut servers) = bed.start();
        let pulls = vec![room(2, 1), room(3, 1)];
        let handler = begin(&workers[0], vec![numbers(1, &[1.0])], pulls).unwrap();
        drop(servers.pop());
        let began = Instant::now();
        let error = workers[0].wait(handler, None, Since::Call, &mut always).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        let lost = error.lost.clone().expect("it says who");
        assert_eq!((lost.role, lost.rank.get()), (Role::Server, 1), "{error}");
        assert_eq!(error.status.code, Code::Unavailable);
        // What needs it is refused or fails as fast; the process lives.
        let barrier = workers[0].barrier(Mask::ALL, Scope::Instance, Some(SOON), &mut always);
        assert!(barrier.unwrap_err().lost.is_some());
    }
}

#[test]
fn a_worker_that_is_gone_is_named_and_done_without() {
    let bed = Bed::with(2, 1, 1, Ways::default(), hasty());
    let (mut workers, servers) = bed.start();
    begin_push_pull(&workers[0], vec![numbers(1, &[5.0])], vec![]).unwrap();
    drop(workers.pop());
    let error = servers[0].get_batch(&mut always).unwrap_err();
    assert_eq!(error.lost.map(|lost| (lost.role, lost.rank.get())), Some((Role::Worker, 1)));
    let batch = servers[0]
        .get_batch_within(Some(SOON), Partial::UpMembersOnly, &mut always)
        .expect("the other is there");
    assert_eq!(batch.len(), 1);
    assert_eq!(values(&batch[0].tensors[0].payload), [5.0]);
}

#[test]
fn a_batch_that_does_not_come_in_time_says_whose_is_missing() {
    let bed = Bed::new(2, 1, 1, Ways::default());
    let (workers, servers) = bed.start();
    begin_push_pull(&workers[1], vec![numbers(1, &[5.0])], vec![]).unwrap();
    let wait = Some(Duration::from_millis(200));
    let error = servers[0].get_batch_within(wait, Partial::Never, &mut always).unwrap_err();
    assert_eq!(error.status.code, Code::DeadlineExceeded, "{error}");
    assert!(error.to_string().contains('0'), "{error}");
    let batch = servers[0].get_batch_within(wait, Partial::AtDeadline, &mut always).unwrap();
    assert_eq!(batch.len(), 1);
}

#[test]
fn a_server_that_returns_gets_what_waits_for_it() {
    let policy = Policy::WaitForReturn { timeout: time::Duration::from_secs(20) };
    let bed = Bed::with(1, 1, 1, Ways::default(), Config { policy, ..hasty() });
    let (workers, mut servers) = bed.start();
    let pull = room(2, 1);
    let handler = begin(&workers[0], vec![numbers(1, &[3.0])], vec![pull.clone()]).unwrap();
    drop(servers.pop());
    let settings = bed.settings(Role::Server, 0);
    let returned = std::thread::spawn(move || {
        let server = Exchange::start(settings, &mut always).unwrap();
        let batch = server.get_batch(&mut always).unwrap();
        let doubled: Vec<f32> =
            values(&batch[0].tensors[0].payload).iter().map(|it| it * 2.0).collect();
        let answer = numbers(0, &doubled);
        server.respond(batch[0].handler, vec![(answer.info, answer.payload)]).unwrap();
        server
    });
    workers[0].wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
    assert_eq!(values(&pull.payload), [6.0]);
    drop(returned.join().unwrap());
}

#[test]
fn who_is_interrupted_waits_no_more_and_may_wait_again() {
    let bed = Bed::new(1, 1, 1, Ways::default());
    let (workers, servers) = bed.start();
    let error = servers[0].get_batch(&mut || false).unwrap_err();
    assert_eq!(error.status.code, Code::Cancelled);
    let handler = begin_push_pull(&workers[0], vec![numbers(1, &[1.0])], vec![]).unwrap();
    let error = workers[0].wait(handler, None, Since::Call, &mut || false).unwrap_err();
    assert_eq!(error.status.code, Code::Cancelled);
    let batch = servers[0].get_batch(&mut always).unwrap();
    servers[0].respond(batch[0].handler, vec![]).unwrap();
    workers[0].wait(handler, Some(SOON), Since::Call, &mut always).unwrap();
}
