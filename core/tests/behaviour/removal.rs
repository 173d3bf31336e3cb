//! Coordinated reads: giving up a task whose worker cannot be reached.

use rondo_core::dispatcher::{GetOrCreateJob, Reply, Request, ShardingPolicy, WorkerHeartbeat};
use rondo_core::ids::{IterationId, TaskId};
use rondo_core::limits::ANY_ROUND;
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::{Answer, Driver};
use crate::world::{listed, removal, rounds};

const TASK: TaskId = TaskId::new(4000);
const REMOVED: Option<Answer> = Some(Ok(Reply::TaskRemoved(true)));
const KEPT: Option<Answer> = Some(Ok(Reply::TaskRemoved(false)));

fn three_consumers() -> Driver {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    driver.reading_together(3);
    driver
}

#[test]
fn a_task_is_removed_when_all_consumers_ask_in_one_round() {
    let mut driver = three_consumers();
    let calls = [0, 1, 2].map(|consumer| driver.send(removal(TASK, consumer, 7)));
    assert_eq!(calls.map(|call| driver.take(call)), [REMOVED, REMOVED, REMOVED]);
    assert!(driver.state().tasks().is_empty());
    driver.restart();
    assert!(driver.state().tasks().is_empty());
}

#[test]
fn consumers_see_the_list_without_it() {
    let mut driver = Driver::new();
    for address in ["w:1", "w:2"] {
        driver.worker(address, &[]);
    }
    let (_, clients) = driver.reading_together(1);
    driver.ask(removal(TASK, 0, 7)).unwrap();
    let reply = driver.heartbeat(rounds(clients[0], Some(7), None));
    assert_eq!(listed(&reply), [TaskId::new(4001)]);
}

#[test]
fn nobody_is_answered_before_all_have_asked() {
    let mut driver = three_consumers();
    let calls = [0, 1].map(|consumer| driver.send(removal(TASK, consumer, 7)));
    assert_eq!(calls.map(|call| driver.take(call)), [None, None]);
}

#[test]
fn a_consumer_in_another_round_makes_all_fail() {
    let mut driver = three_consumers();
    let calls = [(0, 7), (1, 7), (2, 8)]
        .map(|(consumer, round)| driver.send(removal(TASK, consumer, round)));
    assert_eq!(calls.map(|call| driver.take(call)), [KEPT, KEPT, KEPT]);
    assert_eq!(driver.state().tasks().len(), 1);
    let calls = [0, 1, 2].map(|consumer| driver.send(removal(TASK, consumer, 8)));
    assert_eq!(calls.map(|call| driver.take(call)), [REMOVED, REMOVED, REMOVED], "a new vote");
}

/// Rondo's consumers name it once they know that they stand in different rounds.
#[test]
fn any_round_agrees_with_each_other_round() {
    for rounds in [[7, 7, ANY_ROUND], [ANY_ROUND, 7, ANY_ROUND], [ANY_ROUND; 3]] {
        let mut driver = three_consumers();
        let calls = [0, 1, 2].map(|consumer| {
            driver.send(removal(TASK, consumer, rounds[usize::try_from(consumer).unwrap()]))
        });
        assert_eq!(calls.map(|call| driver.take(call)), [REMOVED, REMOVED, REMOVED], "{rounds:?}");
    }
}

#[test]
fn any_round_does_not_join_two_others() {
    let mut driver = three_consumers();
    let calls = [(0, 7), (1, ANY_ROUND), (2, 8)]
        .map(|(consumer, round)| driver.send(removal(TASK, consumer, round)));
    assert_eq!(calls.map(|call| driver.take(call)), [KEPT, KEPT, KEPT]);
    assert_eq!(driver.state().tasks().len(), 1);
}

#[test]
fn a_call_that_agrees_with_any_round_is_told_that_it_ran_out_of_time() {
    let mut driver = three_consumers();
    let calls = [(0, 7), (1, ANY_ROUND)]
        .map(|(consumer, round)| driver.send(removal(TASK, consumer, round)));
    driver.advance(Duration::from_secs(10));
    assert_eq!(driver.take(calls[0]), KEPT);
    let missing = driver.take(calls[1]).unwrap().unwrap_err();
    assert_eq!(missing.code, Code::Unavailable, "no other round ended it: {missing:?}");
}

