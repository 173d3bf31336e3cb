//! Tasks that put how far they are: who stays behind while others go on is named, and nobody else.

use rondo_core::coordination::{Event, NamespaceConfig, Progress, Reply, Request};

use crate::driver::{Driver, seconds, settings};
use crate::world::*;

const ALL: &[i32] = &[0, 1, 2];

fn looking() -> Driver {
    let progress = Some(Progress { key: "job/step".into(), timeout: seconds(20) });
    let mut driver = Driver::with(NamespaceConfig { progress, ..settings(3) });
    driver.register_all(3);
    driver
}

impl Driver {
    #[track_caller]
    fn step_of(&mut self, task: i32, step: &'static str) {
        self.tell(overwrite(&format!("job/step/{task}"), step)).unwrap();
    }

    /// Tasks said to be stuck, as the log names them, and what it says of them.
    fn named(&mut self) -> Vec<(String, String)> {
        let events = std::mem::take(&mut self.events).into_iter();
        let named = events.filter_map(|event| match event {
            Event::NoProgress { tasks, reason, .. } => {
                Some((tasks.to_string(), reason.to_string()))
            }
            _ => None,
        });
        named.collect()
    }

    /// Tasks that are stuck, by the report, each with in what way.
    fn reported(&mut self) -> Vec<(i32, String)> {
        match self.ask(Request::Report).unwrap() {
            Reply::Report(report) => {
                let tasks = report.namespaces.into_iter().flat_map(|namespace| namespace.tasks);
                tasks.filter_map(|task| Some((task.task, task.stuck?))).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_stays_behind_is_named_with_where_and_since_when() {
    let mut driver = looking();
    for step in ["1040", "1041"] {
        ALL.iter().for_each(|task| driver.step_of(*task, step));
        driver.advance_beating(5, ALL);
    }
    // The others go one step on, and wait for task 1 there.
    driver.step_of(0, "1042");
    driver.step_of(2, "1042");
    driver.advance_beating(14, ALL);
    assert_eq!(driver.named(), [], "not yet");
    driver.advance_beating(3, ALL);
    let named = driver.named();
    assert_eq!(named.len(), 1, "{named:?}");
    assert_eq!(named[0].0, "1");
    let (task, how) = driver.reported().remove(0);
    assert_eq!(task, 1);
    for text in [&how, &named[0].1] {
        for part in ["its key job/step/1 has been 1041 for 2", "the others are at 1042"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
    // The others wait for it, however long: they are not named, and it is named once.
    driver.advance_beating(100, ALL);
    assert_eq!(driver.named(), []);
    assert_eq!(driver.reported().len(), 1);
    // Nothing else has happened to it.
    assert!(driver.tell(beat(1, first(1))).is_ok());
    driver.step_of(1, "1042");
    assert_eq!(driver.reported(), []);
    let again = driver.events.iter();
    assert_eq!(again.filter(|event| matches!(event, Event::ProgressAgain { .. })).count(), 1);
}

#[test]
fn when_all_stand_at_the_same_step_nobody_is_named() {
    let mut driver = looking();
    ALL.iter().for_each(|task| driver.step_of(*task, "7"));
    driver.advance_beating(200, ALL);
    assert_eq!(driver.named(), []);
    assert_eq!(driver.reported(), []);
}

#[test]
fn the_same_value_once_more_is_no_progress() {
    let mut driver = looking();
    ALL.iter().for_each(|task| driver.step_of(*task, "7"));
    driver.step_of(0, "8");
    for _ in 0..30 {
        driver.step_of(2, "7");
        driver.step_of(1, "8");
        driver.advance_beating(1, ALL);
    }
    let named = driver.named();
    assert_eq!(named.len(), 1);
    assert_eq!(named[0].0, "2");
}

#[test]
fn values_that_are_no_numbers_count_by_their_changes() {
    let mut driver = looking();
    ALL.iter().for_each(|task| driver.step_of(*task, "load"));
    driver.advance_beating(1, ALL);
    // One change more may be the same phase, which task 1 has begun a little earlier.
    driver.step_of(0, "train");
    driver.advance_beating(30, ALL);
    assert_eq!(driver.named(), []);
    driver.step_of(0, "save");
    driver.step_of(2, "save");
    driver.advance_beating(30, ALL);
    let named = driver.named();
    assert_eq!(named.len(), 1, "{named:?}");
    assert_eq!(named[0].0, "1");
}

#[test]
fn who_puts_no_key_is_behind_all_that_do() {
    let mut driver = looking();
    driver.advance_beating(100, ALL);
    assert_eq!(driver.named(), [], "nobody does");
    driver.step_of(0, "1");
    driver.step_of(2, "1");
    driver.advance_beating(21, ALL);
    let named = driver.named();
    assert_eq!(named.len(), 1);
    assert!(named[0].1.contains("task 1: it has put no key job/step/1"), "{named:?}");
}

#[test]
fn a_service_that_was_away_or_held_up_names_nobody_for_it() {
    let mut driver = looking();
    ALL.iter().for_each(|task| driver.step_of(*task, "7"));
    driver.step_of(0, "8");
    driver.advance_beating(15, ALL);
    driver.restart();
    driver.advance_beating(15, ALL);
    assert_eq!(driver.named(), [], "20 s have not passed since the restart");
    driver.advance_beating(10, ALL);
    assert_eq!(driver.named()[0].0, "1-2", "what was put is remembered");

    let mut driver = looking();
    ALL.iter().for_each(|task| driver.step_of(*task, "7"));
    driver.step_of(0, "8");
    driver.hold_up(seconds(60));
    driver.advance_beating(15, ALL);
    assert_eq!(driver.named(), []);
    driver.advance_beating(10, ALL);
    assert_eq!(driver.named()[0].0, "1-2");
}

#[test]
fn a_stuck_task_is_named_although_the_service_is_held_up_again_and_again() {
    let mut driver = looking();
    ALL.iter().for_each(|task| driver.step_of(*task, "7"));
    driver.step_of(0, "8");
    for _ in 0..20 {
        driver.advance_beating(2, ALL);
        driver.hold_up(seconds(5));
        driver.advance_beating(1, ALL);
    }
    assert_eq!(driver.named()[0].0, "1-2");
}

#[test]
fn a_new_life_begins_without_marks_and_other_keys_are_none() {
    let mut driver = looking();
    driver.step_of(0, "8");
    for key in
        ["job/step", "job/step/x", "job/step/01", "job/step/9", "job/steps/1", "job/step/1/a"]
    {
        driver.tell(overwrite(key, "1")).unwrap();
    }
    let leaving: Vec<_> = ALL.iter().map(|task| driver.start_call(shutdown(*task))).collect();
    assert!(leaving.into_iter().all(|call| driver.take(call).unwrap().is_ok()));
    driver.register_as(3, 50);
    for _ in 0..40 {
        driver.advance(seconds(1));
        ALL.iter().for_each(|task| drop(driver.tell(beat(*task, first(*task) + 50)).unwrap()));
    }
    assert_eq!(driver.named(), []);
}

#[test]
fn who_has_left_is_not_stuck() {
    let mut driver = looking();
    ALL.iter().for_each(|task| driver.step_of(*task, "7"));
    driver.step_of(0, "8");
    driver.step_of(1, "8");
    // Task 2 dies, which is another story.
    driver.advance_beating(60, &[0, 1]);
    assert_eq!(driver.named(), []);
    driver.tell(delete("job")).unwrap();
    assert_eq!(driver.reported(), []);
}
