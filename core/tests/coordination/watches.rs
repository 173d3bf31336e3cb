//! Watches of keys see every change once; watches of tasks see the newest version.

use rondo_core::coordination::{ChangeKind, Method, Reply};
use rondo_core::status::Code;

use crate::driver::{Answer, Driver};
use crate::world::*;

/// Changes as text, and the revision to go on with.
#[track_caller]
fn changes(answer: Option<Answer>) -> (Vec<String>, u64) {
    match answer {
        Some(Ok(Reply::Changes { changes, upto })) => {
            let text = changes.iter().map(|change| {
                let sign = match change.kind {
                    ChangeKind::Put(_) => "+",
                    ChangeKind::Deleted => "-",
                    ChangeKind::DeletedWithAllUnder => "--",
                };
                format!("{sign}{}", change.key)
            });
            (text.collect(), upto.get())
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn keys(answer: Answer) -> (Vec<String>, u64) {
    match answer {
        Ok(Reply::Keys { entries, upto }) => {
            (entries.iter().map(|entry| entry.key.to_string()).collect(), upto.get())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_watch_begins_with_what_is_there() {
    let mut driver = Driver::of(1);
    for key in ["d", "d/a", "e"] {
        driver.tell(insert(key, "v")).unwrap();
    }
    let (seen, upto) = keys(driver.tell(watch("/d/", None)));
    assert_eq!((seen.as_slice(), upto), (["d".to_string(), "d/a".into()].as_slice(), 3));
    assert_eq!(keys(driver.tell(watch("", None))).0, ["d", "d/a", "e"]);
}

#[test]
fn a_watch_is_told_of_its_own_changes() {
    let mut driver = Driver::of(1);
    let waits = driver.start_call(watch("d", Some(0)));
    driver.tell(insert("e", "v")).unwrap();
    driver.tell(insert("dd", "v")).unwrap();
    assert!(driver.is_waiting(waits));
    driver.tell(insert("d/a/b", "v")).unwrap();
    assert_eq!(changes(driver.take(waits)), (vec!["+d/a/b".into()], 3));
}

#[test]
fn nothing_is_lost_or_doubled_between_two_calls() {
    let mut driver = Driver::of(1);
    let (_, upto) = keys(driver.tell(watch("d", None)));
    driver.tell(insert("d/a", "1")).unwrap();
    driver.tell(overwrite("d/a", "2")).unwrap();
    driver.tell(insert("other", "v")).unwrap();
    driver.tell(delete("d")).unwrap();
    let again = driver.start_call(watch("d", Some(upto)));
    let (seen, upto) = changes(driver.take(again));
    assert_eq!((seen, upto), (vec!["+d/a".into(), "+d/a".into(), "--d".into()], 4));
    let next = driver.start_call(watch("d", Some(upto)));
    assert!(driver.is_waiting(next));
    driver.restart();
    let next = driver.start_call(watch("d", Some(upto)));
    driver.tell(insert("d", "v")).unwrap();
    assert_eq!(changes(driver.take(next)).0, ["+d"]);
}

#[test]
fn a_watch_below_sees_what_is_deleted_above() {
    let mut driver = Driver::of(1);
    driver.tell(insert("a/b/c", "v")).unwrap();
    driver.tell(insert("ab", "v")).unwrap();
    let below = driver.start_call(watch("a/b", Some(2)));
    let beside = driver.start_call(watch("ab", Some(2)));
    driver.tell(delete("a")).unwrap();
    assert_eq!(changes(driver.take(below)).0, ["--a"]);
    assert!(driver.is_waiting(beside));
}

#[test]
fn keys_that_die_together_are_told_together() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    driver.tell(leased("d/a", "v", 0)).unwrap();
    driver.tell(leased("d/b", "v", 0)).unwrap();
    let waits = driver.start_call(watch("d", Some(2)));
    let one = driver.start_call(watch("d/b", Some(2)));
    driver.tell(Method::ResetTask { task: task(0) }).unwrap();
    assert_eq!(changes(driver.take(waits)), (vec!["-d/a".into(), "-d/b".into()], 4));
    assert_eq!(changes(driver.take(one)), (vec!["-d/b".into()], 4));
}

#[test]
fn whoever_saw_too_little_gets_all_keys() {
    let mut driver = Driver::of(1);
    for _ in 0..4_200 {
        driver.node_only(of(overwrite("d/busy", "v")));
    }
    assert_eq!(keys(driver.tell(watch("d", Some(10)))), (vec!["d/busy".into()], 4_200));
    let late = driver.start_call(watch("d", Some(4_100)));
    assert_eq!(changes(driver.take(late)).0.len(), 100);
}

/// Changes come in portions, none twice and none missing.
#[test]
fn many_changes_come_in_portions() {
    let mut driver = Driver::of(1);
    for _ in 0..1_500 {
        driver.node_only(of(increment("d/n", 1)));
    }
    let first = driver.start_call(watch("d", Some(0)));
    let (seen, upto) = changes(driver.take(first));
    assert_eq!((seen.len(), upto), (1_024, 1_024));
    let second = driver.start_call(watch("d", Some(upto)));
    let (seen, upto) = changes(driver.take(second));
    assert_eq!((seen.len(), upto), (476, 1_500));
}

#[test]
fn a_revision_from_the_future_is_refused() {
    let mut driver = Driver::of(1);
    driver.tell(insert("k", "v")).unwrap();
    driver.refused(watch("k", Some(2)), Code::InvalidArgument);
    driver.refused(watch("k", Some(u64::MAX)), Code::InvalidArgument);
}

#[test]
fn a_watch_of_tasks_waits_for_the_next_version() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let watch_from = |version| Method::WatchTasks { version };
    let Ok(Reply::Tasks { version, tasks }) = driver.tell(watch_from(-1)) else { panic!() };
    assert_eq!(tasks.len(), 2);
    let waits = [driver.start_call(watch_from(version)), driver.start_call(watch_from(version))];
    driver.tell(beat(0, first(0))).unwrap();
    assert!(waits.iter().all(|call| driver.is_waiting(*call)));
    driver.cancel(waits[1]);
    driver.tell(Method::ResetTask { task: task(1) }).unwrap();
    let Some(Ok(Reply::Tasks { version: newer, .. })) = driver.take(waits[0]) else { panic!() };
    assert!(newer > version);
    assert_eq!(driver.take(waits[1]), None);
    assert!(driver.tell(watch_from(version)).is_ok(), "a version that is past is answered");
}

/// A life without keys is news to whoever saw all of the life before.
#[test]
fn a_watch_sees_that_a_life_took_its_keys() {
    let mut driver = Driver::of(1);
    driver.tell(insert("d/a", "v")).unwrap();
    driver.tell(Method::ResetNamespace).unwrap();
    assert_eq!(keys(driver.tell(watch("d", Some(1)))).0, Vec::<String>::new());
}

/// The driver checks the invariants after each step: nothing is kept for those who left.
#[test]
fn a_watch_that_is_cancelled_leaves_nothing_behind() {
    let mut driver = Driver::of(1);
    let two = [driver.start_call(watch("d", Some(0))), driver.start_call(watch("d", Some(0)))];
    let waits = driver.start_call(get("d"));
    two.into_iter().chain([waits]).for_each(|call| driver.cancel(call));
    driver.tick();
}

/// The server tells a change only when it cannot be lost any more.
#[test]
fn changes_are_told_when_they_are_durable() {
    let mut driver = Driver::of(1);
    let waits = [driver.start_call(watch("d", Some(0))), driver.start_call(get("d/a"))];
    driver.prompt = false;
    let puts = driver.start_call(insert("d/a", "v"));
    let asks = driver.start_call(watch("d", Some(0)));
    let all = driver.start_call(watch("d", None));
    let lists = driver.start_call(Method::GetKeyValueDir { directory: "d".into() });
    let calls = [waits[0], waits[1], puts, asks, all, lists];
    assert!(calls.iter().all(|call| driver.take(*call).is_none()));
    driver.sync();
    assert!(calls.iter().all(|call| driver.take(*call).is_some()));
}
