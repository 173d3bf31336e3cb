//! What a worker asks, of whom, and where answers go.

use rondo_core::exchange::message::ToServer;
use rondo_core::exchange::worker::{Complete, Effect, Input, Landing, Since};
use rondo_core::exchange::{Config, Handler, InstanceRank, Key, Refusal, ServerRank, Side};
use rondo_core::ids::CallId;
use rondo_core::status::{Code, Status};

use crate::bed::{WorkerBed, connection, info, number, tensor};

fn handlers(of: std::ops::Range<u64>) -> Vec<Handler> {
    of.map(Handler::new).collect()
}

#[test]
fn handlers_follow_each_other_one_for_each_push_and_each_pull_of_a_server() {
    let mut bed = WorkerBed::new(Config::default(), 2);
    assert_eq!(bed.exchange(&[1, 2], &[7, 8]), Ok(Handler::new(0)));
    assert_eq!(bed.machine.all_handlers(Handler::new(0)), handlers(0..3));
    assert_eq!(bed.exchange(&[3], &[]), Ok(Handler::new(3)));
    assert_eq!(bed.machine.all_handlers(Handler::new(3)), handlers(3..4));
}

#[test]
fn all_handlers_of_a_request_that_was_waited_for_are_its_first_one() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1, 2], &[7]).unwrap();
    bed.answer(0, 1, vec![tensor(7, 50)]);
    assert_eq!(bed.machine.all_handlers(Handler::new(0)).len(), 3);
    let (_, told) = bed.wait(0, None, Since::Call);
    assert_eq!(told, Some(Ok(Complete::default())));
    assert_eq!(bed.machine.all_handlers(Handler::new(0)), handlers(0..1));
}

#[test]
fn every_server_gets_every_push_and_its_own_pulls() {
    let mut bed = WorkerBed::new(Config::default(), 2);
    bed.exchange(&[1, 2], &[7, 8, 9, 10]).unwrap();
    for (server, pulls) in [(0, [7, 8]), (1, [9, 10])] {
        let said = bed.said(server);
        let [ToServer::Request(request)] = &said[..] else {
            panic!("{said:?}");
        };
        let pushed: Vec<u64> = request.pushes.iter().map(|it| it.key.get()).collect();
        let pulled: Vec<u64> = request.pulls.iter().map(|it| it.key.get()).collect();
        assert_eq!((pushed, pulled), (vec![1, 2], pulls.to_vec()));
        assert_eq!(request.number, number(1));
    }
}

#[test]
fn answers_go_where_they_belong_whichever_server_is_first() {
    let mut bed = WorkerBed::new(Config::default(), 2);
    bed.exchange(&[1], &[7, 8, 9, 10]).unwrap();
    bed.answer(1, 1, vec![tensor(9, 61), tensor(10, 62)]);
    assert_eq!(bed.filled(), [(61, 1002), (62, 1003)]);
    let (call, told) = bed.wait(0, None, Since::Call);
    assert_eq!(told, None, "one server has not answered");
    bed.answer(0, 1, vec![tensor(7, 51), tensor(8, 52)]);
    assert_eq!(bed.filled()[2..], [(51, 1000), (52, 1001)]);
    assert_eq!(bed.waited(call), Some(Ok(Complete::default())));
}

#[test]
fn pushes_alone_are_over_when_they_have_arrived_and_a_single_one_when_it_is_answered() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1, 2], &[]).unwrap();
    bed.exchange(&[3], &[]).unwrap();
    let (several, _) = bed.wait(0, None, Since::Call);
    let (single, _) = bed.wait(2, None, Since::Call);
    bed.pushed(0, 1);
    assert_eq!(bed.waited(several), Some(Ok(Complete::default())));
    bed.pushed(0, 2);
    assert_eq!(bed.waited(single), None);
    bed.answer(0, 2, Vec::new());
    assert_eq!(bed.waited(single), Some(Ok(Complete::default())));
}

#[test]
fn a_rest_of_pulls_is_refused_unless_it_is_to_be_ignored() {
    let mut bed = WorkerBed::new(Config::default(), 2);
    let refused = Err(Refusal::Pulls { pulls: 3, servers: 2 });
    assert_eq!(bed.exchange(&[1], &[7, 8, 9]), refused);
    let pulls = (0..3).map(|nth| tensor(7, nth)).collect();
    let (call, pushes, ignores_rest) = (CallId::new(99), vec![tensor(1, 1)], true);
    bed.step(Input::Exchange { call, pushes, pulls, ignores_rest });
    let result = Ok(Handler::new(0));
    assert!(bed.told.contains(&Effect::Started { call, result }));
    assert_eq!(bed.machine.all_handlers(Handler::new(0)), handlers(0..2));
}

