//! What clients saw JAX's own service do, call by call, and what ours does: the same, or where
//! JAX's crashes, is late, or ends for ever, something better.

use bytes::Bytes;
use rondo_core::coordination::{Caller, Dialect, Method, Reply, TaskState};
use rondo_core::ids::{Incarnation, ServiceIncarnation, TaskIndex};
use rondo_core::status::{Code, Detail};

use crate::driver::{Driver, seconds, settings};
use crate::world::*;

#[test]
fn another_service_incarnation_is_refused_with_ours() {
    let mut driver = Driver::of(1);
    let ours = driver.register_all(1);
    for life in [0, ours.get() ^ 1].map(ServiceIncarnation::new) {
        for method in [try_get("k"), insert("k", "v"), beat(0, first(0)), poll(0)] {
            let status = driver.ask(in_life(life, method)).unwrap_err();
            assert_eq!(status.code, Code::Internal);
            let mismatch = Detail::ServiceMismatch { incarnation: ours };
            assert_eq!(status.details, [Detail::SERVICE, mismatch]);
        }
    }
    assert_eq!(driver.value("k"), None);
    driver.ask(in_life(ours, insert("k", "v"))).unwrap();
}

#[test]
fn a_wrong_task_incarnation_beside_the_right_service_is_ignored() {
    let mut driver = Driver::of(1);
    let life = Some(driver.register_all(1));
    let caller = Caller { life, incarnation: Some(Incarnation::new(9)), ..Caller::default() };
    assert!(driver.ask(call(caller, insert("k", "v"))).is_ok());
}

#[test]
fn a_task_outside_the_job_cannot_register() {
    let mut driver = Driver::of(2);
    let status = driver.refused(register(9, 1), Code::InvalidArgument);
    assert!(status.message.starts_with("Unexpected task registered with task=9"), "{status}");
    assert_eq!(status.details, [Detail::SERVICE]);
    driver.refused(register(-1, 1), Code::InvalidArgument);
    driver.register_all(2);
}

#[test]
fn the_newer_of_two_registrations_waits() {
    let mut driver = Driver::of(2);
    let older = driver.start_call(register(0, 1));
    let newer = driver.start_call(register(0, 1));
    let status = refusal_of(driver.take(older));
    assert_eq!((status.code, &status.details[..]), (Code::AlreadyExists, &[Detail::SERVICE][..]));
    assert!(driver.is_waiting(newer));
    let peer = driver.start_call(register(1, 1));
    assert!(matches!(driver.take(newer), Some(Ok(Reply::Registered(_)))));
    assert!(matches!(driver.take(peer), Some(Ok(Reply::Registered(_)))));
}

/// JAX's is 1 s late, and refuses both for ever.
#[test]
fn a_registration_that_times_out_can_be_tried_again() {
    let mut driver = Driver::of(2);
    let alone = driver.start_call(register(0, 1));
    driver.advance(seconds(60));
    let status = refusal_of(driver.take(alone));
    assert_eq!(status.code, Code::DeadlineExceeded);
    let begins = "Barrier timed out. Id: [Init]Wait_for_all_tasks_to_register::0.";
    assert!(status.message.starts_with(begins), "{status}");
    assert!(status.message.contains("Missing: 1."), "{status}");
    assert!(status.details.contains(&Detail::SERVICE), "the client must not try again by itself");
    let again = driver.start_call(register(0, 1));
    assert!(driver.is_waiting(again));
    let late = driver.start_call(register(1, 1));
    assert!(driver.take(again).unwrap().is_ok() && driver.take(late).unwrap().is_ok());
}

#[test]
fn a_key_is_inserted_once_unless_it_may_be_overwritten() {
    let mut driver = Driver::of(1);
    driver.tell(insert("k", "1")).unwrap();
    let status = driver.refused(insert("k", "2"), Code::AlreadyExists);
    assert_eq!(status.details, [], "the client takes it for the caller's");
    driver.tell(overwrite("k", "3")).unwrap();
    assert_eq!(driver.value("k"), Some("3".into()));
}

#[test]
fn increments_count_in_decimal() {
    let mut driver = Driver::of(1);
    for (by, expected) in [(3, "3"), (-5, "-2")] {
        let Ok(Reply::Value { value, .. }) = driver.tell(increment("n", by)) else { panic!() };
        assert_eq!(value, expected.into());
    }
    driver.tell(overwrite("n", "9223372036854775807")).unwrap();
    driver.refused(increment("n", 1), Code::FailedPrecondition);
    driver.tell(overwrite("n", "many")).unwrap();
    driver.refused(increment("n", 1), Code::FailedPrecondition);
    assert_eq!(driver.value("n"), Some("many".into()));
}

