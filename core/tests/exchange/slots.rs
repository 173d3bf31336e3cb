//! Where pushes land, and how long they may be read there.

use rondo_core::exchange::membership::State;
use rondo_core::exchange::message::{ToServer, ToWorker};
use rondo_core::exchange::server::{Input, Landing, Partial, Place};
use rondo_core::exchange::{Config, Key, Refusal, Role, WorkerRank};
use rondo_core::status::{Code, Status};

use crate::bed::{RUN, ServerBed, changed, connection, info, membership, number, request};

/// Where the tensors of a request are written, which then arrives.
fn lands(bed: &mut ServerBed, worker: u32, of: u64, keys: &[u64]) -> Vec<Place<u32>> {
    let request = request(of, keys, 1);
    let landing = bed.machine.land(connection(worker), &request);
    let Landing::At(places) = landing else {
        panic!("{landing:?}");
    };
    bed.hear(worker, ToServer::Request(request));
    places
}

fn slot(offset: u64) -> Place<u32> {
    Place::Slot { buffer: 900, offset }
}

#[test]
fn a_buffer_is_cut_into_slots_each_of_a_worker_and_a_key() {
    let mut bed = ServerBed::new(Config::default(), 2);
    assert_eq!(bed.register(32, &[(0, 1), (0, 2), (1, 1), (1, 3)]), Ok(()));
    assert_eq!(lands(&mut bed, 1, 1, &[3, 1, 2]), [slot(24), slot(16), Place::Allocate]);
    assert_eq!(lands(&mut bed, 0, 1, &[2]), [slot(8)]);
}

#[test]
fn a_buffer_that_does_not_divide_evenly_is_refused() {
    let mut bed = ServerBed::new(Config::default(), 1);
    let chunks = Refusal::Chunks { bytes: 31, workers: 2, keys: 2 };
    assert_eq!(bed.register(31, &[(0, 1), (0, 2)]), Err(chunks));
    let chunks = Refusal::Chunks { bytes: 32, workers: 0, keys: 0 };
    assert_eq!(bed.register(32, &[]), Err(chunks));
    let twice = Refusal::SlotTaken { key: Key::new(1), worker: WorkerRank::new(0) };
    assert_eq!(bed.register(32, &[(0, 1), (0, 1)]), Err(twice));
    let nobody = Refusal::NoWorker { worker: WorkerRank::new(1), workers: 1 };
    assert_eq!(bed.register(32, &[(1, 1)]), Err(nobody));
}

#[test]
fn no_more_slots_are_registered_than_there_may_be() {
    let mut bed = ServerBed::new(Config { slots_max: 2, ..Config::default() }, 1);
    bed.register(16, &[(0, 1), (0, 2)]).unwrap();
    assert_eq!(bed.register(8, &[(0, 3)]), Err(Refusal::TooManySlots { max: 2 }));
    assert_eq!(bed.register(32, &[(0, 1), (0, 2)]), Ok(()), "the same ones may be larger");
}

#[test]
fn what_is_larger_than_its_slot_is_refused_by_name_and_size() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.register(7, &[(0, 1)]).unwrap();
    let (key, worker) = (Key::new(1), WorkerRank::new(0));
    let refusal = Refusal::SlotTooSmall { key, worker, slot: 7, pushed: 8 };
    let landing = bed.machine.land(connection(0), &request(1, &[1], 1));
    assert_eq!(landing, Landing::Nowhere(Some(refusal.clone())));
    bed.request(0, 1, &[1], 1);
    let status = Status::from(refusal);
    assert_eq!(status.code, Code::InvalidArgument);
    let text = "worker 0 pushes 8 bytes under key 1; its registered slot has 7";
    assert_eq!(status.message, text);
    assert_eq!(bed.said(0), [ToWorker::Refused { number: number(1), status }]);
    bed.request(0, 2, &[2], 1);
    assert_eq!(bed.take().len(), 1, "the next request is taken");
}

#[test]
fn a_refusal_is_kept_until_the_worker_knows() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.register(7, &[(0, 1)]).unwrap();
    bed.request(0, 1, &[1], 1);
    bed.break_off(0);
    bed.told.clear();
    bed.join(0, RUN.get(), &[1]);
    let said = bed.said(0);
    assert!(matches!(said[..], [ToWorker::Welcome(_), ToWorker::Refused { .. }]), "{said:?}");
    bed.hear(0, ToServer::Acknowledge { numbers: vec![number(1)] });
    assert_eq!(bed.machine.report().kept, 0);
}

