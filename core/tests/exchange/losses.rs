//! Servers that are away, lost, or there again, and what becomes of requests.

use rondo_core::exchange::membership::State;
use rondo_core::exchange::message::{ToServer, ToWorker};
use rondo_core::exchange::worker::{Complete, Effect, Event, Input, Landing, Since};
use rondo_core::exchange::{Config, Handler, Policy, Refusal, Role, ServerRank};
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::bed::{RUN, WorkerBed, changed, connection, membership, number, tensor};

const GRACE_MS: u64 = 2_000;

fn with(policy: Policy) -> Config {
    Config { policy, ..Config::default() }
}

fn lost(result: Option<Result<Complete, Refusal>>) -> rondo_core::exchange::PeerLost {
    match result {
        Some(Err(Refusal::PeerLost(lost))) => lost,
        other => panic!("{other:?}"),
    }
}

/// The scheduler says that a server is lost, or that it runs as this run.
fn server_is(bed: &mut WorkerBed, version: u64, server: u32, run: u64, state: State) {
    let news = changed(membership(version, 1, bed.servers), Role::Server, server, run, state);
    bed.step(Input::Membership(news));
}

#[test]
fn what_a_server_has_not_received_is_sent_again_before_what_was_not_sent_yet() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    for key in [1, 2, 3] {
        bed.exchange(&[key], &[7]).unwrap();
    }
    assert_eq!(bed.requests(0), [1, 2, 3]);
    bed.break_off(0);
    bed.exchange(&[4], &[7]).unwrap();
    bed.pass(10);
    let connects = |effect: &&Effect<u32>| matches!(effect, Effect::Connect { .. });
    assert_eq!(bed.told.iter().filter(connects).count(), 1);
    bed.connected(0, RUN.get());
    let said = bed.said(0);
    let [ToServer::Hello(hello)] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(hello.open, [1, 2, 3].map(number));
    // It has the first one: the other two keep their places.
    bed.join_again(1);
    let again = bed.said(0);
    let keys: Vec<(u64, u64)> = again
        .iter()
        .map(|message| match message {
            ToServer::Request(it) => (it.number.get(), it.pushes[0].key.get()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(keys, [(2, 2), (3, 3), (4, 4)]);
}

#[test]
fn a_connection_that_does_not_return_in_time_fails_who_needs_it_and_names_whom() {
    let mut bed = WorkerBed::new(Config::default(), 2);
    bed.exchange(&[1], &[7, 8]).unwrap();
    let (call, _) = bed.wait(0, None, Since::Call);
    bed.break_off(1);
    bed.pass(GRACE_MS - 1);
    assert_eq!(bed.waited(call), None);
    bed.pass(1);
    let lost = lost(bed.waited(call));
    assert_eq!((lost.role, lost.rank.get(), lost.incarnation), (Role::Server, 1, RUN));
    assert_eq!(&*lost.address, "server1:1");
    let status = Status::from(Refusal::PeerLost(lost));
    assert_eq!(status.code, Code::Unavailable);
    assert!(status.message.starts_with("server 1 (incarnation 70, \"server1:1\") is lost"));
    let refused = bed.exchange(&[2], &[7, 8]);
    assert!(matches!(refused, Err(Refusal::PeerLost(_))), "{refused:?}");
}

#[test]
fn a_server_that_the_scheduler_takes_for_lost_is_lost_at_once() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    let (call, _) = bed.wait(0, None, Since::Call);
    server_is(&mut bed, 2, 0, RUN.get(), State::Lost);
    lost(bed.waited(call));
    let connection = connection(0);
    assert!(bed.told.contains(&Effect::Close { connection }));
}

#[test]
fn nobody_is_told_that_a_request_failed_while_an_answer_is_being_written() {
    let mut bed = WorkerBed::new(Config::default(), 2);
    bed.exchange(&[1], &[7, 8]).unwrap();
    let (call, _) = bed.wait(0, None, Since::Call);
    let landing = bed.machine.land(connection(0), number(1), &[tensor(7, 0)]);
    assert_eq!(landing, Landing::At(vec![1000]));
    server_is(&mut bed, 2, 1, RUN.get(), State::Lost);
    assert_eq!(bed.waited(call), None, "where it pulls to is written");
    bed.answer(0, 1, vec![tensor(7, 1000)]);
    lost(bed.waited(call));
}

/// Found by the simulator.
#[test]
fn who_waits_is_told_when_all_of_an_answer_has_come_that_nobody_wants_any_more() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    let (call, _) = bed.wait(0, None, Since::Call);
    bed.machine.land(connection(0), number(1), &[tensor(7, 0)]);
    server_is(&mut bed, 2, 0, RUN.get(), State::Lost);
    assert_eq!(bed.waited(call), None, "where it pulls to is written");
    // The rest of it comes before the driver says that the connection is closed.
    bed.answer(0, 1, vec![tensor(7, 1000)]);
    lost(bed.waited(call));
    assert_eq!(bed.filled(), []);
}