/// JAX's is up to 1 s late.
#[test]
fn a_barrier_times_out_for_those_who_wait_and_those_who_come_late() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let waits = driver.start_call(barrier_for("b", 0, 0, NO_TASKS, 1_500));
    driver.advance(rondo_core::time::Duration::from_millis(1_499));
    assert!(driver.is_waiting(waits));
    driver.advance(rondo_core::time::Duration::from_millis(1));
    let status = refusal_of(driver.take(waits));
    assert_eq!(status.code, Code::DeadlineExceeded);
    assert!(status.message.starts_with("Barrier timed out. Id: b::0."), "{status}");
    let detail = Detail::Barrier { id: "b".into(), counter: 0 };
    assert_eq!(status.details, [Detail::SERVICE, detail]);
    assert_eq!(driver.tell(barrier("b", 0, 1, NO_TASKS)), Err(status));
}

#[test]
fn a_late_counter_fails_the_running_instance_for_all() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let calls = [0, 1].map(|index| driver.start_call(barrier("b", 0, index, NO_TASKS)));
    assert_eq!(calls.map(|call| driver.take(call)), [passed(0), passed(0)]);
    let waits = driver.start_call(barrier("b", 1, 0, NO_TASKS));
    let late = driver.refused(barrier("b", 0, 1, NO_TASKS), Code::Internal);
    assert!(late.message.contains("but the service thinks it is the 1-th instance"), "{late}");
    let peer = refusal_of(driver.take(waits));
    assert_eq!([counter_of(&late), counter_of(&peer)], [Some(1), Some(1)]);
    assert_eq!(peer.code, Code::Internal);
}

/// JAX's forgets the barrier's name.
#[test]
fn a_first_call_out_of_step_names_the_barrier() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let status = driver.refused(barrier("b", 3, 0, NO_TASKS), Code::Internal);
    assert!(status.message.contains("Barrier b "), "{status}");
    assert_eq!(status.details[1], Detail::Barrier { id: "b".into(), counter: 0 });
    // The client goes on with the instance after that.
    let calls = [0, 1].map(|index| driver.start_call(barrier("b", 1, index, NO_TASKS)));
    assert_eq!(calls.map(|call| driver.take(call)), [passed(1), passed(1)]);
}

#[test]
fn a_list_of_all_tasks_is_no_list() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let all = driver.start_call(barrier("b", 0, 0, &[0, 1]));
    let none = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    assert_eq!([driver.take(all), driver.take(none)], [passed(0), passed(0)]);
}

/// JAX's leaves a barrier behind that cannot be used.
#[test]
fn barriers_can_be_cancelled() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let waits = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    driver.refused(cancel_barrier("b", 1), Code::FailedPrecondition);
    assert_eq!(driver.tell(cancel_barrier("b", 0)), Ok(Reply::BarrierCancelled));
    text_of(driver.take(waits), Code::Cancelled);
    driver.refused(cancel_barrier("b", 0), Code::FailedPrecondition);
    driver.refused(barrier("b", 0, 1, NO_TASKS), Code::Cancelled);
    assert_eq!(driver.tell(cancel_barrier("unseen", 0)), Ok(Reply::BarrierCancelled));
    driver.refused(barrier("unseen", 0, 1, NO_TASKS), Code::Cancelled);
    let calls = [0, 1].map(|index| driver.start_call(barrier("unseen", 1, index, NO_TASKS)));
    assert_eq!(calls.map(|call| driver.take(call)), [passed(1), passed(1)]);
}

#[test]
fn coming_to_a_barrier_outlives_the_call() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let abandoned = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    driver.cancel(abandoned);
    let peer = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    assert_eq!([driver.take(abandoned), driver.take(peer)], [None, passed(0)]);
}

#[test]
fn a_second_poll_ends_the_first() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    let (older, newer) = (driver.start_call(poll(0)), driver.start_call(poll(0)));
    text_of(driver.take(older), Code::Cancelled);
    assert!(driver.is_waiting(newer));
}

#[test]
fn a_shutdown_without_the_others_fails_for_all() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let polls = [0, 1].map(|index| driver.start_call(poll(index)));
    let leaves = driver.start_call(shutdown(0));
    driver.advance_beating(30, &[0, 1]);
    let status = refusal_of(driver.take(leaves));
    assert_eq!(status.code, Code::Internal);
    assert!(status.message.starts_with("Shutdown barrier has failed."), "{status}");
    for poll in polls {
        assert_eq!(text_of(driver.take(poll), Code::Internal), status.message);
    }
    assert_eq!(driver.refused(shutdown(1), Code::Internal).message, status.message);
}

