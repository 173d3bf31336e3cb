//! The key-value store.

use std::sync::Arc;

use bytes::Bytes;
use rondo_core::coordination::{Condition, KeyEntry, Method, Reply, Value};
use rondo_core::ids::{Digest, Revision};
use rondo_core::status::{Code, Detail};

use crate::driver::Driver;
use crate::world::*;

fn listing(driver: &mut Driver, directory: &str) -> Arc<Vec<KeyEntry>> {
    match driver.tell(Method::GetKeyValueDir { directory: directory.into() }) {
        Ok(Reply::Directory(entries)) => entries,
        other => panic!("{other:?}"),
    }
}

fn keys_in(driver: &mut Driver, directory: &str) -> Vec<String> {
    listing(driver, directory).iter().map(|entry| entry.key.to_string()).collect()
}

#[test]
fn keys_have_one_way_to_be_written() {
    let mut driver = Driver::of(1);
    driver.tell(insert("///a//b/", "v")).unwrap();
    driver.refused(insert("a/b", "w"), Code::AlreadyExists);
    assert_eq!(driver.value("/a/b"), Some("v".into()));
    assert_eq!(keys_in(&mut driver, "a//"), ["a/b"]);
}

#[test]
fn a_get_waits_until_the_key_is_there() {
    let mut driver = Driver::of(1);
    let waits = [driver.start_call(get("a//b")), driver.start_call(get("a/b/"))];
    let gone = driver.start_call(get("a/b"));
    driver.cancel(gone);
    driver.tell(insert("a", "no")).unwrap();
    assert!(waits.iter().all(|call| driver.is_waiting(*call)));
    driver.tell(insert("a/b", "yes")).unwrap();
    for call in waits {
        let Some(Ok(Reply::Value { value, .. })) = driver.take(call) else { panic!() };
        assert_eq!(value, "yes".into());
    }
    assert_eq!(driver.take(gone), None);
    assert!(matches!(driver.tell(get("a/b")), Ok(Reply::Value { .. })));
}

#[test]
fn an_increment_wakes_a_get() {
    let mut driver = Driver::of(1);
    let waits = driver.start_call(get("n"));
    driver.tell(increment("n", 2)).unwrap();
    let Some(Ok(Reply::Value { value, .. })) = driver.take(waits) else { panic!() };
    assert_eq!(value, "2".into());
}

#[test]
fn a_missing_key_is_not_found() {
    let mut driver = Driver::of(1);
    let status = driver.refused(try_get("k"), Code::NotFound);
    assert_eq!(status.details, [Detail::SERVICE]);
}

#[test]
fn a_directory_holds_what_is_under_it() {
    let mut driver = Driver::of(1);
    for key in ["a", "a/b/c", "a!", "a/a", "ab/c", "", "b", "a0/x"] {
        driver.tell(insert(key, "v")).unwrap();
    }
    assert_eq!(keys_in(&mut driver, "a"), ["a/a", "a/b/c"]);
    assert_eq!(keys_in(&mut driver, "a/b/c"), [""; 0]);
    assert_eq!(keys_in(&mut driver, ""), [""; 0]);
    assert_eq!(keys_in(&mut driver, "nothing"), [""; 0]);
}

#[test]
fn answers_share_a_listing_until_a_key_changes() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    for key in ["d/a", "d/b", "e/a"] {
        driver.tell(insert(key, "v")).unwrap();
    }
    let changes = [overwrite("d/a", "w"), increment("d/n", 1), delete("d/b"), insert("d/c", "v")];
    for change in changes {
        let listing = listing(&mut driver, "d");
        assert!(Arc::ptr_eq(&listing, &self::listing(&mut driver, "/d//")));
        assert_eq!(keys_in(&mut driver, "e"), ["e/a"]);
        driver.tell(change).unwrap();
        assert_ne!(listing, self::listing(&mut driver, "d"));
    }
    assert_eq!(keys_in(&mut driver, "d"), ["d/a", "d/c", "d/n"]);
    driver.tell(shutdown(0)).unwrap();
    driver.register_as(1, 50);
    assert_eq!(keys_in(&mut driver, "d"), [""; 0]);
}

#[test]
fn a_key_is_deleted_with_all_under_it() {
    let mut driver = Driver::of(1);
    for key in ["", "a", "a/b", "a/b/c", "a!", "ab"] {
        driver.tell(insert(key, "v")).unwrap();
    }
    assert!(matches!(driver.tell(delete("nothing")), Ok(Reply::Deleted { .. })));
    driver.tell(delete("/a/")).unwrap();
    let left: Vec<_> = ["", "a", "a/b", "a/b/c", "a!", "ab"]
        .into_iter()
        .filter(|key| driver.value(key).is_some())
        .collect();
    assert_eq!(left, ["", "a!", "ab"]);
    driver.tell(delete("")).unwrap();
    assert_eq!(driver.value(""), None);
    assert!(driver.value("ab").is_some(), "\"\" is a key, not everything");
}

#[test]
fn values_and_keys_may_hold_anything() {
    let mut driver = Driver::of(1);
    let bytes = Bytes::from_static(&[0, 255, 128, 10]);
    let value = Value::Inline(bytes);
    let key = "nul\0key/ä";
    let condition = Condition::Absent;
    driver
        .tell(Method::PutKeyValue { key: key.into(), value: value.clone(), condition, lease: None })
        .unwrap();
    assert_eq!(driver.value(key), Some(value));
    driver.refused(increment(key, 1), Code::FailedPrecondition);
}

