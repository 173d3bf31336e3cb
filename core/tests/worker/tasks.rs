//! Tasks, their datasets, and the dispatcher's word about them.

use rondo_core::ids::{CallId, DatasetId, IterationId, TaskId};
use rondo_core::limits::STATUS_TEXT_BYTES_MAX;
use rondo_core::status::{Code, Status};
use rondo_core::worker::{Answer, Ask, Event, From, Input, Part, Reply, Request, TaskDef, Then};

use crate::world::{World, ask, element, soft, task};

fn heartbeat(world: &mut World, new: Vec<TaskDef>, deleted: &[i64]) {
    world.sleep(5_000);
    let (rpc, request) = world.sent[0].clone();
    assert!(matches!(request, Request::Heartbeat { .. }), "{request:?}");
    let deleted = deleted.iter().copied().map(TaskId::new).collect();
    world.answer(rpc, Ok(Reply::Tasks { new, deleted }));
}

#[test]
fn an_unknown_task_may_be_on_its_way() {
    let mut world = World::registered();
    let call = world.get(ask(5));
    assert_eq!(world.code_of(call), Code::Unavailable);
    heartbeat(&mut world, vec![task(5, Part::Whole)], &[]);
    world.get(ask(5));
    assert_eq!(world.answers.len(), 0, "it waits");
}

#[test]
fn a_task_of_another_worker_is_an_error() {
    let other = TaskDef { worker_address: "other:1".into(), ..task(5, Part::Whole) };
    let mut world = World::with_tasks([other]);
    let call = world.get(ask(5));
    assert_eq!(world.code_of(call), Code::Internal);
}

#[test]
fn a_deleted_task_is_over_for_ever() {
    let mut world = World::with_tasks([task(5, Part::Whole), task(6, Part::Whole)]);
    let (waiting, reader) = (world.get(ask(5)), world.call(Ask::Dataset { task: TaskId::new(6) }));
    assert_eq!(world.answers.remove(&reader), Some(Ok(Answer::Dataset("definition".into()))));
    world.dispatch();
    heartbeat(&mut world, vec![], &[5]);
    assert_eq!(world.code_of(waiting), Code::Cancelled);
    assert_eq!(world.closed.len(), 1);
    for _ in 0..3 {
        let call = world.get(ask(5));
        assert_eq!(world.answers.remove(&call), Some(Ok(Answer::End)));
    }
    let reader = world.call(Ask::Dataset { task: TaskId::new(5) });
    assert_eq!(world.code_of(reader), Code::Unavailable);
    let held = world.call(Ask::Tasks);
    let held = world.answers.remove(&held);
    assert_eq!(held, Some(Ok(Answer::Tasks(vec![(TaskId::new(6), IterationId::new(7))]))));
}

/// The dispatcher's word that a task is no more may overtake its word that it knows of the end.
#[test]
fn whoever_waits_for_the_end_gets_it_also_from_a_deletion() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    let call = world.get(ask(5));
    world.dispatch();
    world.made([0], Then::End);
    assert_eq!(world.element_of(call), 0);
    world.left(call);
    let waiting = world.get(ask(5));
    let (update, request) = world.sent.remove(0);
    assert!(matches!(request, Request::Update { .. }), "{request:?}");
    heartbeat(&mut world, vec![], &[5]);
    assert_eq!(world.answers.remove(&waiting), Some(Ok(Answer::End)));
    world.answer(update, Ok(Reply::Done));
    let call = world.get(ask(5));
    assert_eq!(world.answers.remove(&call), Some(Ok(Answer::End)));
}

#[test]
fn a_dispatcher_that_counts_anew_gets_new_tasks() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    heartbeat(&mut world, vec![], &[5]);
    let again = TaskDef { iteration: IterationId::new(8), ..task(5, Part::Whole) };
    heartbeat(&mut world, vec![again.clone()], &[]);
    let call = world.get(ask(5));
    assert_eq!(world.answers.get(&call), None, "it is not over");
    // The same again changes nothing, and another one takes its place.
    world.add([again]);
    assert_eq!(world.answers.get(&call), None);
    world.add([TaskDef { iteration: IterationId::new(9), ..task(5, Part::Whole) }]);
    assert_eq!(world.code_of(call), Code::Cancelled);
}