#[test]
fn an_answer_that_breaks_off_is_written_from_the_beginning() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    bed.machine.land(connection(0), number(1), &[tensor(7, 0)]);
    bed.break_off(0);
    bed.pass(10);
    bed.connected(0, RUN.get());
    bed.join_again(1);
    let landing = bed.machine.land(connection(0), number(1), &[tensor(7, 0)]);
    assert_eq!(landing, Landing::At(vec![1000]));
    bed.answer(0, 1, vec![tensor(7, 1000)]);
    assert_eq!(bed.wait(0, None, Since::Call).1, Some(Ok(Complete::default())));
}

#[test]
fn requests_may_do_without_a_lost_server_but_not_without_all() {
    let mut bed = WorkerBed::new(with(Policy::Partial), 2);
    bed.exchange(&[1], &[7, 8]).unwrap();
    server_is(&mut bed, 2, 1, RUN.get(), State::Lost);
    bed.answer(0, 1, vec![tensor(7, 50)]);
    let missing = |told: Option<Result<Complete, Refusal>>| -> Vec<u32> {
        told.unwrap().unwrap().missing.iter().map(|lost| lost.rank.get()).collect()
    };
    assert_eq!(missing(bed.wait(0, None, Since::Call).1), [1]);
    bed.exchange(&[1], &[7, 8]).unwrap();
    bed.answer(0, 2, vec![tensor(7, 51)]);
    assert_eq!(missing(bed.wait(2, None, Since::Call).1), [1]);
    bed.exchange(&[1], &[7, 8]).unwrap();
    let both = changed(membership(3, 1, 2), Role::Server, 0, RUN.get(), State::Lost);
    let both = changed(both, Role::Server, 1, RUN.get(), State::Lost);
    bed.step(Input::Membership(both));
    lost(bed.wait(4, None, Since::Call).1);
    let refused = bed.exchange(&[1], &[7, 8]);
    assert!(matches!(refused, Err(Refusal::PeerLost(_))), "{refused:?}");
}

/// Found by the simulator: it was told that it waits for nobody.
#[test]
fn who_waits_too_long_for_the_end_of_a_lost_servers_answer_is_told_of_that_server() {
    let mut bed = WorkerBed::new(with(Policy::Partial), 2);
    bed.exchange(&[1], &[7, 8]).unwrap();
    bed.answer(1, 1, vec![tensor(8, 50)]);
    bed.machine.land(connection(0), number(1), &[tensor(7, 0)]);
    let (call, _) = bed.wait(0, Some(200), Since::Call);
    server_is(&mut bed, 2, 0, RUN.get(), State::Lost);
    let late = |after_ms| {
        let (handler, after) = (Handler::new(0), Duration::from_millis(after_ms));
        Some(Err(Refusal::Late { handler, after, missing: vec![ServerRank::new(0)] }))
    };
    bed.pass(200);
    assert_eq!(bed.waited(call), late(200));
    assert_eq!(bed.wait(0, Some(100), Since::Request).1, late(100));
}

