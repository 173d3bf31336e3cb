//! A task outlives its processes: only its newest process acts for it, and only while it is present.

use rondo_core::coordination::{Caller, Dialect, Method, NamespaceConfig, Reply};
use rondo_core::ids::{Incarnation, ServiceIncarnation, TaskIndex};
use rondo_core::status::Code;

use crate::driver::{Driver, seconds, settings};
use crate::world::*;

/// The incarnation of a task's second process.
const NEXT: u64 = 9_001;

/// A request in dialect X, which says in which incarnation the caller runs.
fn as_process(
    life: ServiceIncarnation,
    incarnation: u64,
    index: i32,
    method: Method,
) -> rondo_core::coordination::Request {
    let caller = Caller {
        dialect: Dialect::X,
        life: Some(life),
        task: Some(TaskIndex::new(index)),
        incarnation: Some(Incarnation::new(incarnation)),
        ..Caller::default()
    };
    call(caller, method)
}

#[test]
fn an_arrival_of_a_task_in_error_does_not_count_for_its_next_process() {
    let mut driver = Driver::recoverable(2);
    driver.register_all(2);
    driver.advance_beating(25, &[0]);
    let status = driver.refused(barrier("b", 0, 1, NO_TASKS), Code::Aborted);
    assert!(status.message.starts_with("task 1 is already in error: UNAVAILABLE"), "{status}");
    assert_eq!(counter_of(&status), None, "the caller's next arrival is at the same instance");
    driver.tell(register(1, NEXT)).unwrap();
    let peer = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    assert!(driver.is_waiting(peer), "the next process of task 1 has not come");
    let next = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    assert_eq!([driver.take(peer), driver.take(next)], [passed(0), passed(0)]);
}

#[test]
fn an_arrival_of_a_task_that_has_left_does_not_count_for_its_next_process() {
    let leaves = [Method::ShutdownTask { task: task(1) }, Method::ResetTask { task: task(1) }];
    for leave in leaves {
        let mut driver = Driver::recoverable(2);
        driver.register_all(2);
        driver.tell(leave).unwrap();
        let status = driver.refused(barrier("b", 0, 1, NO_TASKS), Code::InvalidArgument);
        assert!(status.message.contains("must be registered and connected first"), "{status}");
        driver.tell(register(1, NEXT)).unwrap();
        let peer = driver.start_call(barrier("b", 0, 0, NO_TASKS));
        assert!(driver.is_waiting(peer), "the next process of task 1 has not come");
    }
}

#[test]
fn a_task_that_never_registered_comes_to_no_barrier() {
    let mut driver = Driver::of(2);
    let first = driver.start_call(register(0, first(0)));
    driver.refused(barrier("b", 0, 1, NO_TASKS), Code::InvalidArgument);
    let early = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    assert!(driver.is_waiting(early), "a task that waits for the others to register is present");
    driver.tell(register(1, NEXT)).unwrap();
    assert!(driver.take(first).is_some());
    assert!(driver.is_waiting(early));
}

/// A task that is not present disturbs no instance that others wait at.
#[test]
fn an_absent_task_out_of_step_spoils_no_instance() {
    let mut driver = Driver::recoverable(3);
    driver.register_all(3);
    let waits = driver.start_call(barrier_for("b", 0, 0, NO_TASKS, 60_000));
    driver.tell(shutdown(1)).unwrap();
    driver.refused(barrier("b", 7, 1, NO_TASKS), Code::InvalidArgument);
    driver.refused(barrier("b", 0, 1, &[1]), Code::InvalidArgument);
    assert!(driver.is_waiting(waits));
}

/// An idempotent retry gets the result that it had, also of a task that has left since.
#[test]
fn an_ended_instance_is_told_to_a_task_that_has_left() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let calls = [0, 1].map(|index| driver.start_call(barrier("b", 0, index, NO_TASKS)));
    assert_eq!(calls.map(|call| driver.take(call)), [passed(0), passed(0)]);
    driver.tell(Method::ResetTask { task: task(1) }).unwrap();
    assert_eq!(Some(driver.tell(barrier("b", 0, 1, NO_TASKS))), passed(0));
}

#[test]
fn a_process_that_registers_anew_has_come_to_no_barrier_of_clients() {
    let mut driver = Driver::of(2);
    let dead = driver.start_call(register(0, 1));
    let arrived = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    let next = driver.start_call(register(0, 2));
    text_of(driver.take(dead), Code::AlreadyExists);
    text_of(driver.take(arrived), Code::Cancelled);
    driver.tell(register(1, 1)).unwrap();
    assert!(driver.take(next).is_some_and(|answer| answer.is_ok()));
    let peer = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    assert!(driver.is_waiting(peer));
}