/// A dispatcher that lost its state may give all the numbers that it gave, to another dataset.
#[test]
fn another_dataset_by_the_same_numbers_takes_the_place_of_the_one_before() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    let call = world.get(ask(5));
    let (dataset, definition) = (DatasetId::new("letters"), Some("letters".into()));
    world.add([TaskDef { dataset, definition, ..task(5, Part::Whole) }]);
    let reader = world.call(Ask::Dataset { task: TaskId::new(5) });
    assert_eq!(world.answers.remove(&reader), Some(Ok(Answer::Dataset("letters".into()))));
    assert_eq!(world.code_of(call), Code::Cancelled);
}

/// The first job of a dispatcher that kept nothing on disk has the same numbers after its restart as
/// the first job before.
#[test]
fn a_task_that_is_pushed_again_is_not_over_until_the_dispatcher_says_so() {
    for is_over in [true, false] {
        let mut world = World::with_tasks([task(5, Part::Whole)]);
        heartbeat(&mut world, vec![], &[5]);
        world.sleep(5_000);
        let (before, _) = world.sent[0].clone();
        let push = world.call(Ask::Process(task(5, Part::Whole)));
        assert_eq!(world.answers.remove(&push), Some(Ok(Answer::Done)));
        let not_known = |world: &mut World| {
            let call = world.get(ask(5));
            assert_eq!(world.code_of(call), Code::Unavailable);
        };
        not_known(&mut world);
        world.answer(before, Ok(Reply::Tasks { new: Vec::new(), deleted: Vec::new() }));
        not_known(&mut world);
        let (failed, request) = world.sent[0].clone();
        assert!(matches!(request, Request::Heartbeat { .. }), "{request:?}");
        world.answer(failed, Err(soft()));
        not_known(&mut world);
        let new = if is_over { vec![] } else { vec![task(5, Part::Whole)] };
        heartbeat(&mut world, new, &[]);
        let call = world.get(ask(5));
        let told = world.answers.remove(&call);
        assert_eq!(told, is_over.then_some(Ok(Answer::End)), "it waits unless the task is over");
    }
}

#[test]
fn the_dispatcher_is_asked_for_what_the_task_does_not_say() {
    let mut world = World::with_tasks([TaskDef { definition: None, ..task(5, Part::Whole) }]);
    assert!(world.sent.is_empty(), "nothing before somebody asks");
    let call = world.get(ask(5));
    let (rpc, request) = world.sent[0].clone();
    assert!(matches!(request, Request::Definition { .. }), "{request:?}");
    world.answer(rpc, Err(Status::new(Code::NotFound, "no such dataset")));
    assert_eq!(world.code_of(call), Code::NotFound);
    // The next request tries again.
    world.get(ask(5));
    let (rpc, _) = world.sent[0].clone();
    world.answer(rpc, Ok(Reply::Definition("definition".into())));
    let (rpc, request) = world.sent[0].clone();
    assert!(matches!(request, Request::Compression { .. }), "{request:?}");
    world.answer(rpc, Err(soft()));
    assert!(world.sent.is_empty() && world.opening.is_empty());
    world.sleep(1_000);
    let (rpc, _) = world.sent[0].clone();
    world.answer(rpc, Ok(Reply::Compression(true)));
    assert!(world.opening[0].2, "compressed");
}

#[test]
fn what_cannot_be_opened_is_tried_again_at_the_next_request() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    for _ in 0..3 {
        let call = world.get(ask(5));
        if let Some((rpc, _)) = world.sent.first().cloned() {
            world.answer(rpc, Ok(Reply::Compression(false)));
        }
        let (run, ..) = world.opening.remove(0);
        let result = Err(Status::new(Code::FailedPrecondition, "TensorFlow's"));
        world.step(Input::Opened { run, result });
        assert_eq!(world.code_of(call), Code::FailedPrecondition);
    }
}

