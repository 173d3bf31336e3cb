//! A job of unknown size waits for tasks that were told to register again.

use rondo_core::coordination::NamespaceConfig;
use rondo_core::ids::CallId;
use rondo_core::status::Code;

use crate::driver::{Driver, seconds, settings};
use crate::world::*;

/// A job of two runs; tasks 2 and 3 of the next job are told to register again.
fn refused_tasks() -> Driver {
    let mut driver = Driver::with(NamespaceConfig { tasks: None, ..settings(2) });
    let calls = [0, 1].map(|index| driver.start_call(register(index, 700)));
    driver.advance(seconds(9));
    [0, 1].iter().for_each(|index| drop(driver.tell(beat(*index, 700))));
    driver.advance(seconds(2));
    calls.into_iter().for_each(|call| drop(driver.take(call).unwrap().unwrap()));
    for index in [2, 3] {
        driver.refused(register(index, 900), Code::Aborted);
    }
    let leave = [0, 1].map(|index| driver.start_call(shutdown(index)));
    assert!(leave.into_iter().all(|call| driver.take(call).unwrap().is_ok()));
    driver
}

/// Tasks 0 and 1 register again after a restart, and beat for 12 s.
fn first_two_return(driver: &mut Driver) -> [CallId; 2] {
    let calls = [0, 1].map(|index| driver.start_call(register(index, 900)));
    driver.advance(seconds(9));
    [0, 1].iter().for_each(|index| drop(driver.tell(beat(*index, 900))));
    driver.advance(seconds(3));
    calls
}

/// The server is started anew while tasks 2 and 3 pause, for up to 16 s, and 0 and 1 wait.
#[test]
fn a_larger_job_waits_for_refused_tasks_also_after_a_restart() {
    let mut driver = refused_tasks();
    let _ = [0, 1].map(|index| driver.start_call(register(index, 900)));
    driver.advance(seconds(1));
    driver.restart();
    let calls = first_two_return(&mut driver);
    // 13 s after they were refused, tasks 2 and 3 still pause.
    let waits = calls.iter().all(|call| driver.is_waiting(*call));
    let size = driver.namespace().head().size;
    let late = driver.start_call(register(2, 900));
    let late = driver.take(late);
    assert!(waits, "the job began with {size:?} tasks; task 2 is told {late:?}");
}

/// The same when it is started anew between the jobs.
#[test]
fn a_larger_job_waits_for_refused_tasks_also_after_a_restart_between_the_jobs() {
    let mut driver = refused_tasks();
    driver.restart();
    let calls = first_two_return(&mut driver);
    let waits = calls.iter().all(|call| driver.is_waiting(*call));
    assert!(waits, "the job began with {:?} tasks", driver.namespace().head().size);
}

/// Who was refused long ago belongs to no job of now.
#[test]
fn a_task_refused_an_hour_ago_is_not_waited_for() {
    let mut driver = Driver::with(NamespaceConfig { tasks: None, ..settings(1) });
    let begin = |driver: &mut Driver, tasks: i32, run: u64| {
        let calls: Vec<_> = (0..tasks).map(|it| driver.start_call(register(it, run))).collect();
        for _ in 0..60 {
            driver.advance(seconds(1));
            if calls.iter().all(|call| !driver.is_waiting(*call)) {
                break;
            }
            if calls.iter().all(|call| driver.is_waiting(*call)) {
                (0..tasks).for_each(|it| drop(driver.tell(beat(it, run))));
            }
        }
        calls.into_iter().for_each(|call| drop(driver.take(call).unwrap().unwrap()));
    };
    begin(&mut driver, 1, 1);
    driver.refused(register(7, 2), Code::Aborted);
    for _ in 0..720 {
        driver.advance(seconds(5));
        driver.tell(beat(0, 1)).unwrap();
    }
    // The next job has two tasks; its task 1 comes early once.
    driver.refused(register(1, 3), Code::Aborted);
    driver.tell(shutdown(0)).unwrap();
    let before = driver.now;
    begin(&mut driver, 2, 3);
    let took = driver.now.since(before);
    assert!(took < seconds(13), "all tasks were there at once, and it took {took:?}");
}