#[test]
fn fewer_pulls_than_servers_are_refused_even_where_a_rest_is_ignored() {
    let mut bed = WorkerBed::new(Config::default(), 2);
    let (call, pushes, pulls) = (CallId::new(99), vec![tensor(1, 1)], vec![tensor(7, 2)]);
    bed.step(Input::Exchange { call, pushes, pulls, ignores_rest: true });
    let result = Err(Refusal::Pulls { pulls: 1, servers: 2 });
    assert!(bed.told.contains(&Effect::Started { call, result }));
}

#[test]
fn what_is_too_much_is_refused_in_words_that_name_the_bound() {
    let config =
        Config { tensors_max: 3, request_bytes_max: 20, handlers_max: 1, ..Config::default() };
    let mut bed = WorkerBed::new(config, 1);
    assert_eq!(bed.exchange(&[], &[]), Err(Refusal::Empty));
    let tensors = Refusal::TooManyTensors { tensors: 4, max: 3 };
    assert_eq!(bed.exchange(&[1, 2, 3], &[7]), Err(tensors));
    let large = Refusal::RequestTooLarge { side: Side::Push, bytes: 24, max: 20 };
    assert_eq!(bed.exchange(&[1, 2, 3], &[]), Err(large));
    let large = Refusal::RequestTooLarge { side: Side::Pull, bytes: 24, max: 20 };
    assert_eq!(bed.exchange(&[], &[7, 8, 9]), Err(large.clone()));
    assert!(Status::from(large).message.contains("24 bytes for one server: there may be 20"));
    bed.exchange(&[1], &[7]).unwrap();
    let many = Refusal::TooManyHandlers { max: 1 };
    assert_eq!(bed.exchange(&[1], &[7]), Err(many.clone()));
    assert_eq!(Status::from(many).code, Code::ResourceExhausted);
    assert_eq!(bed.requests(0), [1], "what is refused is not sent");
}

#[test]
fn who_does_not_know_the_servers_can_ask_nothing() {
    let machine = rondo_core::exchange::worker::Worker::start(
        Config::default(),
        InstanceRank::new(0),
        crate::bed::RUN,
    );
    let (mut machine, mut told) = (machine.unwrap(), Vec::new());
    let (call, pushes, pulls) = (CallId::new(1), vec![tensor(1, 1)], Vec::new());
    let input = Input::Exchange { call, pushes, pulls, ignores_rest: false };
    machine.step(rondo_core::time::Time::ZERO, input, &mut told);
    assert_eq!(told, [Effect::Started { call, result: Err(Refusal::NoMembership) }]);
}

#[test]
fn an_answer_of_another_size_fails_the_request_and_writes_nothing() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    let mut wrong = tensor(7, 50);
    wrong.info = info(9);
    let landing = bed.machine.land(connection(0), number(1), std::slice::from_ref(&wrong));
    assert_eq!(landing, Landing::Nowhere);
    bed.answer(0, 1, vec![wrong]);
    let (server, key) = (ServerRank::new(0), Key::new(7));
    let refused = Refusal::AnswerDiffers { server, index: 0, key, bytes: 9, wanted: 8 };
    assert_eq!(bed.wait(0, None, Since::Call).1, Some(Err(refused)));
    assert_eq!(bed.filled(), []);
}

#[test]
fn what_a_server_refuses_is_told_in_its_words() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    let status = Status::new(Code::InvalidArgument, "too large for its slot");
    let message = rondo_core::exchange::message::ToWorker::Refused {
        number: number(1),
        status: status.clone(),
    };
    bed.hear(0, message);
    let refused = Refusal::Refused { server: ServerRank::new(0), status };
    assert!(Status::from(refused.clone()).message.contains("too large for its slot"));
    assert_eq!(bed.wait(0, None, Since::Call).1, Some(Err(refused)));
}

#[test]
fn nothing_is_written_for_who_has_given_a_request_up() {
    let mut bed = WorkerBed::new(Config::default(), 1);
    bed.exchange(&[1], &[7]).unwrap();
    bed.step(Input::Abandon { handler: Handler::new(0) });
    let landing = bed.machine.land(connection(0), number(1), &[tensor(7, 0)]);
    assert_eq!(landing, Landing::Nowhere);
    bed.answer(0, 1, vec![tensor(7, 50)]);
    assert_eq!(bed.filled(), []);
    bed.pass(1_000);
    assert_eq!(bed.machine.report().open + bed.machine.report().unacknowledged, 0);
}
