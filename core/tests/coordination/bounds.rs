//! Nothing grows without bound, and whoever reaches a bound is told.

use bytes::Bytes;
use rondo_core::coordination::{BarrierKey, Condition, Method, NamespaceConfig, Reply, Value};
use rondo_core::ids::{Digest, TaskIndex};
use rondo_core::limits::{
    COORDINATION_TASKS_MAX, FREED_PER_STEP_MAX, FREED_PER_STEP_PAUSE, KEY_BYTES_MAX, KEYS_MAX,
    LEASED_KEYS_MAX, LISTED_KEYS_MAX, LISTED_PARTICIPANTS_MAX, PARKED_CALLS_MAX,
};
use rondo_core::memory::Memory;
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::driver::{Driver, replay, settings};
use crate::world::*;

/// Calls of a namespace with the default settings that may wait for keys.
const KEY_WAITS_MAX: usize = PARKED_CALLS_MAX / 4 * 3;

fn sized(key: &str, bytes: usize) -> Method {
    let value = Value::Inline(vec![0; bytes].into());
    Method::PutKeyValue { key: key.into(), value, condition: Condition::Always, lease: None }
}

#[test]
fn keys_values_and_the_whole_have_bounds() {
    let small =
        NamespaceConfig { keys_max: 3, value_bytes_max: 100, store_bytes_max: 150, ..settings(1) };
    let mut driver = Driver::with(small);
    let status = driver.refused(sized("a", 101), Code::InvalidArgument);
    assert_eq!(status.message, "the value has 101 bytes; the bound is 100");
    driver.tell(sized("a", 100)).unwrap();
    driver.refused(sized("b", 60), Code::ResourceExhausted);
    driver.tell(sized("a", 10)).unwrap();
    driver.tell(sized("b", 60)).unwrap();
    driver.tell(sized("c", 1)).unwrap();
    let status = driver.refused(sized("d", 1), Code::ResourceExhausted);
    assert_eq!(status.message, "too many keys: the bound is 3");
    driver.refused(increment("d", 1), Code::ResourceExhausted);
    driver.tell(delete("a")).unwrap();
    driver.tell(sized("d", 1)).unwrap();
}

/// A value that replaces another one counts in its place, and not beside it.
#[test]
fn a_value_has_the_room_of_the_one_before() {
    let small = NamespaceConfig { value_bytes_max: 100, store_bytes_max: 110, ..settings(1) };
    let mut driver = Driver::with(small);
    driver.tell(sized("a", 100)).unwrap();
    driver.tell(sized("a", 100)).unwrap();
    driver.tell(sized("a", 90)).unwrap();
    driver.refused(sized("b", 19), Code::ResourceExhausted);
    driver.tell(sized("b", 18)).unwrap();
    driver.refused(sized("a", 91), Code::ResourceExhausted);
    driver.tell(sized("a", 90)).unwrap();
}

#[test]
fn names_have_bounds() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    let long = "k".repeat(KEY_BYTES_MAX + 1);
    for method in [sized(&long, 1), get(&long), try_get(&long), delete(&long), increment(&long, 1)]
    {
        driver.refused(method, Code::InvalidArgument);
    }
    driver.refused(barrier(&long, 0, 0, NO_TASKS), Code::InvalidArgument);
    driver.refused(cancel_barrier(&long, 0), Code::InvalidArgument);
    driver.refused(watch(&long, None), Code::InvalidArgument);
    driver.refused(Method::GetKeyValueDir { directory: long }, Code::InvalidArgument);
    let devices = Bytes::from(vec![0; 2 << 20]);
    driver.refused(Method::WaitForAllTasks { task: task(0), devices }, Code::InvalidArgument);
    driver.tell(sized(&"k".repeat(KEY_BYTES_MAX), 1)).unwrap();
}

#[test]
fn no_key_is_added_while_memory_is_short() {
    let mut driver = Driver::of(1);
    driver.tell(sized("there", 100)).unwrap();
    driver.tell(increment("count", 9)).unwrap();
    driver.learn(Memory::Short("80 of 100 bytes are in use".into()));
    for method in [sized("new", 1), sized("there", 101), increment("more", 1)] {
        let status = driver.refused(method, Code::ResourceExhausted);
        let text = "there is no memory for more keys and values: 80 of 100 bytes are in use";
        assert_eq!(status.message, text);
    }
    driver.tell(sized("there", 100)).unwrap();
    driver.tell(increment("count", 1)).unwrap();
    // A long value is a blob, which takes no memory.
    let value = Value::Blob { digest: Digest::new([7; 32]), size_bytes: 1 << 20 };
    let condition = Condition::Always;
    driver
        .tell(Method::PutKeyValue { key: "there".into(), value, condition, lease: None })
        .unwrap();
    driver.tell(delete("there")).unwrap();
    driver.learn(Memory::Enough);
    driver.tell(sized("new", 1)).unwrap();
}