/// The relay sends the old process's waiting call again after the successor registered.
#[test]
fn an_arrival_of_a_former_process_is_refused() {
    let mut driver = Driver::recoverable(2);
    let life = driver.register_all(2);
    let old = driver.send(as_process(life, first(1), 1, barrier("b", 0, 1, NO_TASKS)));
    driver.tell(register(1, NEXT)).unwrap();
    text_of(driver.take(old), Code::Cancelled);
    let again = driver.ask(as_process(life, first(1), 1, barrier("b", 0, 1, NO_TASKS)));
    assert_eq!(again.unwrap_err().code, Code::Aborted);
    let peer = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    assert!(driver.is_waiting(peer));
    let next = driver.send(as_process(life, NEXT, 1, barrier("b", 0, 1, NO_TASKS)));
    assert_eq!([driver.take(peer), driver.take(next)], [passed(0), passed(0)]);
}

#[test]
fn a_former_process_does_not_act_for_its_successor() {
    let mut driver = Driver::recoverable(2);
    let life = driver.register_all(2);
    driver.tell(register(1, NEXT)).unwrap();
    let polls = driver.send(as_process(life, NEXT, 1, poll(1)));
    let waits = driver.send(as_process(life, NEXT, 1, barrier("b", 0, 1, NO_TASKS)));
    let report = Method::ReportErrorToService { task: task(1), code: 13, message: "x".into() };
    let devices = Method::WaitForAllTasks { task: task(1), devices: bytes::Bytes::new() };
    let late = [
        shutdown(1),
        report,
        poll(1),
        alive(1, &[0, 1]),
        devices,
        barrier("b", 0, 1, NO_TASKS),
        cancel_barrier("b", 0),
    ];
    for method in late {
        let status = driver.ask(as_process(life, first(1), 1, method.clone())).unwrap_err();
        assert_eq!(status.code, Code::Aborted, "{method:?}: {status}");
    }
    assert!(driver.is_waiting(polls) && driver.is_waiting(waits));
    assert!(driver.tell(beat(1, NEXT)).is_ok(), "the successor is connected");
    assert_eq!(driver.ask(as_process(life, NEXT, 1, shutdown(1))), Ok(Reply::ShutDown));
}

/// What a relay asks again keeps its answer, although another process is the task now.
#[test]
fn a_shutdown_that_a_relay_repeats_is_told_again_after_a_successor_registered() {
    let mut driver = Driver::recoverable(2);
    let life = driver.register_all(2);
    let mut leaves = as_process(life, first(1), 1, shutdown(1));
    if let (
        rondo_core::coordination::Request::Call(call),
        rondo_core::coordination::Request::Call(stamped),
    ) = (&mut leaves, relayed(1, 0, shutdown(1)))
    {
        call.caller.stamp = stamped.caller.stamp;
    }
    assert_eq!(driver.ask(leaves.clone()), Ok(Reply::ShutDown));
    driver.tell(register(1, NEXT)).unwrap();
    assert_eq!(driver.ask(leaves), Ok(Reply::ShutDown));
    assert!(driver.tell(beat(1, NEXT)).is_ok());
}

fn says(index: i32, incarnation: u64, tasks: Option<u32>) -> Method {
    let incarnation = Incarnation::new(incarnation);
    Method::RegisterTask { task: task(index), incarnation, recoverable: false, tasks }
}

/// A job of 2 has ended; a job of 4 begins with each of its tasks in turn.
#[test]
fn the_next_job_may_be_larger_whichever_task_registers_first() {
    for first in 0..4 {
        let unknown = NamespaceConfig { tasks: None, ..settings(1) };
        let mut driver = Driver::with(unknown);
        let calls = [0, 1].map(|index| driver.start_call(says(index, 100, Some(2))));
        assert!(calls.into_iter().all(|call| driver.take(call).is_some_and(|end| end.is_ok())));
        let leaving = [0, 1].map(|index| driver.start_call(shutdown(index)));
        assert!(leaving.into_iter().all(|call| driver.take(call) == Some(Ok(Reply::ShutDown))));
        let order = (0..4).map(|turn| (first + turn) % 4);
        let calls: Vec<_> =
            order.map(|index| driver.start_call(says(index, 1_000, Some(4)))).collect();
        for call in calls {
            let answer = driver.take(call);
            assert!(matches!(answer, Some(Ok(Reply::Registered(_)))), "{first} first: {answer:?}");
        }
        assert_eq!(driver.namespace().head().size, Some(4));
    }
}

#[test]
fn a_restart_with_another_number_of_tasks_counts_for_the_next_job() {
    for (before, after, first) in [(2, 4, 3), (2, 4, 0), (4, 2, 1)] {
        let mut driver = Driver::of(before);
        driver.register_all(before as i32);
        let leaving: Vec<_> =
            (0..before as i32).map(|index| driver.start_call(shutdown(index))).collect();
        assert!(leaving.into_iter().all(|call| driver.take(call) == Some(Ok(Reply::ShutDown))));
        driver.restart_with(settings(after));
        driver.refused(says(after as i32, 1_000, None), Code::InvalidArgument);
        driver.refused(says(first, 1_000, Some(before)), Code::InvalidArgument);
        let order = (0..after as i32).map(|turn| (first + turn) % after as i32);
        let calls: Vec<_> =
            order.map(|index| driver.start_call(says(index, 1_000, None))).collect();
        for call in calls {
            let answer = driver.take(call);
            assert!(matches!(answer, Some(Ok(Reply::Registered(_)))), "{answer:?}");
        }
    }
}