#[test]
fn beats_are_taken_for_a_while_after_a_shutdown() {
    let mut driver = Driver::of(1);
    let life = driver.register_all(1);
    let polls = driver.start_call(poll(0));
    assert_eq!(driver.tell(shutdown(0)), Ok(Reply::ShutDown));
    text_of(driver.take(polls), Code::Cancelled);
    driver.advance(seconds(10));
    assert_eq!(driver.tell(beat(0, first(0))), Ok(Reply::Heartbeat(life)));
    driver.advance(seconds(1));
    driver.refused(beat(0, first(0)), Code::InvalidArgument);
    let again = driver.refused(shutdown(0), Code::Internal);
    assert!(again.message.contains("FAILED_PRECONDITION"), "{again}");
    assert!(again.message.contains("already disconnected"), "{again}");
}

#[test]
fn another_incarnation_is_everybodys_error() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let polls = [0, 1].map(|index| driver.start_call(poll(index)));
    let waits = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    driver.refused(register(0, 999), Code::Aborted);
    for poll in polls {
        text_of(driver.take(poll), Code::Aborted);
    }
    driver.refused(beat(0, first(0)), Code::Aborted);
    assert!(driver.tell(beat(1, first(1))).is_ok(), "an innocent peer's beats are taken");
    text_of(driver.take(waits), Code::Internal);
    driver.refused(barrier("c", 0, 1, NO_TASKS), Code::Internal);
    driver.refused(poll(1), Code::Aborted);
}

/// JAX's is up to 1 s late.
#[test]
fn a_silent_task_fails_the_barriers_of_the_others() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let polls = driver.start_call(poll(1));
    let waits = driver.start_call(barrier_for("b", 0, 1, NO_TASKS, 60_000));
    driver.advance_beating(10, &[1]);
    assert!(driver.is_waiting(waits), "silent for 10 s is not silent for longer");
    driver.advance_beating(1, &[1]);
    let text = text_of(driver.take(waits), Code::Internal);
    let begins = "Barrier failed because: task is set to ERROR: UNAVAILABLE";
    assert!(text.starts_with(begins), "{text}");
    let text = text_of(driver.take(polls), Code::Unavailable);
    let begins = "The following tasks are unhealthy (stopped sending heartbeats):\n0\n";
    assert!(text.starts_with(begins), "{text}");
}

#[test]
fn a_recoverable_task_dies_alone_and_comes_back() {
    let mut driver = Driver::recoverable(2);
    let life = driver.register_all(2);
    let calls = [0, 1].map(|index| driver.start_call(barrier("b", 0, index, NO_TASKS)));
    assert_eq!(calls.map(|call| driver.take(call)), [passed(0), passed(0)]);
    let polls = driver.start_call(poll(0));
    let waits = driver.start_call(barrier_for("b", 1, 0, NO_TASKS, 60_000));
    driver.advance_beating(9, &[0, 1]);
    let asks = driver.start_call(alive(0, &[0, 1]));
    driver.advance_beating(11, &[0]);
    let only = [(TaskIndex::new(0), Incarnation::new(first(0)))];
    assert_eq!(driver.take(asks), Some(Ok(Reply::Alive(only.into()))));
    assert!(driver.is_waiting(polls) && driver.is_waiting(waits));
    assert_eq!(driver.tell(register(1, 555)), Ok(Reply::Registered(life)));
    assert_eq!(driver.tell(beat(1, first(1))), Ok(Reply::Heartbeat(life)), "a stale one's beat");
    let returned = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    assert_eq!([driver.take(returned), driver.take(waits)], [passed(1), passed(1)]);
    let asks = [0, 1].map(|index| driver.start_call(alive(index, &[1, 0, 1])));
    let both =
        [(TaskIndex::new(0), Incarnation::new(100)), (TaskIndex::new(1), Incarnation::new(555))];
    assert_eq!(
        asks.map(|call| driver.take(call)),
        [0, 1].map(|_| Some(Ok(Reply::Alive(both.into()))))
    );
}

/// JAX's dies of it.
#[test]
fn a_version_from_the_future_is_refused() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    let Ok(Reply::Tasks { version, .. }) = driver.tell(Method::WatchTasks { version: -1 }) else {
        panic!()
    };
    let status = driver.refused(Method::WatchTasks { version: version + 1 }, Code::InvalidArgument);
    assert!(status.message.contains(&format!("{}", version + 1)), "{status}");
    driver.refused(Method::WatchTasks { version: i64::MAX }, Code::InvalidArgument);
    assert!(driver.tell(Method::WatchTasks { version: i64::MIN }).is_ok());
}

