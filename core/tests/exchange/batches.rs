//! Batches: one unit of each worker, and what a batch may do without.

use rondo_core::exchange::membership::State;
use rondo_core::exchange::server::{Input, Partial};
use rondo_core::exchange::{Config, Refusal, Role, UnitHandler, WorkerRank};
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::bed::{Batch, RUN, ServerBed, changed, membership};

/// Workers and first keys of a batch.
fn of(told: Batch) -> Vec<(u32, u64)> {
    let units = told.expect("a batch is given out").unwrap();
    units.iter().map(|unit| (unit.worker.get(), unit.tensors[0].key.get())).collect()
}

fn worker_is(bed: &mut ServerBed, version: u64, worker: u32, run: u64, state: State) {
    let news = changed(membership(version, 2, 1), Role::Worker, worker, run, state);
    bed.step(Input::Membership(news));
}

fn patient() -> Config {
    Config { batch_fails_on_loss: false, ..Config::default() }
}

#[test]
fn a_batch_waits_for_every_worker_and_has_one_unit_of_each_in_their_order() {
    let mut bed = ServerBed::new(Config::default(), 3);
    let (call, told) = bed.get_batch(Partial::Never, None);
    assert_eq!(told, None);
    bed.request(2, 1, &[30], 1);
    bed.request(0, 1, &[10], 1);
    bed.request(0, 2, &[11], 1);
    assert_eq!(bed.batch(call), None, "nothing of worker 1");
    bed.request(1, 1, &[20], 1);
    assert_eq!(of(bed.batch(call)), [(0, 10), (1, 20), (2, 30)]);
    assert_eq!(bed.machine.report().queued, 1, "the second unit waits for the next batch");
}

#[test]
fn units_are_counted_from_0_as_they_come() {
    let mut bed = ServerBed::new(Config::default(), 2);
    bed.request(1, 1, &[20], 1);
    bed.request(0, 1, &[10], 1);
    let (_, told) = bed.get_batch(Partial::Never, None);
    let units = told.unwrap().unwrap();
    let handlers: Vec<UnitHandler> = units.iter().map(|unit| unit.handler).collect();
    assert_eq!(handlers, [UnitHandler::new(1), UnitHandler::new(0)]);
}

#[test]
fn a_unit_has_all_that_was_pushed_and_what_is_pulled() {
    let mut bed = ServerBed::new(Config::default(), 1);
    bed.request(0, 1, &[5, 3], 2);
    let units = bed.take();
    let keys: Vec<u64> = units[0].tensors.iter().map(|it| it.key.get()).collect();
    assert_eq!((keys, units[0].pulls.len()), (vec![5, 3], 2));
}

#[test]
fn who_waits_longest_is_served_first() {
    let mut bed = ServerBed::new(Config::default(), 1);
    let (first, _) = bed.get_batch(Partial::Never, None);
    let (second, _) = bed.get_batch(Partial::Never, None);
    bed.request(0, 1, &[10], 1);
    assert_eq!((of(bed.batch(first)), bed.batch(second)), (vec![(0, 10)], None));
}

#[test]
fn a_batch_within_a_time_names_who_sent_nothing() {
    let mut bed = ServerBed::new(Config::default(), 3);
    bed.request(1, 1, &[20], 1);
    let (call, _) = bed.get_batch(Partial::Never, Some(50));
    bed.pass(50);
    let missing = vec![WorkerRank::new(0), WorkerRank::new(2)];
    let refused = Refusal::NoBatch { after: Duration::from_millis(50), missing };
    assert_eq!(bed.batch(call), Some(Err(refused.clone())));
    let status = Status::from(refused);
    assert_eq!(status.code, Code::DeadlineExceeded);
    assert_eq!(status.message, "no batch within 50 ms: workers 0, 2 sent nothing");
    assert_eq!(bed.machine.report().queued, 1, "what there is stays");
}

#[test]
fn a_batch_may_have_what_there_is_when_its_time_is_over_but_not_nothing() {
    let mut bed = ServerBed::new(Config::default(), 2);
    let (nothing, _) = bed.get_batch(Partial::AtDeadline, Some(50));
    bed.pass(50);
    assert!(matches!(bed.batch(nothing), Some(Err(Refusal::NoBatch { .. }))));
    let (some, _) = bed.get_batch(Partial::AtDeadline, Some(50));
    bed.request(1, 1, &[20], 1);
    bed.pass(49);
    assert_eq!(bed.batch(some), None, "the other one may still come");
    bed.pass(1);
    assert_eq!(of(bed.batch(some)), [(1, 20)]);
}