#[test]
fn a_slot_is_not_replaced_while_it_is_read() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.register(8, &[(0, 1)]).unwrap();
    lands(&mut bed, 0, 1, &[1]);
    let taken = Err(Refusal::SlotTaken { key: Key::new(1), worker: WorkerRank::new(0) });
    assert_eq!(bed.register(16, &[(0, 1)]), taken, "it waits to be given out");
    bed.take();
    assert_eq!(bed.register(16, &[(0, 1)]), taken, "it is read");
    bed.respond(0, &[8]).unwrap();
    assert_eq!(bed.register(16, &[(0, 1)]), Ok(()));
}

#[test]
fn a_slot_is_free_when_its_unit_is_answered_or_released() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.register(8, &[(0, 1)]).unwrap();
    for (of, releases) in [(1, false), (2, true), (3, false)] {
        assert_eq!(lands(&mut bed, 0, of, &[1]), [slot(0)]);
        bed.take();
        bed.told.clear();
        if releases {
            bed.release(of - 1).unwrap();
            assert_eq!(bed.said(0), [ToWorker::Released { number: number(of) }]);
            assert_eq!(bed.machine.report().taken, 0);
        }
        bed.respond(of - 1, &[8]).unwrap();
    }
}

#[test]
fn what_owes_no_answer_may_be_read_until_the_next_batch_is_asked_for() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.register(16, &[(0, 1), (0, 2)]).unwrap();
    bed.request(0, 1, &[1, 2], 0);
    bed.take();
    assert_eq!(bed.machine.report().taken, 2);
    bed.said(0);
    bed.get_batch(Partial::Never, None);
    assert_eq!(bed.machine.report().taken, 0);
    assert_eq!(bed.said(0), [ToWorker::Released { number: number(1) }]);
    assert_eq!(bed.machine.report().given_out, 0, "nothing of it is kept");
}

#[test]
fn a_key_that_is_pushed_again_too_early_is_refused() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[1], 1);
    bed.said(0);
    bed.request(0, 2, &[1], 1);
    let said = bed.said(0);
    let [ToWorker::Refused { number: of, status }] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!((*of, status.code), (number(2), Code::ResourceExhausted));
    assert!(status.message.contains("worker 0 pushes key 1 once more"), "{status}");
}

#[test]
fn what_a_lost_worker_pushed_is_not_overwritten_while_it_is_read() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.register(8, &[(0, 1)]).unwrap();
    lands(&mut bed, 0, 1, &[1]);
    bed.take();
    let news = changed(membership(2, 1, 1), Role::Worker, 0, 71, State::Up);
    bed.step(Input::Membership(news));
    bed.join(0, 71, &[]);
    assert_eq!(lands(&mut bed, 0, 1, &[1]), [Place::Allocate], "the old one is still read");
    bed.take();
    bed.respond(1, &[8]).unwrap();
    assert!(matches!(bed.respond(0, &[8]), Err(Refusal::PeerLost(_))));
    assert_eq!(lands(&mut bed, 0, 2, &[1]), [slot(0)]);
}

#[test]
fn a_slot_is_free_when_what_was_written_there_breaks_off() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.register(8, &[(0, 1)]).unwrap();
    bed.machine.land(connection(0), &request(1, &[1], 1));
    assert_eq!(bed.machine.report().taken, 1);
    bed.break_off(0);
    assert_eq!(bed.machine.report().taken, 0);
    bed.join(0, RUN.get(), &[1]);
    assert_eq!(lands(&mut bed, 0, 1, &[1]), [slot(0)]);
}

#[test]
fn pushes_without_a_slot_may_be_of_any_size_each_time() {
    let mut bed = ServerBed::new(Config::default(), 1);
    for (of, bytes) in [(1, 8), (2, 8_000), (3, 1)] {
        let mut larger = request(of, &[1], 1);
        larger.pushes[0].info = info(bytes);
        let landing = bed.machine.land(connection(0), &larger);
        assert_eq!(landing, Landing::At(vec![Place::Allocate]));
        bed.hear(0, ToServer::Request(larger));
        bed.take();
        bed.respond(of - 1, &[8]).unwrap();
    }
}