#[test]
fn an_error_of_the_data_is_everybodys_from_then_on() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    let first = world.get(ask(5));
    world.dispatch();
    let text = "part-1.parquet is corrupt at byte 17: ".to_owned() + &"é".repeat(3000);
    let status = Status::new(Code::Aborted, text);
    world.made([0], Then::Failed(status));
    assert_eq!(world.element_of(first), 0, "what was made before is good");
    assert_eq!(world.closed.len(), 1, "nothing more is made");
    world.left(first);
    for _ in 0..3 {
        let call = world.get(ask(5));
        let status = world.answers.remove(&call).unwrap().unwrap_err();
        assert_eq!(status.code, Code::Internal, "nobody asks again for ever");
        assert!(status.message.starts_with("part-1.parquet is corrupt at byte 17"), "{status}");
        assert!((3_000..=STATUS_TEXT_BYTES_MAX).contains(&status.message.len()));
    }
    world.sleep(100_000);
    assert_eq!(world.completed, [], "it is no end");
}

fn out_of_reach() -> Then {
    Then::Failed(Status::new(Code::Unavailable, "part-1.parquet cannot be read now"))
}

#[test]
fn data_that_are_out_of_reach_are_read_again_where_that_ended() {
    let mut world = World::with_tasks([task(5, Part::Splits)]);
    world.splits = [40].into();
    let call = world.get(ask(5));
    world.dispatch();
    for _ in 0..10 {
        world.made([], out_of_reach());
        assert!(world.wanted.is_empty(), "not at once");
        world.sleep(2_000);
        assert_eq!(world.wanted[0].1, From::Split(40));
    }
    world.made([7], out_of_reach());
    assert_eq!(world.element_of(call), 7, "what was made before is good");
    world.sleep(2_000);
    world.made([8], Then::More);
    assert_eq!((world.wanted[0].1, world.closed.len()), (From::Split(40), 0));
}

#[test]
fn data_that_stay_out_of_reach_are_an_error_for_everybody() {
    let mut world = World::with_tasks([task(5, Part::Whole), task(6, Part::Whole)]);
    let call = world.get(ask(5));
    world.dispatch();
    let mut rounds = 0;
    while !world.wanted.is_empty() {
        world.made([], out_of_reach());
        world.sleep(2_000);
        rounds += 1;
        assert!(rounds < 1000, "it is tried for ever");
    }
    assert!((140..160).contains(&rounds), "{rounds} times within five minutes");
    let status = world.answers.remove(&call).unwrap().unwrap_err();
    assert_eq!(status.code, Code::Internal, "nobody asks again for ever");
    assert_eq!(status.message, "part-1.parquet cannot be read now");
    assert_eq!(world.closed.len(), 1);
    let call = world.get(ask(5));
    assert_eq!(world.code_of(call), Code::Internal);
}

#[test]
fn no_more_is_made_than_there_is_room_for() {
    let mut world = World::registered_with(|config| config.buffer_bytes = 100);
    world.add([task(5, Part::Whole), task(6, Part::Whole)]);
    let calls = [world.get(ask(5)), world.get(ask(6))];
    world.dispatch();
    let rooms: Vec<u64> = world.wanted.iter().map(|(.., room)| *room).collect();
    assert_eq!(rooms, [50, 50], "each has its share");
    let (run, ..) = world.wanted.remove(0);
    let elements = (0..6).map(|number| element(number, 2)).collect();
    world.step(Input::Produced { run, elements, then: Then::More });
    assert_eq!(world.worker.buffered_bytes(), 50);
    assert_eq!(world.wanted.len(), 1, "only the other one has room");
    let other = if world.answers.contains_key(&calls[0]) { 6 } else { 5 };
    let full = world.get(ask(11 - other));
    world.element_of(full);
    assert_eq!(world.wanted.len(), 2);
}