#[test]
fn a_batch_of_those_who_take_part_does_without_the_lost_ones() {
    let mut bed = ServerBed::new(patient(), 2);
    bed.request(0, 1, &[10], 1);
    let (call, told) = bed.get_batch(Partial::UpMembersOnly, None);
    assert_eq!(told, None, "worker 1 takes part");
    worker_is(&mut bed, 2, 1, RUN.get(), State::Left);
    assert_eq!(of(bed.batch(call)), [(0, 10)]);
    worker_is(&mut bed, 3, 1, 71, State::Up);
    bed.request(0, 2, &[11], 1);
    let (call, told) = bed.get_batch(Partial::UpMembersOnly, None);
    assert_eq!(told, None, "worker 1 is back");
    bed.join(1, 71, &[]);
    bed.request(1, 1, &[20], 1);
    assert_eq!(of(bed.batch(call)), [(0, 11), (1, 20)]);
}

#[test]
fn a_batch_of_all_fails_when_one_is_lost() {
    let mut bed = ServerBed::new(Config::default(), 2);
    let (call, _) = bed.get_batch(Partial::Never, None);
    worker_is(&mut bed, 2, 1, RUN.get(), State::Lost);
    let told = bed.batch(call);
    let Some(Err(Refusal::PeerLost(lost))) = told else {
        panic!("{told:?}");
    };
    assert_eq!((lost.role, lost.rank.get(), lost.incarnation), (Role::Worker, 1, RUN));
    let (_, told) = bed.get_batch(Partial::Never, None);
    assert!(matches!(told, Some(Err(Refusal::PeerLost(_)))), "and at once from then on");
}

#[test]
fn a_batch_of_all_waits_for_a_lost_ones_return_if_it_is_to() {
    let mut bed = ServerBed::new(patient(), 2);
    let (call, _) = bed.get_batch(Partial::Never, None);
    worker_is(&mut bed, 2, 1, RUN.get(), State::Lost);
    bed.request(0, 1, &[10], 1);
    worker_is(&mut bed, 3, 1, 71, State::Up);
    assert_eq!(bed.batch(call), None);
    bed.join(1, 71, &[]);
    bed.request(1, 1, &[20], 1);
    assert_eq!(of(bed.batch(call)), [(0, 10), (1, 20)]);
}

#[test]
fn a_worker_whose_connection_does_not_return_in_time_is_lost() {
    let mut bed = ServerBed::new(Config::default(), 2);
    let (call, _) = bed.get_batch(Partial::Never, None);
    bed.break_off(1);
    bed.pass(1_999);
    assert_eq!(bed.batch(call), None);
    bed.pass(1);
    assert!(matches!(bed.batch(call), Some(Err(Refusal::PeerLost(_)))));
}

#[test]
fn what_a_lost_worker_sent_and_nobody_took_is_gone() {
    let mut bed = ServerBed::new(patient(), 2);
    bed.request(1, 1, &[20], 1);
    worker_is(&mut bed, 2, 1, 71, State::Up);
    bed.join(1, 71, &[]);
    bed.request(1, 1, &[21], 1);
    bed.request(0, 1, &[10], 1);
    let (_, told) = bed.get_batch(Partial::Never, None);
    assert_eq!(of(told), [(0, 10), (1, 21)], "of the new run");
}

#[test]
fn who_gives_up_takes_no_units_with_it() {
    let mut bed = ServerBed::new(Config::default(), 1);
    let (call, _) = bed.get_batch(Partial::Never, None);
    bed.step(Input::Cancel { call });
    bed.request(0, 1, &[10], 1);
    assert_eq!((bed.batch(call), bed.machine.report().queued), (None, 1));
}

#[test]
fn more_calls_than_may_wait_are_refused_and_who_waits_at_the_end_is_told() {
    let mut bed = ServerBed::new(Config { calls_max: 1, ..Config::default() }, 1);
    let (call, _) = bed.get_batch(Partial::Never, None);
    let (_, told) = bed.get_batch(Partial::Never, None);
    assert_eq!(told, Some(Err(Refusal::TooManyCalls { max: 1 })));
    let (_, told) = bed.get_batch(Partial::AtDeadline, Some(0));
    assert!(matches!(told, Some(Err(Refusal::NoBatch { .. }))), "who does not wait is not refused");
    bed.step(Input::Stop);
    assert_eq!(bed.batch(call), Some(Err(Refusal::Stopped)));
    let (_, told) = bed.get_batch(Partial::Never, None);
    assert_eq!(told, Some(Err(Refusal::Stopped)));
}
