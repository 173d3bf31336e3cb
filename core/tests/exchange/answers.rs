//! Answers: to what, how often, how large, and how long they are kept.

use rondo_core::exchange::membership::State;
use rondo_core::exchange::message::{Answer, Hello, ToServer, ToWorker};
use rondo_core::exchange::server::{Answering, Effect, Event, Input, Partial, RowsOf};
use rondo_core::exchange::{
    Config, InstanceIndex, Key, MembershipVersion, Point, Refusal, Role, ScalarType, TensorInfo,
    UnitHandler, WorkerRank,
};
use rondo_core::status::{Code, Status};

use crate::bed::{RUN, ServerBed, changed, connection, info, membership, number, request};

fn unit(handler: u64) -> UnitHandler {
    UnitHandler::new(handler)
}

/// Numbers of the answers among what was said.
fn answers(said: &[ToWorker<u32>]) -> Vec<u64> {
    let of = |message: &ToWorker<u32>| match message {
        ToWorker::Answer(answer) => Some(answer.number.get()),
        _ => None,
    };
    said.iter().filter_map(of).collect()
}

#[test]
fn an_answer_goes_to_who_asked_under_the_keys_it_asked_for() {
    let mut bed = ServerBed::new(Config::default(), 2);
    bed.request(1, 1, &[1], 1);
    bed.take();
    assert_eq!(bed.respond(0, &[8]), Ok(()));
    assert_eq!(answers(&bed.said(0)), []);
    let said = bed.said(1);
    let Some(ToWorker::Answer(Answer { tensors, stamps, .. })) = said.last() else {
        panic!("{said:?}");
    };
    assert_eq!((tensors[0].key, tensors[0].info, tensors[0].payload), (Key::new(7), info(8), 500));
    assert_eq!(stamps.at(Point::ResponseStart), bed.now);
}

#[test]
fn a_unit_is_answered_once() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1], 1);
    bed.take();
    bed.respond(0, &[8]).unwrap();
    let before = Err(Refusal::AnsweredBefore { unit: unit(0) });
    assert_eq!(bed.respond(0, &[8]), before);
    bed.hear(0, ToServer::Acknowledge { numbers: vec![number(1)] });
    assert_eq!(bed.respond(0, &[8]), before, "also when nothing is kept of it");
    let unknown = Refusal::UnknownUnit { unit: unit(1), next: unit(1) };
    assert_eq!(bed.respond(1, &[8]), Err(unknown));
    assert_eq!(answers(&bed.said(0)), [1]);
}

#[test]
fn only_what_was_given_out_is_answered() {
    let mut bed = ServerBed::new(Config::default(), 2);
    bed.request(0, 1, &[1], 1);
    assert_eq!(bed.respond(0, &[8]), Err(Refusal::NotGivenOut { unit: unit(0) }));
}

#[test]
fn an_answer_has_as_many_tensors_as_are_pulled_and_each_is_as_large() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1], 2);
    bed.take();
    let count = Refusal::AnswerCount { unit: unit(0), tensors: 1, pulls: 2 };
    assert_eq!(bed.respond(0, &[8]), Err(count));
    let size =
        Refusal::AnswerSize { unit: unit(0), index: 1, key: Key::new(7), bytes: 9, wanted: 8 };
    assert_eq!(bed.respond(0, &[8, 9]), Err(size.clone()));
    let text = "tensor 1 of the answer to unit 0 (key 7) has 9 bytes; 8 are pulled";
    assert_eq!(Status::from(size).message, text);
    assert_eq!(bed.respond(0, &[8, 8]), Ok(()), "and can still be answered");
}

#[test]
fn of_several_answers_none_is_given_if_one_is_wrong() {
    let mut bed = ServerBed::new(Config::default(), 2);
    bed.request(0, 1, &[1], 1);
    bed.request(1, 1, &[1], 1);
    bed.take();
    let answering =
        |handler, bytes| Answering { unit: unit(handler), tensors: vec![(info(bytes), 5)] };
    assert!(bed.respond_all(vec![answering(0, 8), answering(1, 9)]).is_err());
    let twice = Err(Refusal::AnsweredBefore { unit: unit(0) });
    assert_eq!(bed.respond_all(vec![answering(0, 8), answering(0, 8)]), twice);
    assert_eq!((answers(&bed.said(0)), answers(&bed.said(1))), (vec![], vec![]));
    assert_eq!(bed.respond_all(vec![answering(0, 8), answering(1, 8)]), Ok(()));
    assert_eq!((answers(&bed.said(0)), answers(&bed.said(1))), (vec![1], vec![1]));
}