#[test]
fn splits_come_one_after_another_when_there_is_room() {
    let mut world = World::with_tasks([task(5, Part::Splits)]);
    world.splits = [40, 41].into();
    let call = world.get(ask(5));
    world.dispatch();
    assert_eq!(world.wanted[0].1, From::Split(40));
    world.made([0, 1], Then::More);
    assert_eq!(world.wanted[0].1, From::Split(40), "the same goes on");
    world.made([], Then::End);
    world.dispatch();
    assert_eq!(world.wanted[0].1, From::Split(41));
    world.made([2], Then::End);
    world.dispatch();
    assert_eq!(world.wanted[0].1, From::Rest, "what is left behind the last");
    world.made([3], Then::End);
    assert_eq!(world.element_of(call), 0);
    world.left(call);
    for number in 1..4 {
        let call = world.get(ask(5));
        assert_eq!(world.element_of(call), number);
        assert!(world.completed.is_empty());
        world.left(call);
    }
    world.dispatch();
    assert_eq!(world.completed, [TaskId::new(5)]);
}

#[test]
fn a_split_is_asked_for_until_the_dispatcher_is_back() {
    let mut world = World::registered_with(|config| {
        config.dispatcher_timeout = rondo_core::time::Duration::from_secs(60);
        config.heartbeat_interval = rondo_core::time::Duration::from_secs(3600);
    });
    world.add([task(5, Part::Splits), task(6, Part::Splits)]);
    let calls = [world.get(ask(5)), world.get(ask(6))];
    let (rpc, _) = world.sent[0].clone();
    world.answer(rpc, Ok(Reply::Compression(false)));
    let (rpc, _) = world.sent[0].clone();
    world.answer(rpc, Ok(Reply::Compression(false)));
    for (run, ..) in std::mem::take(&mut world.opening) {
        world.step(Input::Opened { run, result: Ok(-2) });
    }
    for _ in 0..10 {
        assert_eq!(world.sent.len(), 2);
        world.refuse(&soft());
        world.sleep(2_000);
    }
    let (rpc, _) = world.sent[0].clone();
    world.answer(rpc, Ok(Reply::Split(Some(1))));
    assert_eq!(world.wanted.len(), 1);
    for _ in 0..40 {
        world.refuse(&soft());
        world.sleep(2_000);
    }
    let failed: Vec<_> = world.answers.keys().copied().collect();
    assert_eq!(failed.len(), 1, "the other has its split");
    assert!(calls.contains(&failed[0]));
    assert_eq!(world.code_of(failed[0]), Code::Internal);
}

#[test]
fn an_answer_of_before_is_not_taken_for_one_of_now() {
    let mut world = World::with_tasks([task(5, Part::Splits)]);
    world.get(ask(5));
    let (rpc, _) = world.sent.remove(0);
    world.add([TaskDef { iteration: IterationId::new(8), ..task(5, Part::Splits) }]);
    world.step(Input::Answered { rpc, result: Ok(Reply::Compression(true)), entropy: 0 });
    assert!(world.opening.is_empty());
    world.step(Input::Left { call: CallId::new(99) });
    world.step(Input::Cancel { call: CallId::new(99) });
}

#[test]
fn readers_of_splits_get_the_definition_and_open_nothing() {
    let mut world = World::with_tasks([TaskDef { definition: None, ..task(5, Part::Splits) }]);
    let calls = [1, 2].map(|_| world.call(Ask::Dataset { task: TaskId::new(5) }));
    world.cancel(calls[0]);
    world.dispatch();
    assert_eq!(world.answers.remove(&calls[0]), None);
    assert_eq!(world.answers.remove(&calls[1]), Some(Ok(Answer::Dataset("definition".into()))));
    assert!(world.opening.is_empty() && world.wanted.is_empty() && world.sent.is_empty());
}