#[test]
fn counting_reads_signs_and_blanks_and_nothing_else() {
    let counted: [(&str, Option<&str>); 8] = [
        ("7", Some("8")),
        (" 7\n", Some("8")),
        ("+7", Some("8")),
        ("-1", Some("0")),
        ("", None),
        ("7.0", None),
        ("0x7", None),
        ("9223372036854775808", None),
    ];
    for (before, after) in counted {
        let mut driver = Driver::of(1);
        driver.tell(insert("n", before)).unwrap();
        let answer = driver.tell(increment("n", 1));
        assert_eq!(answer.is_ok(), after.is_some(), "{before:?}: {answer:?}");
        assert_eq!(driver.value("n"), Some(after.unwrap_or(before).into()));
    }
}

#[test]
fn an_update_needs_the_key_and_a_swap_its_revision() {
    let mut driver = Driver::of(1);
    driver.refused(put("k", "1", Condition::Present), Code::NotFound);
    let at = |revision| Condition::Revision(Revision::new(revision));
    let Ok(Reply::Put { revision }) = driver.tell(put("k", "1", at(0))) else { panic!() };
    driver.refused(put("k", "2", at(0)), Code::FailedPrecondition);
    driver.tell(put("k", "2", Condition::Present)).unwrap();
    driver.refused(put("k", "3", at(revision.get())), Code::FailedPrecondition);
    driver.tell(put("k", "3", at(revision.get() + 1))).unwrap();
    assert_eq!(driver.value("k"), Some("3".into()));
}

#[test]
fn leased_keys_die_with_their_task() {
    let mut driver = Driver::of(2);
    driver.refused(leased("early", "v", 0), Code::FailedPrecondition);
    driver.register_all(2);
    driver.tell(leased("mine/1", "v", 0)).unwrap();
    driver.tell(leased("mine/2", "v", 0)).unwrap();
    driver.tell(leased("kept", "v", 0)).unwrap();
    driver.tell(overwrite("kept", "for ever")).unwrap();
    driver.tell(leased("theirs", "v", 1)).unwrap();
    driver.tell(Method::ResetTask { task: task(0) }).unwrap();
    let there = ["mine/1", "mine/2", "kept", "theirs"].map(|key| driver.value(key).is_some());
    assert_eq!(there, [false, false, true, true]);
}

/// A listing that is still under way to somebody else shows keys that have died since.
#[test]
fn a_listing_is_made_anew_when_keys_died_with_their_task() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    driver.tell(leased("d/a", "v", 0)).unwrap();
    driver.tell(insert("d/b", "v")).unwrap();
    let before = listing(&mut driver, "d");
    driver.tell(Method::ResetTask { task: task(0) }).unwrap();
    assert_eq!(keys_in(&mut driver, "d"), ["d/b"]);
    assert_eq!(before.len(), 2);
}

#[test]
fn a_new_run_of_a_task_has_no_keys_of_the_former() {
    let mut driver = Driver::recoverable(2);
    driver.register_all(2);
    driver.tell(leased("mine", "v", 0)).unwrap();
    driver.tell(register(0, 9)).unwrap();
    assert_eq!(driver.value("mine"), None);
}

/// A blob may go when no key and no remembered change has it any more.
#[test]
fn blobs_are_forgotten_when_nothing_names_them() {
    let mut driver = Driver::of(1);
    let digest = Digest::new([7; 32]);
    let blob = |key: &str| Method::PutKeyValue {
        key: key.into(),
        value: Value::Blob { digest, size_bytes: 1_000_000 },
        condition: Condition::Always,
        lease: None,
    };
    driver.tell(blob("a")).unwrap();
    driver.tell(blob("b")).unwrap();
    driver.tell(delete("a")).unwrap();
    driver.tell(overwrite("b", "small")).unwrap();
    assert!(driver.forgotten_blobs.is_empty(), "watches may still be told of it");
    for _ in 0..6 {
        driver
            .tell(Method::PutKeyValue {
                key: "c".into(),
                value: Value::Blob { digest: Digest::new([8; 32]), size_bytes: 1_000_000 },
                condition: Condition::Always,
                lease: None,
            })
            .unwrap();
    }
    assert_eq!(driver.forgotten_blobs.len(), 1);
    assert!(driver.forgotten_blobs.contains(&digest));
}

/// A new life has no keys, and so none of their blobs.
#[test]
fn the_blobs_of_a_life_are_forgotten_with_it() {
    let mut driver = Driver::of(1);
    let digest = Digest::new([7; 32]);
    let value = Value::Blob { digest, size_bytes: 1_000_000 };
    let (key, condition) = ("a".into(), Condition::Always);
    driver.tell(Method::PutKeyValue { key, value, condition, lease: None }).unwrap();
    driver.tell(Method::ResetNamespace).unwrap();
    assert!(driver.forgotten_blobs.contains(&digest));
}

#[test]
fn a_leased_key_that_is_counted_dies_with_its_task_too() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    driver.tell(leased("n", "1", 0)).unwrap();
    driver.tell(increment("n", 1)).unwrap();
    driver.tell(Method::ResetTask { task: task(0) }).unwrap();
    assert_eq!(driver.value("n"), None);
}