/// A job that runs meets at barriers, polls for errors and sends heartbeats. Its calls that wait already go
/// on waiting.
#[test]
fn no_call_waits_for_keys_without_memory_and_tasks_go_on() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let waits = driver.start_call(get("k"));
    driver.learn(Memory::Short("all but 20 bytes are in use".into()));
    let too = driver.start_call(get("k"));
    driver.learn(Memory::None("all are in use".into()));
    let seen = driver.namespace().head().version;
    let status = driver.refused(get("k"), Code::ResourceExhausted);
    let text = "there is no memory for more calls that wait for keys: all are in use";
    assert_eq!(status.message, text);
    // These come again and again, each in the place of the one before.
    for method in [watch("k", Some(0)), Method::WatchTasks { version: seen }] {
        let watches = driver.start_call(method);
        assert!(driver.is_waiting(watches));
    }
    assert!(driver.tell(beat(0, first(0))).is_ok());
    let polls = driver.start_call(poll(0));
    let here = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    assert_eq!(driver.tell(barrier("b", 0, 1, NO_TASKS)), Ok(Reply::BarrierPassed { counter: 0 }));
    assert_eq!((driver.take(here), driver.is_waiting(polls)), (passed(0), true));
    assert!(driver.is_waiting(waits) && driver.is_waiting(too));
    driver.learn(Memory::Enough);
    driver.tell(insert("k", "v")).unwrap();
    assert!(!driver.is_waiting(waits) && !driver.is_waiting(too));
}

#[test]
fn leases_have_a_bound() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    for index in 0..LEASED_KEYS_MAX {
        driver.node_only(of(leased(&format!("k/{index}"), "v", 0)));
    }
    driver.refused(leased("one more", "v", 0), Code::ResourceExhausted);
    // A key that is leased already is none more.
    driver.node_only(of(leased("k/7", "w", 0)));
    assert_eq!(driver.namespace().store().leased_by(TaskIndex::new(0)).count(), LEASED_KEYS_MAX);
}

/// Whoever waits for keys without end leaves room for those that wait for each other.
#[test]
fn waits_for_keys_have_a_bound_and_tasks_notice_nothing() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    for index in 0..KEY_WAITS_MAX {
        driver.node_only(of(get(&format!("k/{}", index % 10))));
    }
    let status = driver.refused(get("k/0"), Code::ResourceExhausted);
    assert_eq!(status.message, "too many calls that wait for keys: the bound is 49152");
    driver.refused(watch("k", Some(0)), Code::ResourceExhausted);
    let seen = driver.namespace().head().version;
    driver.refused(Method::WatchTasks { version: seen }, Code::ResourceExhausted);
    assert!(driver.tell(beat(0, first(0))).is_ok());
    driver.tell(insert("free", "v")).unwrap();
    let polls = driver.start_call(poll(0));
    let here = driver.start_call(barrier("b", 0, 0, NO_TASKS));
    assert_eq!(driver.tell(barrier("b", 0, 1, NO_TASKS)), Ok(Reply::BarrierPassed { counter: 0 }));
    assert_eq!((driver.take(here), driver.is_waiting(polls)), (passed(0), true));
    let alone = driver.start_call(alive(0, &[0, 1]));
    assert!(driver.tell(alive(1, &[0, 1])).is_ok() && driver.take(alone).is_some());
}

#[test]
fn all_waits_together_have_a_bound() {
    const TASKS: i32 = 5;
    let mut driver = Driver::of(TASKS as u32);
    driver.register_all(TASKS);
    for index in 0..KEY_WAITS_MAX {
        driver.node_only(of(get(&format!("k/{}", index % 10))));
    }
    for number in 0..PARKED_CALLS_MAX - KEY_WAITS_MAX {
        let (id, task) = (format!("b/{}", number / 4), number % 4);
        driver.node_only(of(barrier(&id, 0, task as i32, NO_TASKS)));
    }
    let status = driver.refused(poll(0), Code::ResourceExhausted);
    assert_eq!(status.message, "too many waiting calls: the bound is 65536");
    driver.refused(barrier("b/0", 0, 4, NO_TASKS), Code::ResourceExhausted);
    assert!(driver.tell(beat(0, first(0))).is_ok());
}