#[test]
fn a_refused_registration_changes_nothing() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    driver.tell(insert("k", "v")).unwrap();
    let leaving = [0, 1].map(|index| driver.start_call(shutdown(index)));
    assert!(leaving.into_iter().all(|call| driver.take(call) == Some(Ok(Reply::ShutDown))));
    let before = driver.node.last();
    for wrong in [says(0, 1_003, Some(4)), says(2, 1_003, None), says(-1, 1_003, None)] {
        driver.refused(wrong, Code::InvalidArgument);
    }
    let other_job = Method::RegisterTask {
        task: task_of("another", 0),
        incarnation: Incarnation::new(1_003),
        recoverable: false,
        tasks: None,
    };
    driver.refused(other_job, Code::InvalidArgument);
    assert_eq!(driver.node.last(), before, "nothing is recorded");
    assert_eq!(driver.value("k"), Some("v".into()));
}

/// A task of the next job pauses for up to 16 s between two tries to register, and the number of tasks is
/// learnt after 10.
#[test]
fn a_larger_job_waits_for_the_tasks_that_were_told_to_register_again() {
    let mut driver = Driver::with(NamespaceConfig { tasks: None, ..settings(2) });
    let begin = |driver: &mut Driver, run: u64| {
        let calls = [0, 1].map(|index| driver.start_call(register(index, run)));
        driver.advance(seconds(9));
        [0, 1].iter().for_each(|index| drop(driver.tell(beat(*index, run))));
        driver.advance(seconds(2));
        calls
    };
    for call in begin(&mut driver, 700) {
        driver.take(call).unwrap().unwrap();
    }
    for index in [2, 3] {
        driver.refused(register(index, 900), Code::Aborted);
    }
    let leave = [0, 1].map(|index| driver.start_call(shutdown(index)));
    assert!(leave.into_iter().all(|call| driver.take(call).unwrap().is_ok()));
    let mut calls = begin(&mut driver, 900).to_vec();
    assert!(calls.iter().all(|call| driver.is_waiting(*call)), "it waits for tasks 2 and 3");
    calls.extend([2, 3].map(|index| driver.start_call(register(index, 900))));
    driver.advance(seconds(9));
    [0, 1, 2, 3].iter().for_each(|index| drop(driver.tell(beat(*index, 900))));
    driver.advance(seconds(2));
    assert!(calls.into_iter().all(|call| driver.take(call).unwrap().is_ok()));
}

/// A job whose number of tasks nobody has said: task 0 came, and no other one in time.
fn job_of_one() -> Driver {
    let mut driver = Driver::with(NamespaceConfig { tasks: None, ..settings(1) });
    let first = driver.start_call(register(0, 700));
    driver.advance(seconds(11));
    driver.take(first).unwrap().unwrap();
    driver
}

/// One that was told to register again and never does holds the next job up for a while only.
#[test]
fn a_job_does_not_wait_for_ever_for_a_task_that_was_refused() {
    let mut driver = job_of_one();
    driver.refused(register(1, 900), Code::Aborted);
    driver.tell(shutdown(0)).unwrap();
    let next = driver.start_call(register(0, 900));
    driver.advance(seconds(19));
    assert!(driver.is_waiting(next));
    driver.advance(seconds(2));
    driver.take(next).unwrap().unwrap();
}

/// The one with the highest number need not be the last that was told so.
#[test]
fn a_job_waits_for_the_highest_task_that_was_refused() {
    let mut driver = job_of_one();
    for index in [2, 1] {
        driver.refused(register(index, 900), Code::Aborted);
    }
    driver.tell(shutdown(0)).unwrap();
    let next = [0, 1].map(|index| driver.start_call(register(index, 900)));
    driver.advance(seconds(15));
    assert!(next.iter().all(|call| driver.is_waiting(*call)), "task 2 has not come");
    driver.advance(seconds(6));
    next.iter().for_each(|call| drop(driver.take(*call).unwrap().unwrap()));
}

#[test]
fn a_task_of_the_running_job_returns_after_a_restart_with_fewer_tasks() {
    let mut driver = Driver::recoverable(4);
    driver.register_all(4);
    driver.restart_with(NamespaceConfig { recoverable: true, ..settings(2) });
    assert!(driver.tell(beat(3, first(3))).is_ok());
    assert!(driver.tell(register(3, first(3))).is_ok());
    assert!(driver.tell(register(3, NEXT)).is_ok());
    driver.refused(register(4, first(4)), Code::InvalidArgument);
}

#[test]
fn a_late_process_is_told_whether_its_job_is_over() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    driver.tell(shutdown(0)).unwrap();
    let Ok(Reply::Registered(life)) = driver.tell(register(0, NEXT)) else { panic!() };
    let text = |driver: &mut Driver, run| {
        let status = driver.ask(as_process(life, run, 0, poll(0))).unwrap_err();
        assert_eq!(status.code, Code::Aborted);
        status.message
    };
    let former = text(&mut driver, first(0));
    assert!(former.contains("belongs to a job that is over"), "{former}");
    let stranger = text(&mut driver, NEXT + 1);
    assert!(stranger.contains("is connected with incarnation"), "{stranger}");
}