/// A push may be slow and reach the worker after a heartbeat brought the task and another one told
/// it to delete the task. The task's elements must not come twice.
#[test]
fn a_late_push_does_not_bring_a_deleted_task_back() {
    let mut world = World::with_tasks([task(5, Part::Whole)]);
    let call = world.get(ask(5));
    world.dispatch();
    world.made([0], Then::End);
    assert_eq!(world.element_of(call), 0);
    world.left(call);
    world.dispatch();
    heartbeat(&mut world, vec![], &[5]);
    world.add([task(5, Part::Whole)]);
    assert_eq!(world.worker.tasks_held(), 0, "it stays deleted");
    let call = world.get(ask(5));
    assert_eq!(world.code_of(call), Code::Unavailable, "until the dispatcher says what it is");
    // A dispatcher that lost its state counts anew: the answer to a heartbeat, which names what the
    // worker has, counts more than a push.
    let (rpc, request) = world.sent.remove(0);
    assert_eq!(request, Request::Heartbeat { tasks: vec![] });
    let tasks = Reply::Tasks { new: vec![task(5, Part::Whole)], deleted: vec![] };
    world.answer(rpc, Ok(tasks));
    let call = world.get(ask(5));
    assert_eq!(world.answers.get(&call), None, "it is another task of this number");
    world.dispatch();
    // So is one that is pushed for another iteration.
    heartbeat(&mut world, vec![], &[5]);
    world.add([TaskDef { iteration: IterationId::new(8), ..task(5, Part::Whole) }]);
    let call = world.get(ask(5));
    assert_eq!(world.answers.get(&call), None, "it is another task of this number");
}

/// Codes that a proxy, or a connection that breaks, may answer with.
const OF_THE_WAY: [Code; 6] = [
    Code::Unknown,
    Code::Internal,
    Code::ResourceExhausted,
    Code::PermissionDenied,
    Code::Unauthenticated,
    Code::Unimplemented,
];

fn updates(world: &World) -> Vec<Vec<TaskId>> {
    let told = world.sent.iter().filter_map(|(_, request)| match request {
        Request::Update { completed } => Some(completed.clone()),
        _ => None,
    });
    told.collect()
}

#[test]
fn an_error_of_the_way_is_no_word_of_the_dispatcher() {
    let others = [Code::InvalidArgument, Code::FailedPrecondition, Code::DataLoss];
    for code in OF_THE_WAY.into_iter().chain(others) {
        let mut world = World::with_tasks([task(5, Part::Splits), task(6, Part::Whole)]);
        let call = world.get(ask(5));
        world.dispatch();
        world.made([], Then::End);
        for _ in 0..3 {
            assert_eq!(updates(&world), [[TaskId::new(5)]]);
            world.refuse(&Status::new(code, "RST_STREAM, or a proxy"));
            assert_eq!(world.answers.get(&call), None, "{code:?}: the dispatcher may not know");
            world.sleep(1_000);
        }
        let refused = world.observed.iter().filter(|it| matches!(it, Event::UpdateRefused { .. }));
        assert_eq!(refused.count(), 1, "{code:?}: it is reported once");
        world.dispatch();
        assert_eq!(world.completed, [TaskId::new(5)]);
        assert_eq!(world.answers.remove(&call), Some(Ok(Answer::End)));
    }
}

/// A report failed and is to be repeated, and the dispatcher deletes the task before that.
#[test]
fn a_deleted_task_leaves_no_report_that_is_due() {
    let mut world = World::with_tasks([task(5, Part::Splits)]);
    let call = world.get(ask(5));
    world.dispatch();
    world.made([], Then::End);
    assert_eq!(updates(&world), [[TaskId::new(5)]]);
    // A heartbeat is under way as well, and its answer comes before the report is repeated.
    world.sleep(5_000);
    let (update, heartbeat) = (world.sent[0].0, world.sent[1].0);
    world.answer(update, Err(soft()));
    world.answer(heartbeat, Ok(Reply::Tasks { new: vec![], deleted: vec![TaskId::new(5)] }));
    assert_eq!(world.answers.remove(&call), Some(Ok(Answer::End)));
    world.sleep(5_000);
    assert!(updates(&world).is_empty());
}

