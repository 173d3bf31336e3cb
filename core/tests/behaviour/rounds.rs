//! Coordinated reads: when a new task is added.

use rondo_core::dispatcher::Event;
use rondo_core::ids::{ClientId, TaskId};

use crate::driver::Driver;
use crate::world::{listed, rounds, started};

const FIRST: TaskId = TaskId::new(4000);
const SECOND: TaskId = TaskId::new(4001);

/// Two consumers in round `round` of a read with one task, and a second worker that has just come.
fn two_consumers_and_a_newcomer(round: i64) -> (Driver, ClientId, ClientId) {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let (_, clients) = driver.reading_together(2);
    let (one, two) = (clients[0], clients[1]);
    for client in [one, two] {
        let reply = driver.heartbeat(rounds(client, Some(round), None));
        assert_eq!((reply.block_round, listed(&reply)), (None, vec![FIRST]));
    }
    assert_eq!(started(&driver.worker("w:2", &[])), [SECOND]);
    (driver, one, two)
}

/// The example of seven steps in TensorFlow's description of the protocol.
#[test]
fn the_example_of_the_protocol_with_two_consumers() {
    // 1 and 2: both are on round 50 when a worker joins; round 51 is proposed.
    let (mut driver, one, two) = two_consumers_and_a_newcomer(50);
    // 3: consumer 1 is told to block round 51.
    let reply = driver.heartbeat(rounds(one, Some(50), None));
    assert_eq!((reply.block_round, listed(&reply)), (Some(51), vec![FIRST]));
    // 4: consumer 2 has begun round 51 already; 53 is proposed instead.
    let reply = driver.heartbeat(rounds(two, Some(51), None));
    assert_eq!((reply.block_round, listed(&reply)), (Some(53), vec![FIRST]));
    // 5: consumer 1, blocked before 51, is ready for 53 too.
    let reply = driver.heartbeat(rounds(one, Some(50), Some(51)));
    assert_eq!((reply.block_round, listed(&reply)), (Some(53), vec![FIRST]));
    // 6: consumer 2 is blocked before 53: the task is added, and nobody need block any more.
    let reply = driver.heartbeat(rounds(two, Some(52), Some(53)));
    assert_eq!((reply.block_round, listed(&reply)), (None, vec![FIRST, SECOND]));
    assert_eq!(reply.tasks[1].starting_round, 53);
    // 7: consumer 1 learns of it.
    let reply = driver.heartbeat(rounds(one, Some(50), Some(53)));
    assert_eq!((reply.block_round, listed(&reply)), (None, vec![FIRST, SECOND]));
    assert_eq!(reply.tasks[1].starting_round, 53);
    let promoted = Event::TaskPromoted { task: SECOND, starting_round: 53 };
    assert_eq!(driver.events.iter().filter(|event| **event == promoted).count(), 1);
}

/// Heartbeats that were long under way, while the server was held up, say that their consumers are blocked.
#[test]
fn a_consumer_that_was_let_go_is_not_blocked_whatever_an_old_heartbeat_says() {
    let (mut driver, one, two) = two_consumers_and_a_newcomer(50);
    let blocked = |client| rounds(client, Some(50), Some(51));
    driver.heartbeat(blocked(one));
    assert_eq!(driver.heartbeat(blocked(two)).block_round, None);
    assert_eq!(driver.heartbeat(blocked(one)).block_round, None);
    // Both may be in round 51 by now, and know nothing of a third worker.
    let third = started(&driver.worker("w:3", &[]))[0];
    for client in [one, two, one, two] {
        let reply = driver.heartbeat(blocked(client));
        assert_eq!((reply.block_round, listed(&reply)), (Some(52), vec![FIRST, SECOND]));
    }
    // One has not got the reply that let it go, and stands before 51 still. It goes on, and stops before 52.
    driver.heartbeat(rounds(one, Some(51), Some(52)));
    let reply = driver.heartbeat(rounds(two, Some(51), Some(52)));
    assert_eq!((reply.block_round, listed(&reply)), (None, vec![FIRST, SECOND, third]));
    assert_eq!(reply.tasks[2].starting_round, 52);
}