#[test]
fn pushes_are_confirmed_as_they_arrive_but_for_a_single_one() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1, 2], 0);
    bed.request(0, 2, &[3], 1);
    bed.request(0, 3, &[4], 0);
    let pushed = |message: &ToWorker<u32>| match message {
        ToWorker::Pushed { number, .. } => number.get(),
        other => panic!("{other:?}"),
    };
    assert_eq!(bed.said(0).iter().map(pushed).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_single_push_is_answered_with_nothing() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1], 0);
    bed.take();
    let count = Refusal::AnswerCount { unit: unit(0), tensors: 1, pulls: 0 };
    assert_eq!(bed.respond(0, &[8]), Err(count));
    assert_eq!(bed.respond(0, &[]), Ok(()));
    assert_eq!(answers(&bed.said(0)), [1]);
}

#[test]
fn a_unit_that_owes_no_answer_may_be_answered_with_nothing_whenever_but_once() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1, 2], 0);
    bed.take();
    // As StepMesh has it: what was released by the next call for a batch is answered all the same.
    bed.get_batch(Partial::Never, Some(0));
    let tensors = Refusal::AnswerCount { unit: unit(0), tensors: 1, pulls: 0 };
    assert_eq!(bed.respond(0, &[8]), Err(tensors));
    assert_eq!(bed.respond(0, &[]), Ok(()));
    assert_eq!(bed.respond(0, &[]), Err(Refusal::AnsweredBefore { unit: unit(0) }));
    bed.request(0, 2, &[1, 2], 0);
    bed.take();
    assert_eq!((bed.release(1), bed.respond(1, &[])), (Ok(()), Ok(())));
    bed.request(0, 3, &[1, 2], 0);
    bed.take();
    assert_eq!(bed.respond(2, &[]), Ok(()));
    bed.get_batch(Partial::Never, Some(0));
    let before = Err(Refusal::AnsweredBefore { unit: unit(2) });
    assert_eq!(bed.respond(2, &[]), before, "it was answered when it was known");
    assert!(answers(&bed.said(0)).is_empty(), "its worker awaits none");
}

#[test]
fn an_answer_is_kept_until_the_worker_has_it() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1], 1);
    bed.take();
    bed.respond(0, &[8]).unwrap();
    assert_eq!(bed.machine.report().kept, 1);
    bed.break_off(0);
    bed.told.clear();
    bed.join(0, RUN.get(), &[1]);
    let said = bed.said(0);
    assert!(matches!(&said[0], ToWorker::Welcome(it) if it.received == number(1)));
    assert_eq!(answers(&said), [1], "it is given again");
    bed.hear(0, ToServer::Acknowledge { numbers: vec![number(1)] });
    assert_eq!(bed.machine.report().kept, 0);
}

#[test]
fn what_a_worker_does_not_name_as_open_it_has() {
    let mut bed = ServerBed::new(Config::default(), 1);
    for of in [1, 2] {
        bed.request(0, of, &[of], 1);
        bed.take();
        bed.respond(of - 1, &[8]).unwrap();
    }
    bed.break_off(0);
    bed.join(0, RUN.get(), &[2]);
    assert_eq!(bed.machine.report().kept, 1);
}

#[test]
fn a_greeting_that_comes_late_undoes_nothing() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1], 1);
    bed.take();
    bed.respond(0, &[8]).unwrap();
    let hello = Hello {
        worker: WorkerRank::new(0),
        index: InstanceIndex::new(0),
        incarnation: RUN,
        version: MembershipVersion::new(1),
        server: RUN,
        attempt: 0,
        open: Vec::new(),
    };
    // It was said on a connection that was given up before the present one was made.
    let (connection, received) = (connection(5), bed.now);
    let message = ToServer::Hello(hello);
    bed.told.clear();
    bed.step(Input::Message { connection, received, message });
    let says = |it: &Effect<u32>| match it {
        Effect::Send { connection: to, message: ToWorker::Rejected(status) } => {
            *to == connection && status.code == Code::Aborted
        }
        _ => false,
    };
    assert!(bed.told.iter().any(says), "{:?}", bed.told);
    assert_eq!((bed.machine.report().kept, bed.machine.report().connected), (1, 1));
}

/// A worker that is back counts on from what it is told was received: a request that was given up
/// meanwhile may still be on its way, and its number be another one's.
#[test]
fn what_comes_late_on_a_connection_that_was_replaced_is_not_taken() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.join_by(5, 0, RUN.get(), &[]);
    assert!(bed.told.contains(&Effect::Close { connection: connection(0) }));
    bed.hear(0, ToServer::Request(request(1, &[1], 1)));
    assert_eq!(bed.machine.report().queued, 0, "it was given up");
    bed.hear(5, ToServer::Request(request(1, &[2], 1)));
    let units = bed.take();
    assert_eq!((units.len(), units[0].tensors[0].key), (1, Key::new(2)));
}

#[test]
fn a_unit_answered_while_its_worker_is_away_is_answered_when_it_is_back() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1], 1);
    bed.take();
    bed.break_off(0);
    bed.said(0);
    assert_eq!(bed.respond(0, &[8]), Ok(()));
    assert_eq!(bed.said(0), []);
    bed.join(0, RUN.get(), &[1]);
    assert_eq!(answers(&bed.said(0)), [1]);
}