/// The dispatcher refuses to hear of one task for ever. It hears of the others all the same.
#[test]
fn a_refused_completion_does_not_hold_up_others() {
    let mut world = World::with_tasks([5, 6, 7].map(|id| task(id, Part::Whole)));
    let calls = [5, 6, 7].map(|id| world.get(ask(id)));
    world.dispatch();
    for _ in calls {
        world.made([], Then::End);
    }
    for _ in 0..200 {
        for (rpc, request) in std::mem::take(&mut world.sent) {
            let Request::Update { completed } = &request else { continue };
            let result = match completed.contains(&TaskId::new(5)) {
                true => Err(Status::new(Code::Internal, "task 5")),
                false => {
                    world.completed.extend(completed);
                    Ok(Reply::Done)
                }
            };
            world.answer(rpc, result);
        }
        world.sleep(100);
    }
    world.completed.sort_unstable();
    assert_eq!(world.completed, [TaskId::new(6), TaskId::new(7)]);
    assert_eq!(world.answers.keys().collect::<Vec<_>>(), [&calls[1], &calls[2]]);
}

#[test]
fn a_task_survives_errors_of_the_way() {
    for code in OF_THE_WAY {
        let status = Status::new(code, "RST_STREAM, or a proxy");
        let mut world = World::with_tasks([TaskDef { definition: None, ..task(5, Part::Splits) }]);
        world.splits = [40].into();
        let refused = world.get(ask(5));
        world.refuse(&status);
        let answer = world.answers.remove(&refused).unwrap().unwrap_err();
        assert_eq!(answer.code, Code::Unavailable, "{code:?}: the consumer asks again");
        assert!(answer.message.contains("a proxy"), "{answer}");
        let call = world.get(ask(5));
        let (rpc, _) = world.sent[0].clone();
        world.answer(rpc, Ok(Reply::Definition("definition".into())));
        world.refuse(&status);
        world.sleep(100);
        let (rpc, request) = world.sent[0].clone();
        assert!(matches!(request, Request::Compression { .. }), "{request:?}");
        world.answer(rpc, Ok(Reply::Compression(false)));
        let (run, ..) = world.opening.remove(0);
        world.step(Input::Opened { run, result: Ok(-2) });
        assert!(matches!(world.sent[0].1, Request::Split { .. }));
        world.refuse(&status);
        world.sleep(100);
        world.dispatch();
        world.made([3], Then::More);
        assert_eq!(world.element_of(call), 3, "{code:?}");
    }
}

#[test]
fn a_worker_has_a_bounded_number_of_tasks_and_takes_others_when_some_are_gone() {
    const MAX: i64 = 65_536;
    let mut world = World::registered();
    let tasks = |ids: std::ops::Range<i64>| ids.map(|id| task(id, Part::Whole)).collect();
    heartbeat(&mut world, tasks(1..MAX), &[]);
    world.add([task(MAX, Part::Whole)]);
    let refused = world.call(Ask::Process(task(MAX + 1, Part::Whole)));
    match world.answers.remove(&refused) {
        Some(Err(status)) => {
            assert_eq!(status.code, Code::ResourceExhausted);
            assert!(status.message.contains("65536"), "{status}");
        }
        other => panic!("one task more is answered with {other:?}"),
    }
    // One that is there already needs no room, and what a heartbeat tells comes again with the next one.
    world.add([task(MAX, Part::Whole)]);
    heartbeat(&mut world, tasks(MAX + 1..MAX + 2), &[]);
    let held = |world: &mut World| {
        let call = world.call(Ask::Tasks);
        match world.answers.remove(&call) {
            Some(Ok(Answer::Tasks(held))) => (held.len(), held.last().map(|(id, _)| *id)),
            other => panic!("tasks are answered with {other:?}"),
        }
    };
    assert_eq!(held(&mut world), (MAX as usize, Some(TaskId::new(MAX))));
    heartbeat(&mut world, tasks(MAX + 1..MAX + 2), &[7]);
    assert_eq!(held(&mut world), (MAX as usize, Some(TaskId::new(MAX + 1))));
}