/// Only one of two consumers was let go. The other one vouches for the next proposal where it stands.
#[test]
fn a_consumer_that_was_not_let_go_is_blocked_still() {
    let (mut driver, one, two) = two_consumers_and_a_newcomer(50);
    let third = started(&driver.worker("w:3", &[]))[0];
    let blocked = |client| rounds(client, Some(50), Some(51));
    driver.heartbeat(blocked(one));
    assert_eq!(driver.heartbeat(blocked(two)).block_round, Some(51), "the third worker's");
    // Both still stand before 51: nobody has let them go.
    assert_eq!(driver.heartbeat(blocked(one)).block_round, Some(51));
    let reply = driver.heartbeat(blocked(two));
    assert_eq!((reply.block_round, listed(&reply)), (None, vec![FIRST, SECOND, third]));
    let fourth = started(&driver.worker("w:4", &[]))[0];
    let reply = driver.heartbeat(rounds(two, Some(50), Some(51)));
    assert_eq!((reply.block_round, listed(&reply)), (Some(52), vec![FIRST, SECOND, third]));
    assert_eq!(driver.heartbeat(blocked(one)).block_round, Some(52));
    let reply = driver.heartbeat(rounds(two, Some(51), Some(52)));
    assert_eq!((reply.block_round, listed(&reply)), (None, vec![FIRST, SECOND, third, fourth]));
}

#[test]
fn the_agreement_goes_on_after_a_restart() {
    let (mut driver, one, two) = two_consumers_and_a_newcomer(50);
    driver.heartbeat(rounds(one, Some(50), Some(51)));
    driver.restart();
    let reply = driver.heartbeat(rounds(two, Some(50), Some(51)));
    assert_eq!((reply.block_round, listed(&reply)), (None, vec![FIRST, SECOND]));
    assert_eq!(reply.tasks[1].starting_round, 51);
}

#[test]
fn each_failed_proposal_doubles_the_distance() {
    let (mut driver, one, _) = two_consumers_and_a_newcomer(10);
    let mut target = 11;
    for distance in [2, 4, 8, 16] {
        let reply = driver.heartbeat(rounds(one, Some(target), None));
        assert_eq!(reply.block_round, Some(target + distance));
        target += distance;
    }
}

#[test]
fn the_first_proposal_lies_past_the_latest_round_of_any_consumer() {
    let mut driver = Driver::new();
    driver.worker("w:1", &[]);
    let (_, clients) = driver.reading_together(2);
    driver.heartbeat(rounds(clients[0], Some(50), None));
    driver.heartbeat(rounds(clients[1], Some(48), None));
    driver.worker("w:2", &[]);
    let reply = driver.heartbeat(rounds(clients[1], Some(48), None));
    assert_eq!(reply.block_round, Some(51));
}

#[test]
fn a_new_proposal_lies_past_the_latest_round_of_any_consumer() {
    let (mut driver, one, two) = two_consumers_and_a_newcomer(10);
    driver.heartbeat(rounds(two, Some(30), None));
    let reply = driver.heartbeat(rounds(one, Some(32), None));
    assert_eq!(reply.block_round, Some(32 + 4));
    let reply = driver.heartbeat(rounds(one, Some(12), None));
    assert_eq!(reply.block_round, Some(36), "a straggler's round does not pull it back");
}

#[test]
fn a_failed_proposal_forgets_who_was_ready() {
    let (mut driver, one, two) = two_consumers_and_a_newcomer(10);
    driver.heartbeat(rounds(one, Some(10), Some(11)));
    let reply = driver.heartbeat(rounds(two, Some(11), None));
    assert_eq!(reply.block_round, Some(13));
    let reply = driver.heartbeat(rounds(two, Some(11), Some(13)));
    assert_eq!(reply.block_round, Some(13), "consumer 1 has not agreed to 13 yet");
    let reply = driver.heartbeat(rounds(one, Some(10), Some(11)));
    assert_eq!((reply.block_round, reply.tasks.len()), (None, 2));
}

#[test]
fn one_heartbeat_can_push_a_proposal_away_and_agree_to_the_next() {
    let (mut driver, one, two) = two_consumers_and_a_newcomer(10);
    let reply = driver.heartbeat(rounds(one, Some(11), Some(11)));
    assert_eq!(reply.block_round, Some(13));
    let reply = driver.heartbeat(rounds(two, Some(11), Some(11)));
    assert_eq!((reply.block_round, reply.tasks[1].starting_round), (None, 13));
}