/// One job at its bounds changes nothing for another.
#[test]
fn each_namespace_has_waits_of_its_own() {
    let few = NamespaceConfig { waits_max: 8, ..settings(1) };
    let other = NamespaceConfig { name: "other".into(), ..few.clone() };
    let mut driver = Driver::serving(vec![few, other]);
    for _ in 0..6 {
        driver.node_only(of(get("k")));
    }
    let refused = |driver: &mut Driver, request| {
        driver.node_only(request);
        let answered = driver.take_all().pop_last();
        answered.map(|(_, answer)| answer.unwrap_err().message)
    };
    let text = refused(&mut driver, of(get("k"))).unwrap();
    assert_eq!(text, "too many calls that wait for keys: the bound is 6");
    for _ in 0..6 {
        assert_eq!(refused(&mut driver, elsewhere(get("k"))), None, "it waits");
    }
    assert!(refused(&mut driver, elsewhere(get("k"))).is_some());
}

/// Each task of a job polls for errors and waits for a key, as JAX's do.
#[test]
fn a_large_job_has_waits_for_each_of_its_tasks() {
    const TASKS: i32 = 100;
    let mut driver = Driver::with(NamespaceConfig { waits_max: 8, ..settings(TASKS as u32) });
    driver.register_all(TASKS);
    for number in 0..TASKS {
        driver.node_only(of(poll(number)));
        driver.node_only(of(get("k")));
    }
    assert!(driver.take_all().is_empty(), "all of them wait");
    for _ in TASKS..TASKS * 3 {
        driver.node_only(of(get("k")));
    }
    let status = driver.refused(get("k"), Code::ResourceExhausted);
    assert_eq!(status.message, "too many waiting calls: the bound is 400");
}

/// As many keys as there may be by default: more than a million.
#[test]
fn a_million_keys_fit_and_one_more_does_not() {
    let mut driver = Driver::of(1);
    driver.register_all(1);
    for number in 0..KEYS_MAX {
        let directory = if number < LISTED_KEYS_MAX { "many/few" } else { "many" };
        driver.node_only(of(insert(&format!("{directory}/{number:07}"), "v")));
    }
    assert_eq!(driver.namespace().store().entries().len(), KEYS_MAX);
    let full = |driver: &mut Driver, method| {
        driver.node_only(of(method));
        let (_, answer) = driver.take_all().pop_last().unwrap();
        answer.unwrap_err()
    };
    let status = full(&mut driver, insert("one more", "v"));
    assert_eq!(status.code, Code::ResourceExhausted, "{status}");
    assert_eq!(status.message, "too many keys: the bound is 1048576");
    let status = full(&mut driver, increment("one more", 1));
    assert_eq!(status.code, Code::ResourceExhausted, "{status}");
    let directory = |directory: &str| Method::GetKeyValueDir { directory: directory.into() };
    driver.node_only(of(directory("many/few")));
    let (_, listed) = driver.take_all().pop_last().unwrap();
    let Ok(Reply::Directory(listed)) = listed else { panic!("{listed:?}") };
    assert_eq!(listed.len(), LISTED_KEYS_MAX);
    for method in [directory("many"), watch("many", None), watch("", Some(0))] {
        let status = full(&mut driver, method);
        assert_eq!(status.code, Code::ResourceExhausted, "{status}");
        assert_eq!(status.message, "too many keys in one answer: the bound is 262144");
    }
    driver.node_only(of(beat(0, first(0))));
    driver.node_only(of(overwrite("many/few/0000000", "other")));
    driver.node_only(of(delete("many")));
    assert_eq!(driver.take_all().into_values().filter(Result::is_err).count(), 0);
    assert_eq!(driver.namespace().store().size_bytes(), 0);
}

/// A large directory goes at once, whatever is before and behind it; the memory follows bit by bit,
/// and what is recovered is the same.
#[test]
fn a_large_directory_goes_at_once_and_its_neighbours_stay() {
    const KEYS: usize = 3 * FREED_PER_STEP_MAX;
    let mut driver = Driver::of(1);
    driver.register_all(1);
    let neighbours = ["a", "d-", "d.x/y", "d0", "dd/e", "e/d/k"];
    for key in neighbours {
        driver.tell(insert(key, "stays")).unwrap();
    }
    driver.tell(insert("d", "goes")).unwrap();
    driver.tell(leased("d/leased", "v", 0)).unwrap();
    for number in 0..KEYS {
        driver.node_only(of(insert(&format!("d/{number}"), "goes")));
    }
    assert_eq!(driver.namespace().store().entries().len(), neighbours.len() + 2 + KEYS);
    driver.tell(delete("d")).unwrap();
    let left: Vec<_> = driver.namespace().store().entries().map(|entry| &**entry.key()).collect();
    assert_eq!(left, neighbours);
    let size_bytes: usize = neighbours.iter().map(|key| key.len() + "stays".len()).sum();
    assert_eq!(driver.namespace().store().size_bytes(), size_bytes as u64);
    let (soon, _) = driver.node.deadline().unwrap();
    assert_eq!(soon, driver.now.after(FREED_PER_STEP_PAUSE), "there is more to free");
    driver.advance(Duration::from_millis(20));
    let (later, _) = driver.node.deadline().unwrap();
    assert!(later > driver.now.after(Duration::from_millis(20)), "all is freed");
    driver.restart();
    assert_eq!(driver.namespace().store().entries().len(), neighbours.len());
}

