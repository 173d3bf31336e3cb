//! Callers that leave after their split was answered: whether they took it is not known for all of them.

use super::*;

fn ask(asker: Option<&str>) -> Request {
    match asker {
        Some(asker) => split_for(asker, IT, 0, 0),
        None => split(IT, 0, 0),
    }
}

/// Sends a request for a split that is answered with one.
#[track_caller]
fn answered(driver: &mut Driver, asker: Option<&str>) -> (CallId, i64) {
    let call = driver.send(ask(asker));
    match driver.take(call) {
        Some(Ok(Reply::Split(Some(split)))) => (call, split),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_split_whose_caller_left_without_the_answer_is_handed_out_again() {
    for asker in [Some("w:1"), None] {
        let (mut driver, _) = reading(false, 3);
        let (call, split) = answered(&mut driver, asker);
        driver.cancel(call);
        assert_eq!(take(&mut driver, "w:2", 1), [split], "{asker:?}");
        driver.cancel(call);
        assert_eq!(take(&mut driver, "w:2", 99), [1, 2], "{asker:?}: it comes back once");
    }
}

/// A worker asks one thing after the other.
#[test]
fn a_task_that_asks_for_more_has_taken_what_it_was_answered() {
    let (mut driver, _) = reading(false, 4);
    let (first, _) = answered(&mut driver, Some("w:1"));
    let (second, split) = answered(&mut driver, Some("w:1"));
    let (other, _) = answered(&mut driver, Some("w:2"));
    driver.cancel(first);
    assert_eq!(take(&mut driver, "w:1", 1), [3]);
    driver.cancel(second);
    assert_eq!(take(&mut driver, "w:1", 1), [], "split {split} was taken too");
    driver.cancel(other);
    assert_eq!(take(&mut driver, "w:1", 9), [2], "the other worker has not asked again");
}

/// Of callers that do not say who they are, the latest sixteen may have left without the answer.
#[test]
fn what_was_answered_to_unknown_callers_is_taken_after_sixteen_more_answers() {
    let (mut driver, _) = reading(false, 40);
    let calls = [(); 18].map(|()| answered(&mut driver, None).0);
    driver.cancel(calls[1]);
    assert_eq!(driver.split(IT, 0, 0), Some(18), "sixteen came after it");
    driver.cancel(calls[3]);
    assert_eq!(driver.split(IT, 0, 0), Some(3));
    // The one that came back makes no difference to how long the others are remembered.
    let more = [(); 13].map(|()| answered(&mut driver, None).0);
    driver.cancel(calls[4]);
    assert_eq!(driver.split(IT, 0, 0), Some(32));
    driver.cancel(more[0]);
    assert_eq!(driver.split(IT, 0, 0), Some(19));
}

/// They were counted, or given back, when the worker's next process was heard.
#[test]
fn splits_of_a_former_process_do_not_come_back_once_more_with_their_callers() {
    for reissue in [false, true] {
        let (mut driver, _) = reading(reissue, 3);
        let (call, split) = answered(&mut driver, Some("w:1"));
        assert_eq!(split, 0);
        let first = driver.state().tasks().keys().next().copied().unwrap();
        driver.worker_says(WorkerHeartbeat { uid: 2, ..worker("w:1", &[]) });
        let left: &[i64] = if reissue { &[0, 1, 2] } else { &[1, 2] };
        assert_eq!(take(&mut driver, "w:2", 99), left);
        driver.finish("w:1", first);
        driver.cancel(call);
        assert_eq!(take(&mut driver, "w:2", 99), [], "reissue {reissue}");
    }
}