#[test]
fn requests_may_wait_for_the_run_that_takes_a_lost_servers_rank() {
    let timeout = Duration::from_millis(5_000);
    let mut bed = WorkerBed::new(with(Policy::WaitForReturn { timeout }), 1);
    bed.exchange(&[1], &[7]).unwrap();
    let (call, _) = bed.wait(0, None, Since::Call);
    server_is(&mut bed, 2, 0, RUN.get(), State::Lost);
    bed.break_off(0);
    bed.exchange(&[2], &[7]).unwrap();
    bed.requests(0);
    bed.pass(4_000);
    server_is(&mut bed, 3, 0, 71, State::Up);
    bed.join(0, 71, 0);
    assert_eq!(bed.requests(0), [1, 2], "the new run counts anew");
    bed.pass(5_000);
    assert_eq!(bed.waited(call), None, "it has returned in time");
    bed.answer(0, 1, vec![tensor(7, 50)]);
    assert_eq!(bed.waited(call), Some(Ok(Complete::default())));
}

#[test]
fn a_new_run_is_connected_to_when_nothing_is_read_from_the_old_one_any_more() {
    let timeout = Duration::from_millis(5_000);
    let mut bed = WorkerBed::new(with(Policy::WaitForReturn { timeout }), 1);
    bed.exchange(&[1], &[7]).unwrap();
    bed.machine.land(connection(0), number(1), &[tensor(7, 0)]);
    server_is(&mut bed, 2, 0, 71, State::Up);
    bed.pass(1_000);
    let connects = |effect: &Effect<u32>| matches!(effect, Effect::Connect { .. });
    assert!(!bed.told.iter().any(connects), "the old run's answer is still being written");
    bed.break_off(0);
    bed.pass(500);
    assert!(bed.told.iter().any(connects));
}

#[test]
fn requests_that_wait_for_a_return_fail_when_nobody_returns() {
    let timeout = Duration::from_millis(5_000);
    let mut bed = WorkerBed::new(with(Policy::WaitForReturn { timeout }), 1);
    bed.exchange(&[1], &[7]).unwrap();
    let (call, _) = bed.wait(0, None, Since::Call);
    server_is(&mut bed, 2, 0, RUN.get(), State::Lost);
    bed.pass(4_999);
    assert_eq!(bed.waited(call), None);
    bed.pass(1);
    lost(bed.waited(call));
    assert_eq!(bed.machine.report().queued, 0);
}

#[test]
fn requests_that_are_made_while_a_server_is_lost_wait_for_its_return_as_long() {
    let timeout = Duration::from_millis(5_000);
    let mut bed = WorkerBed::new(with(Policy::WaitForReturn { timeout }), 1);
    server_is(&mut bed, 2, 0, RUN.get(), State::Lost);
    bed.pass(1_000);
    bed.exchange(&[1], &[7]).unwrap();
    let (call, _) = bed.wait(0, None, Since::Call);
    bed.pass(4_999);
    assert_eq!(bed.waited(call), None);
    bed.pass(1);
    lost(bed.waited(call));
}

#[test]
fn another_run_of_a_server_gets_nothing_of_what_was_meant_for_the_one_before() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    server_is(&mut bed, 2, 0, 71, State::Up);
    lost(bed.wait(0, None, Since::Call).1);
    bed.break_off(0);
    bed.pass(500);
    bed.requests(0);
    bed.join(0, 71, 0);
    assert_eq!(bed.requests(0), [] as [u64; 0]);
    bed.exchange(&[1], &[7]).unwrap();
    assert_eq!(bed.requests(0), [1]);
}

#[test]
fn pauses_between_attempts_grow_to_the_longest_and_no_further() {
    let mut bed = WorkerBed::unconnected(Config::default(), 1);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let (server, why) = (ServerRank::new(0), "no way".into());
        bed.step(Input::NotConnected { server, incarnation: RUN, why });
        let before = bed.now;
        let attempts = |bed: &WorkerBed| {
            bed.told.iter().filter(|it| matches!(it, Effect::Connect { .. })).count()
        };
        let had = attempts(&bed);
        while attempts(&bed) == had {
            bed.pass(1);
        }
        pauses.push(bed.now.since(before).as_millis());
    }
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 500, 500, 500]);
}