/// However it went: with its directory, or with the life of its namespace.
#[test]
fn many_keys_are_freed_a_little_in_each_step() {
    for gone in [delete("d"), Method::ResetNamespace] {
        let mut driver = Driver::of(1);
        for number in 0..3 * FREED_PER_STEP_MAX {
            driver.node_only(of(insert(&format!("d/{number}"), "goes")));
        }
        driver.tell(gone.clone()).unwrap();
        for left in [3, 2, 1] {
            let (soon, _) = driver.node.deadline().unwrap();
            assert_eq!(soon, driver.now.after(FREED_PER_STEP_PAUSE), "{gone:?}: {left} more steps");
            driver.advance(FREED_PER_STEP_PAUSE);
        }
        let next = driver.node.deadline();
        assert!(next.is_none_or(|(at, _)| at > driver.now.after(FREED_PER_STEP_PAUSE)), "{gone:?}");
    }
}

/// What the lists of participants of ended barriers take does not grow for ever; a barrier whose list
/// is not remembered settles its participants anew.
#[test]
fn lists_of_participants_have_a_bound() {
    const TASKS: i32 = 4096;
    let mut driver = Driver::of(TASKS as u32);
    for index in 0..TASKS {
        driver.node_only(of(register(index, first(index))));
    }
    driver.advance(Duration::ZERO);
    driver.take_all();
    let list: Vec<i32> = (0..TASKS - 1).collect();
    let fit = LISTED_PARTICIPANTS_MAX / list.len();
    for number in 0..fit + 3 {
        let id = format!("b{number}");
        driver.node_only(of(barrier(&id, 0, 0, &list)));
        driver.node_only(of(cancel_barrier(&id, 0)));
    }
    assert!(driver.take_all().into_values().all(|answer| match answer {
        Ok(reply) => reply == Reply::BarrierCancelled,
        Err(status) => status.code == Code::Cancelled,
    }));
    let listed = |driver: &Driver, number: usize| {
        let key = BarrierKey::Named(format!("b{number}").as_str().into());
        driver.namespace().barriers()[&key].participants.is_some()
    };
    let known: Vec<usize> = (0..fit + 3).filter(|number| listed(&driver, *number)).collect();
    assert_eq!(known, (3..fit + 3).collect::<Vec<_>>(), "the oldest ones are forgotten");
    driver.node_only(of(barrier("b3", 1, 0, &[0])));
    driver.node_only(of(barrier("b2", 1, 0, &[0])));
    let codes: Vec<_> =
        driver.take_all().into_values().map(|answer| answer.map_err(|end| end.code)).collect();
    let passed = Reply::BarrierPassed { counter: 1 };
    assert_eq!(codes, [Err(Code::InvalidArgument), Ok(passed)]);

    for number in 0..=fit {
        driver.node_only(of(barrier(&format!("open{number}"), 0, 0, &list)));
    }
    let refused: Vec<_> = driver.take_all().into_values().collect();
    let bound = "too many tasks in the lists of open barriers: the bound is 2097152";
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].as_ref().unwrap_err().message, bound);
    let records = driver.into_journal();
    replay(&records, records.len() - 5);
}

#[test]
fn texts_have_a_bound() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let polls = driver.start_call(poll(1));
    let message = "long ".repeat(10_000);
    driver.tell(Method::ReportErrorToService { task: task(0), code: 2, message }).unwrap();
    assert!(text_of(driver.take(polls), Code::Unknown).len() <= 3_072);
}

#[test]
fn lists_of_tasks_have_a_bound() {
    let mut driver = Driver::of(2);
    driver.register_all(2);
    let too_many: Vec<i32> = (0..=COORDINATION_TASKS_MAX as i32).collect();
    driver.refused(alive(0, &too_many), Code::ResourceExhausted);
    let tasks = vec![task(0); COORDINATION_TASKS_MAX + 1];
    driver.refused(Method::GetTaskState { tasks }, Code::ResourceExhausted);
}