#[test]
fn a_consumer_blocked_after_the_proposal_does_not_agree() {
    let (mut driver, one, two) = two_consumers_and_a_newcomer(10);
    driver.heartbeat(rounds(one, Some(10), Some(12)));
    let reply = driver.heartbeat(rounds(two, Some(10), Some(11)));
    assert_eq!((reply.block_round, reply.tasks.len()), (Some(11), 1));
}

#[test]
fn one_consumer_agreeing_twice_counts_once() {
    let (mut driver, one, _) = two_consumers_and_a_newcomer(10);
    driver.heartbeat(rounds(one, Some(10), Some(11)));
    let reply = driver.heartbeat(rounds(one, Some(10), Some(11)));
    assert_eq!((reply.block_round, reply.tasks.len()), (Some(11), 1));
}

#[test]
fn a_released_consumer_does_not_count_as_ready() {
    let (mut driver, one, two) = two_consumers_and_a_newcomer(10);
    driver.heartbeat(rounds(one, Some(10), Some(11)));
    driver.release(one);
    let reply = driver.heartbeat(rounds(two, Some(10), Some(11)));
    assert_eq!((reply.block_round, reply.tasks.len()), (Some(11), 1));
}

#[test]
fn tasks_are_added_one_by_one_in_the_order_their_workers_came() {
    let (mut driver, one, two) = two_consumers_and_a_newcomer(10);
    assert_eq!(started(&driver.worker("w:3", &[])), [TaskId::new(4002)]);
    driver.heartbeat(rounds(one, Some(10), Some(11)));
    let reply = driver.heartbeat(rounds(two, Some(10), Some(11)));
    assert_eq!((reply.block_round, listed(&reply)), (Some(11), vec![FIRST, SECOND]));
    driver.heartbeat(rounds(one, Some(10), Some(11)));
    let reply = driver.heartbeat(rounds(two, Some(10), Some(11)));
    assert_eq!((reply.block_round, reply.tasks.len()), (None, 3));
}

#[test]
fn a_read_begun_without_workers_gets_its_first_task_by_agreement() {
    let mut driver = Driver::new();
    let (_, clients) = driver.reading_together(1);
    driver.worker("w:1", &[]);
    let reply = driver.heartbeat(rounds(clients[0], Some(0), None));
    assert_eq!((reply.block_round, reply.tasks.len()), (Some(1), 0));
    let reply = driver.heartbeat(rounds(clients[0], Some(0), Some(1)));
    assert_eq!((reply.block_round, reply.tasks[0].starting_round), (None, 1));
}

#[test]
fn an_absurd_round_is_survived() {
    let (mut driver, one, two) = two_consumers_and_a_newcomer(10);
    let reply = driver.heartbeat(rounds(one, Some(i64::MAX), None));
    assert_eq!(reply.block_round, Some(i64::MAX));
    driver.heartbeat(rounds(two, Some(i64::MIN), Some(i64::MIN)));
    let reply = driver.heartbeat(rounds(one, Some(10), Some(11)));
    assert_eq!(reply.tasks[1].starting_round, i64::MAX);
}

/// Of two heartbeats that come late, the older one takes nothing back of what the newer one says.
#[test]
fn a_late_heartbeat_does_not_undo_that_a_consumer_was_let_go() {
    let (mut driver, one, two) = two_consumers_and_a_newcomer(50);
    driver.heartbeat(rounds(one, Some(50), Some(51)));
    driver.heartbeat(rounds(two, Some(50), Some(51)));
    driver.heartbeat(rounds(one, Some(50), Some(51)));
    let third = started(&driver.worker("w:3", &[]))[0];
    for client in [one, two] {
        driver.heartbeat(rounds(client, Some(51), Some(52)));
    }
    let reply = driver.heartbeat(rounds(one, Some(51), Some(52)));
    assert_eq!((reply.block_round, listed(&reply)), (None, vec![FIRST, SECOND, third]));
    // Both were let go from 52. A fourth worker comes, and heartbeats that were long under way.
    let _ = driver.heartbeat(rounds(two, Some(51), Some(52)));
    driver.worker("w:4", &[]);
    for client in [one, two] {
        driver.heartbeat(rounds(client, Some(50), Some(51)));
    }
    for client in [one, two] {
        let reply = driver.heartbeat(rounds(client, Some(51), Some(52)));
        assert!(reply.block_round.is_some(), "{:?}", listed(&reply));
    }
}