/// JAX's dies of it when the barrier ends.
#[test]
fn a_stranger_at_a_barrier_disturbs_nobody() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let waits = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    let status = driver.refused(barrier("b", 0, 7, NO_TASKS), Code::InvalidArgument);
    assert_eq!(counter_of(&status), Some(0));
    let peer = driver.start_call(barrier("b", 0, 1, NO_TASKS));
    assert_eq!([driver.take(waits), driver.take(peer)], [passed(0), passed(0)]);
}

/// JAX's dies of it.
#[test]
fn the_state_of_a_task_that_is_none_is_refused() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let tasks = vec![task(0), task(2)];
    driver.refused(Method::GetTaskState { tasks }, Code::InvalidArgument);
}

#[test]
fn a_reported_error_reaches_the_others_and_can_be_reset() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let polls = driver.start_call(poll(1));
    let report = Method::ReportErrorToService { task: task(0), code: 13, message: "broke".into() };
    assert_eq!(driver.tell(report.clone()), Ok(Reply::ErrorReported));
    let status = refusal_of(driver.take(polls));
    assert_eq!((status.code, &*status.message), (Code::Internal, "broke"));
    let source = Some(TaskIndex::new(0));
    assert_eq!(status.details, [Detail::CoordinationService { is_reported: true, source }]);
    let Ok(Reply::TaskStates(states)) = driver.tell(Method::GetTaskState { tasks: vec![task(0)] })
    else {
        panic!()
    };
    assert_eq!(states[0].state, TaskState::Error);
    assert_eq!(states[0].fault.as_ref().unwrap().code, Code::Internal);
    driver.refused(report, Code::FailedPrecondition);
    assert_eq!(driver.tell(Method::ResetTask { task: task(0) }), Ok(Reply::Reset));
    assert!(driver.tell(register(0, first(0))).is_ok());
    assert_eq!(driver.refused(poll(0), Code::Internal).message, "broke", "the error sticks");
}

#[test]
fn all_devices_come_in_the_order_of_tasks() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let wait = |index, devices: &'static [u8]| Method::WaitForAllTasks {
        task: task(index),
        devices: Bytes::from_static(devices),
    };
    let second = driver.start_call(wait(1, b"B0"));
    assert!(driver.is_waiting(second));
    let all = Ok(Reply::Devices([Bytes::from("A0 A1"), Bytes::from("B0")].into()));
    assert_eq!(driver.tell(wait(0, b"A0 A1")), all);
    assert_eq!(driver.take(second), Some(all.clone()));
    assert_eq!(driver.tell(wait(1, b"something else")), all, "the first list counts");
}

#[test]
fn a_tasks_own_flag_lets_it_come_back() {
    for recoverable in [true, false] {
        let mut driver = Driver::of(2);
        let registers = |index, incarnation| {
            let incarnation = Incarnation::new(incarnation);
            let task = task_of("jax_worker", index);
            in_t(Method::RegisterTask { task, incarnation, recoverable, tasks: None })
        };
        let calls = [0, 1].map(|index| driver.send(registers(index, 1)));
        assert!(calls.into_iter().all(|call| driver.take(call).unwrap().is_ok()));
        let again = driver.ask(registers(1, 2));
        assert_eq!(again.is_ok(), recoverable, "{again:?}");
        if let Err(status) = again {
            assert_eq!(status.code, Code::Aborted);
            assert!(status.message.contains("/job:jax_worker/replica:0/task:1"), "{status}");
        }
    }
}

#[test]
fn dialect_t_names_tasks_with_their_job() {
    let mut driver = Driver::with(settings(2));
    let incarnation = Incarnation::new(1);
    let register = |job| Method::RegisterTask {
        task: task_of(job, 0),
        incarnation,
        recoverable: false,
        tasks: None,
    };
    let status = driver.ask(in_t(register("worker"))).unwrap_err();
    assert_eq!(status.code, Code::InvalidArgument);
    assert!(status.message.contains("/job:worker/replica:0/task:0"), "{status}");
    let waits = driver.send(in_t(register("jax_worker")));
    driver.advance(seconds(60));
    let text = text_of(driver.take(waits), Code::DeadlineExceeded);
    assert!(text.contains("Missing: /job:jax_worker/replica:0/task:1."), "{text}");
    assert_eq!(Dialect::default(), Dialect::X);
}