/// Each outage of the dispatcher has the whole `dispatcher_timeout`, however long the ones before took.
#[test]
fn the_time_that_the_dispatcher_may_be_away_begins_anew_when_it_was_back() {
    let mut world = World::registered_with(|config| {
        config.dispatcher_timeout = rondo_core::time::Duration::from_secs(60);
        config.heartbeat_interval = rondo_core::time::Duration::from_secs(3600);
    });
    world.add([task(5, Part::Splits)]);
    let call = world.get(ask(5));
    let away_for = |world: &mut World, seconds: u64| {
        let back = world.now.after(rondo_core::time::Duration::from_secs(seconds));
        while world.now < back {
            world.refuse(&soft());
            world.sleep(2_500);
        }
    };
    // Twice before the data is open, and three times for splits; together it is much more than a minute.
    away_for(&mut world, 50);
    let (rpc, request) = world.sent[0].clone();
    assert!(matches!(request, Request::Compression { .. }), "{request:?}");
    world.answer(rpc, Ok(Reply::Compression(false)));
    let (run, ..) = world.opening.remove(0);
    world.step(Input::Opened { run, result: Ok(-2) });
    for split in 0..3 {
        away_for(&mut world, 50);
        assert_eq!(world.answers.get(&call), None, "outage {split} ended it");
        let (rpc, request) = world.sent[0].clone();
        assert!(matches!(request, Request::Split { .. }), "{request:?}");
        world.answer(rpc, Ok(Reply::Split(Some(split))));
        world.made([], Then::End);
    }
    away_for(&mut world, 70);
    assert_eq!(world.code_of(call), Code::Internal);
}

/// One task that the dispatcher refuses for ever neither slows the others down nor fills the log.
#[test]
fn a_lasting_refusal_is_reported_once_and_costs_one_pause() {
    let ids = || 5..25;
    let mut world = World::with_tasks(ids().map(|id| task(id, Part::Whole)));
    for id in ids() {
        world.get(ask(id));
    }
    world.dispatch();
    for _ in ids() {
        world.made([], Then::End);
    }
    let began = world.now;
    while world.now.since(began) < rondo_core::time::Duration::from_secs(4) {
        while let Some((rpc, request)) = world.sent.first().cloned() {
            let result = match request {
                Request::Update { completed } if completed.contains(&TaskId::new(5)) => {
                    Err(Status::new(Code::Internal, "task 5"))
                }
                Request::Update { completed } => {
                    world.completed.extend(completed);
                    Ok(Reply::Done)
                }
                _ => Ok(Reply::Tasks { new: vec![], deleted: vec![] }),
            };
            world.answer(rpc, result);
        }
        world.sleep(100);
    }
    assert_eq!(world.completed.len(), 19, "all others within 4 s");
    let refused = world.observed.iter().filter(|it| matches!(it, Event::UpdateRefused { .. }));
    assert_eq!(refused.count(), 1);
}

/// An outage that nobody waits for any more takes no time from a later one.
#[test]
fn an_old_failure_takes_no_time_from_a_later_outage() {
    let mut world = World::registered_with(|config| {
        config.dispatcher_timeout = rondo_core::time::Duration::from_secs(60);
        config.heartbeat_interval = rondo_core::time::Duration::from_secs(3600);
    });
    world.add([task(5, Part::Whole)]);
    let gone = world.get(ask(5));
    world.refuse(&soft());
    world.cancel(gone);
    world.sleep(100_000);
    assert_eq!(world.sent, [], "nobody waits");
    let call = world.get(ask(5));
    assert!(matches!(world.sent[0].1, Request::Compression { .. }));
    world.refuse(&Status::new(Code::Unknown, "a proxy"));
    assert_eq!(world.answers.get(&call), None, "it is asked again");
    world.sleep(100);
    world.dispatch();
    world.made([3], Then::More);
    assert_eq!(world.element_of(call), 3);
}

#[test]
fn readers_are_told_why_there_is_no_definition() {
    let mut world = World::with_tasks([TaskDef { definition: None, ..task(5, Part::Splits) }]);
    let reader = world.call(Ask::Dataset { task: TaskId::new(5) });
    let (rpc, request) = world.sent.remove(0);
    assert!(matches!(request, Request::Definition { .. }), "{request:?}");
    world.answer(rpc, Err(Status::new(Code::NotFound, "dataset 1000 is not registered")));
    let told = world.answers.remove(&reader).expect("it is answered").unwrap_err();
    assert!(told.message.contains("dataset 1000 is not registered"), "{told}");
    assert!(world.sent.is_empty(), "nobody waits for it any more: {:?}", world.sent);
}