/// The round of a call that has left binds the others no longer.
#[test]
fn a_round_is_forgotten_with_the_last_call_that_names_it() {
    let mut driver = three_consumers();
    let named = driver.send(removal(TASK, 0, 7));
    driver.advance(Duration::from_millis(4_000));
    let any = driver.send(removal(TASK, 1, ANY_ROUND));
    driver.advance(Duration::from_millis(6_000));
    assert_eq!([named, any].map(|call| driver.take(call)), [KEPT, None]);
    let others = [0, 2].map(|consumer| driver.send(removal(TASK, consumer, 8)));
    assert_eq!([any, others[0], others[1]].map(|call| driver.take(call)), [REMOVED; 3]);
}

#[test]
fn a_call_waits_ten_seconds_and_no_longer() {
    let mut driver = three_consumers();
    let early = driver.send(removal(TASK, 0, 7));
    let deadline = driver.now.after(Duration::from_secs(10));
    assert_eq!(driver.node.dispatcher().deadlines().1, Some(deadline));
    driver.advance(Duration::from_millis(4_000));
    let late = driver.send(removal(TASK, 1, 7));
    driver.advance(Duration::from_nanos(5_999_999_999));
    driver.tick();
    assert_eq!(driver.take(early), None);
    driver.advance(Duration::from_nanos(1));
    assert_eq!([early, late].map(|call| driver.take(call)), [KEPT, None]);
    driver.advance(Duration::from_secs(4));
    assert_eq!(driver.take(late), KEPT);
}

/// A server that was held up may take a call before it looks at the clock. Those that have waited too long
/// do not count: their consumers ask the worker again, and may have its answer.
#[test]
fn a_call_that_has_waited_too_long_does_not_count_after_a_hold_up() {
    for (round, late, told) in [(7, 7, KEPT), (7, 8, KEPT), (ANY_ROUND, 8, None)] {
        let mut driver = three_consumers();
        let calls = [0, 1].map(|consumer| driver.send(removal(TASK, consumer, round)));
        driver.now = driver.now.after(Duration::from_secs(10));
        let late = driver.send(removal(TASK, 2, late));
        for call in calls {
            let answer = driver.take(call);
            match &told {
                Some(_) => assert_eq!(answer, told),
                None => assert_eq!(answer.unwrap().unwrap_err().code, Code::Unavailable),
            }
        }
        assert_eq!((driver.take(late), driver.state().tasks().len()), (None, 1));
    }
}

#[test]
fn a_consumer_that_gave_up_does_not_count_any_more() {
    let mut driver = three_consumers();
    let first = driver.send(removal(TASK, 0, 7));
    let second = driver.send(removal(TASK, 1, 7));
    driver.cancel(first);
    let third = driver.send(removal(TASK, 2, 7));
    assert_eq!([first, second, third].map(|call| driver.take(call)), [None, None, None]);
    let again = driver.send(removal(TASK, 0, 7));
    assert_eq!([second, third, again].map(|call| driver.take(call)), [REMOVED, REMOVED, REMOVED]);
    assert_eq!(driver.take(first), None);
}

#[test]
fn one_consumer_asking_twice_counts_once() {
    let mut driver = three_consumers();
    let calls = [0, 0, 1].map(|consumer| driver.send(removal(TASK, consumer, 7)));
    assert_eq!(calls.map(|call| driver.take(call)), [None, None, None]);
    driver.ask(removal(TASK, 2, 7)).unwrap();
    assert_eq!(calls.map(|call| driver.take(call)), [REMOVED, REMOVED, REMOVED]);
}

#[test]
fn a_task_nobody_knows_is_gone_already() {
    let mut driver = three_consumers();
    let answer = driver.ask(removal(TaskId::new(1), 0, 7));
    assert_eq!(Some(answer), REMOVED);
}

#[test]
fn only_coordinated_reads_remove_tasks() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    driver.reading(ShardingPolicy::Off);
    let status = driver.refused(removal(TASK, 0, 7));
    assert_eq!(status.code, Code::FailedPrecondition);
    assert!(status.message.contains("task 4000 of a job without num_consumers"), "{status}");
}

#[test]
fn a_consumer_index_out_of_range_is_refused() {
    let mut driver = three_consumers();
    for wrong in [-1, 3, i64::MAX] {
        let status = driver.refused(removal(TASK, wrong, 7));
        let text = format!("consumer_index is {wrong}; it must be from 0 to 2");
        assert_eq!((status.code, status.message), (Code::InvalidArgument, text));
    }
}