#[test]
fn a_connection_for_a_run_that_is_past_is_closed() {
    let mut bed = WorkerBed::unconnected(Config::default(), 1);
    server_is(&mut bed, 2, 0, 71, State::Up);
    let (server, connection) = (ServerRank::new(0), connection(0));
    bed.step(Input::Connected { server, incarnation: RUN, connection });
    assert!(bed.told.contains(&Effect::Close { connection }));
    bed.hear(0, ToWorker::Released { number: number(1) });
    let complains = |it: &Effect<u32>| matches!(it, Effect::Observe(Event::Protocol { .. }));
    assert!(!bed.told.iter().any(complains), "what comes late is ignored");
}

#[test]
fn a_server_that_claims_what_was_never_sent_is_not_listened_to() {
    let mut bed = WorkerBed::unconnected(Config::default(), 1);
    bed.join(0, RUN.get(), 3);
    let complains = |it: &Effect<u32>| matches!(it, Effect::Observe(Event::Protocol { .. }));
    assert!(bed.told.iter().any(complains));
    assert_eq!(bed.machine.report().ready, 0);
}

#[test]
fn a_key_is_pushed_again_when_the_server_is_done_with_it_and_others_wait_behind_it() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    bed.exchange(&[1], &[7]).unwrap();
    bed.exchange(&[2], &[7]).unwrap();
    assert_eq!(bed.requests(0), [1], "a key has one credit");
    bed.hear(0, ToWorker::Released { number: number(1) });
    assert_eq!(bed.requests(0), [2, 3]);
}

#[test]
fn no_more_is_sent_than_the_server_has_room_for() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    for _ in 0..6 {
        bed.exchange(&[], &[7]).unwrap();
    }
    assert_eq!(bed.requests(0), [1, 2, 3, 4]);
    bed.answer(0, 2, vec![tensor(7, 50)]);
    let said = bed.said(0);
    let [ToServer::Request(request)] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!((request.number, &request.acknowledged[..]), (number(5), &[number(2)][..]));
}

#[test]
fn what_is_larger_than_all_that_a_server_has_room_for_fails() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    let mut large = tensor(1, 1);
    large.info = crate::bed::info(101);
    bed.exchange_tensors(vec![large], Vec::new()).unwrap();
    let told = bed.wait(0, None, Since::Call).1;
    let expected =
        Refusal::RequestTooLarge { side: rondo_core::exchange::Side::Push, bytes: 101, max: 100 };
    assert_eq!(told, Some(Err(expected)));
}

#[test]
fn an_answer_is_acknowledged_soon_even_if_no_request_follows() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[], &[7]).unwrap();
    bed.requests(0);
    bed.answer(0, 1, vec![tensor(7, 50)]);
    bed.pass(99);
    assert_eq!(bed.said(0), []);
    bed.pass(1);
    assert_eq!(bed.said(0), [ToServer::Acknowledge { numbers: vec![number(1)] }]);
}

/// A server that was cut off took the worker for lost, and has nothing of its requests any more.
#[test]
fn requests_that_wait_for_a_return_go_again_when_the_server_gave_them_up() {
    let timeout = Duration::from_millis(5_000);
    let mut bed = WorkerBed::new(with(Policy::WaitForReturn { timeout }), 1);
    bed.exchange(&[1], &[7]).unwrap();
    let (call, _) = bed.wait(0, None, Since::Call);
    let sent = bed.requests(0);
    for of in &sent {
        let status = Status::new(Code::Unavailable, "this worker was taken for lost");
        bed.hear(0, ToWorker::Refused { number: number(*of), status });
    }
    assert_eq!(bed.waited(call), None, "it waits for the server");
    let again = bed.requests(0);
    assert_eq!(again.len(), sent.len(), "{again:?}");
    for of in again {
        bed.answer(0, of, vec![tensor(7, 50)]);
    }
    assert_eq!(bed.waited(call), Some(Ok(Complete::default())));
}