#[test]
fn a_request_that_comes_twice_is_one_unit() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1], 1);
    bed.request(0, 1, &[1], 1);
    assert_eq!(bed.take().len(), 1);
    bed.respond(0, &[8]).unwrap();
    bed.request(0, 1, &[1], 1);
    assert_eq!(answers(&bed.said(0)), [1, 1], "it is answered again");
    assert_eq!(bed.machine.report().queued, 0);
}

#[test]
fn a_request_out_of_turn_ends_its_connection() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.hear(0, ToServer::Request(request(2, &[1], 1)));
    let complains = |it: &Effect<u32>| matches!(it, Effect::Observe(Event::Protocol { .. }));
    assert!(bed.told.iter().any(complains));
    assert!(bed.told.contains(&Effect::Close { connection: connection(0) }));
    assert_eq!(bed.machine.report().queued, 0);
}

#[test]
fn whoever_is_answered_after_it_was_lost_is_named_when_all_others_have_their_answers() {
    let mut bed = ServerBed::new(Config::default(), 2);
    bed.request(0, 1, &[1], 1);
    bed.request(1, 1, &[1], 1);
    bed.take();
    let gone = changed(membership(2, 2, 1), Role::Worker, 0, RUN.get(), State::Lost);
    bed.step(Input::Membership(gone));
    let answering = |handler| Answering { unit: unit(handler), tensors: vec![(info(8), 5)] };
    let told = bed.respond_all(vec![answering(0), answering(1)]);
    assert!(matches!(&told, Err(Refusal::PeerLost(lost)) if lost.rank.get() == 0), "{told:?}");
    assert_eq!(answers(&bed.said(1)), [1]);
    let again = Err(Refusal::AnsweredBefore { unit: unit(0) });
    assert_eq!(bed.respond_all(vec![answering(0)]), again);
}

#[test]
fn a_worker_that_was_taken_for_lost_learns_what_was_given_up() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1], 1);
    bed.break_off(0);
    bed.pass(2_000);
    bed.told.clear();
    bed.join(0, RUN.get(), &[1]);
    let said = bed.said(0);
    let [ToWorker::Welcome(_), ToWorker::Refused { number: of, status }] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!((*of, status.code), (number(1), Code::Unavailable));
}

#[test]
fn who_is_not_a_member_is_rejected() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.break_off(0);
    bed.told.clear();
    bed.join(0, 71, &[]);
    let said = bed.said(0);
    let [ToWorker::Rejected(status)] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(status.code, Code::Unavailable);
    assert!(status.message.contains("worker 0 does not take part as run 71"), "{status}");
    assert!(bed.told.contains(&Effect::Close { connection: connection(0) }));
}

fn rows(unit: u64, first: u64, rows: u64) -> RowsOf {
    RowsOf { unit: UnitHandler::new(unit), first, rows }
}

#[test]
fn rows_of_a_buffer_answer_units_from_wherever_it_is_said() {
    let mut bed = ServerBed::new(Config::default(), 2);
    bed.request(0, 1, &[1], 1);
    bed.request(1, 1, &[1], 1);
    bed.take();
    let buffer = TensorInfo::new(ScalarType::BFloat16, &[6, 2]).unwrap();
    let row = TensorInfo::new(ScalarType::BFloat16, &[2, 2]).unwrap();
    // As StepMesh has it all begin at row 0.
    let planned = bed.machine.rows(&buffer, &[rows(0, 0, 2), rows(1, 0, 2)]);
    assert_eq!(planned, Ok(vec![(row, 0..8), (row, 0..8)]));
    let planned = bed.machine.rows(&buffer, &[rows(0, 0, 2), rows(1, 2, 2)]);
    assert_eq!(planned, Ok(vec![(row, 0..8), (row, 8..16)]));
}

#[test]
fn rows_that_are_not_there_or_of_another_size_are_refused() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1], 1);
    bed.request(0, 2, &[2], 2);
    bed.take();
    bed.take();
    let buffer = TensorInfo::new(ScalarType::BFloat16, &[6, 2]).unwrap();
    let beyond = Refusal::Rows { unit: unit(0), first: 5, rows: 2, has: 6 };
    assert_eq!(bed.machine.rows(&buffer, &[rows(0, 5, 2)]), Err(beyond));
    let overflow = bed.machine.rows(&buffer, &[rows(0, u64::MAX, 2)]);
    assert!(matches!(overflow, Err(Refusal::Rows { .. })));
    let size =
        Refusal::AnswerSize { unit: unit(0), index: 0, key: Key::new(7), bytes: 12, wanted: 8 };
    assert_eq!(bed.machine.rows(&buffer, &[rows(0, 0, 3)]), Err(size));
    let count = Refusal::AnswerCount { unit: unit(1), tensors: 1, pulls: 2 };
    assert_eq!(bed.machine.rows(&buffer, &[rows(1, 0, 2)]), Err(count));
}