#[test]
fn waiting_calls_are_bounded() {
    let mut driver = three_consumers();
    let bound = rondo_core::limits::PARKED_CALLS_MAX;
    let full = crate::driver::parked(&driver, removal(TASK, 0, 7), bound);
    let status = full.unwrap_err();
    assert_eq!(status.code, Code::ResourceExhausted);
    assert_eq!(status.message, format!("too many waiting calls: the bound is {bound}"));
    driver.tick();
}

/// The task of a worker that came during the read: consumers have not agreed on it yet.
#[test]
fn a_job_is_not_deleted_while_consumers_vote_on_a_task_that_is_to_come() {
    let dataset = crate::world::dataset_named("data");
    let mut driver = Driver::new();
    let dataset = driver.register(dataset);
    let together =
        GetOrCreateJob { consumers: Some(2), ..crate::world::job(&dataset, ShardingPolicy::Off) };
    let together = GetOrCreateJob { name: Some("train".into()), ..together };
    let job = driver.job(together);
    let clients = [0, 1].map(|_| driver.join(job, 0));
    driver.worker("w:1", &[]);
    let vote = driver.send(removal(TASK, 0, 7));
    assert_eq!(driver.take(vote), None);
    clients.into_iter().for_each(|client| driver.release(client));
    let deleted = Request::DeleteJob { name: "train".into() };
    assert_eq!(driver.refused(deleted).code, Code::FailedPrecondition);
}

/// A coordinated read by split, and a worker whose task the consumer has not agreed on yet.
fn with_a_task_to_come() -> (Driver, IterationId) {
    let mut driver = Driver::new();
    let dataset = driver.register(crate::world::dataset_named("data"));
    let job = GetOrCreateJob {
        consumers: Some(1),
        ..crate::world::job(&dataset, ShardingPolicy::Dynamic)
    };
    let job = driver.job(job);
    driver.join(job, 0);
    driver.worker("w:1", &[]);
    let iteration = driver.state().iteration_of(job, 0).unwrap().id;
    (driver, iteration)
}

/// Consumers agree on every task, so none is made for the sake of a split.
#[test]
fn a_split_whose_caller_left_brings_a_coordinated_read_no_second_task_of_a_worker() {
    let (mut driver, iteration) = with_a_task_to_come();
    let call = driver.send(crate::world::split(iteration, 0, 0));
    assert_eq!(driver.take(call), Some(Ok(Reply::Split(Some(0)))));
    driver.cancel(call);
    assert_eq!(driver.state().tasks().len(), 1);
}

/// A task that waits to be part of the read reads ahead, so it is one to hand a split again.
#[test]
fn a_split_whose_caller_left_comes_to_a_task_that_consumers_have_not_agreed_on() {
    let (mut driver, iteration) = with_a_task_to_come();
    let named = crate::world::split_for("w:1", iteration, 0, 0);
    let unnamed = crate::world::split(iteration, 0, 0);
    for (asked, split) in [(named, 0), (unnamed, 1)] {
        let call = driver.send(asked.clone());
        assert_eq!(driver.take(call), Some(Ok(Reply::Split(Some(split)))));
        driver.cancel(call);
        assert_eq!(driver.ask(asked), Ok(Reply::Split(Some(split))));
    }
}

/// It is the task's like any other split, though consumers have not agreed on the task.
#[test]
fn a_split_that_a_task_to_come_was_handed_again_is_lost_with_it() {
    let (mut driver, iteration) = with_a_task_to_come();
    let call = driver.send(crate::world::split_for("w:1", iteration, 0, 0));
    driver.cancel(call);
    assert_eq!(driver.split_for("w:1", iteration), Some(0));
    let reborn = WorkerHeartbeat { uid: 2, ..crate::world::worker("w:1", &[]) };
    driver.worker_says(reborn);
    let report = driver.node.dispatcher().report(driver.now).iterations[0].clone();
    assert_eq!((report.splits_lost, report.splits_in_doubt), (1, 0));
}

#[test]
fn a_job_is_deleted_while_consumers_of_another_one_vote() {
    let mut driver = three_consumers();
    driver.send(removal(TASK, 0, 7));
    let dataset = driver.register(crate::world::dataset_named("data"));
    driver.job(crate::world::named(&dataset, "train"));
    let client = driver.join(driver.state().job_named("train").unwrap().id, 0);
    driver.release(client);
    let deleted = Request::DeleteJob { name: "train".into() };
    assert_eq!(driver.ask(deleted), Ok(Reply::JobDeleted));
}
