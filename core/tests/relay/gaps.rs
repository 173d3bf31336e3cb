//! The server goes away and comes back.

use rondo_core::ids::{CallId, ConnectionId, ServiceIncarnation, TaskIndex};
use rondo_core::relay::{Config, Effect, Event, Input, Kind, Link, Wake};
use rondo_core::status::{Code, Status};
use rondo_core::time::Duration;

use crate::story::{BARRIER, LIFE, ONCE, Story, forwarded, heartbeat, passed, refusals, task, who};

#[test]
fn what_must_not_happen_twice_goes_again_with_the_same_number() {
    let mut story = Story::reached(Config::of("up:1"));
    let (insert, sent) = story.ask(ONCE);
    let first = forwarded(&sent)[0].1.stamp.unwrap();
    assert_eq!((first.sequence, first.acknowledged), (1, 0));
    assert_eq!(story.lose(insert)[0], Effect::Abandon { link: Link(1) });
    let again = forwarded(&story.reach());
    assert_eq!((again[0].0, again[0].1.stamp), (insert, Some(first)));
    assert_eq!(story.answer(insert, None), [passed(insert)]);
    let (_, sent) = story.ask(ONCE);
    let next = forwarded(&sent)[0].1.stamp.unwrap();
    assert_eq!((next.relay, next.sequence, next.acknowledged), (first.relay, 2, 1));
}

#[test]
fn what_may_be_asked_again_is_asked_again_without_a_number() {
    let mut story = Story::reached(Config::of("up:1"));
    let (poll, sent) = story.ask(Kind::Again);
    assert_eq!(forwarded(&sent)[0].1.stamp, None);
    story.lose(poll);
    let (get, sent) = story.ask(Kind::Again);
    assert_eq!(sent, [], "the new one waits");
    let again = story.reach();
    let again: Vec<CallId> = forwarded(&again).into_iter().map(|(call, _)| call).collect();
    assert_eq!(again, [poll, get]);
}

#[test]
fn heartbeats_are_answered_in_a_gap_for_whoever_is_registered() {
    let mut story = Story::registered();
    let (poll, _) = story.ask(Kind::Again);
    let (sent, _) = story.ask(Kind::Heartbeat(who(0, 5)));
    let lost = story.lose(poll);
    assert!(lost.contains(&heartbeat(sent, LIFE)), "{lost:?}");
    let (call, effects) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert!(effects.contains(&heartbeat(call, LIFE)));
    for other in [who(0, 6), who(1, 5)] {
        let (_, effects) = story.ask(Kind::Heartbeat(other));
        assert_eq!(effects, [], "nobody knows it");
    }
    let asked_now = forwarded(&story.reach());
    assert_eq!(asked_now.len(), 3, "the poll, and the heartbeats of unknown tasks");
}

#[test]
fn who_has_left_failed_or_gone_is_not_registered() {
    let leave: [fn(&mut Story); 4] = [
        |story| {
            let (call, _) = story.ask(Kind::Shutdown(task(0)));
            story.answer(call, None);
        },
        |story| {
            let (call, _) = story.ask(Kind::Heartbeat(who(0, 5)));
            story.refuse(call, Code::Aborted);
        },
        |story| drop(story.step(Input::Closed { client: ConnectionId::new(1) })),
        |story| {
            let (call, _) = story.ask_on(2, Kind::Register(who(0, 6)), "");
            story.answer(call, Some(LIFE));
        },
    ];
    for leave in leave {
        let mut story = Story::registered();
        leave(&mut story);
        let (poll, _) = story.ask(Kind::Again);
        story.lose(poll);
        let (call, effects) = story.ask_on(3, Kind::Heartbeat(who(0, 5)), "");
        assert!(!effects.contains(&heartbeat(call, LIFE)), "{effects:?}");
    }
}

#[test]
fn a_registration_is_known_to_later_calls_of_its_connection() {
    let mut story = Story::registered();
    let (_, sent) = story.ask(Kind::Again);
    let forwarding = &forwarded(&sent)[0].1;
    assert_eq!((forwarding.task, forwarding.life), (Some(TaskIndex::new(0)), Some(LIFE)));
    let (_, sent) = story.ask_on(2, Kind::Again, "");
    let forwarding = &forwarded(&sent)[0].1;
    assert_eq!((forwarding.task, forwarding.life), (None, None));
}

#[test]
fn a_server_that_is_silent_is_stood_in_for_but_has_the_last_word() {
    let mut story = Story::registered();
    let (call, _) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert_eq!(story.wait(1_999), []);
    assert_eq!(story.wait(1), [heartbeat(call, LIFE)]);
    assert_eq!(story.wait(60_000), [], "once");
    assert_eq!(story.refuse(call, Code::Aborted), [], "it has its answer");
    let (call, _) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert_eq!(story.wait(10_000), [], "it is registered no more");
    assert_eq!(story.answer(call, Some(LIFE)), [passed(call)]);
}

#[test]
fn another_life_is_told_as_it_is_and_nobody_is_registered_in_it() {
    let mut story = Story::registered();
    let other = ServiceIncarnation::new(78);
    let (call, _) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert_eq!(story.answer(call, Some(other)), [passed(call)]);
    assert!(story.events.contains(&Event::LifeChanged { before: LIFE, now: other }));
    let (poll, _) = story.ask(Kind::Again);
    story.lose(poll);
    let (_, effects) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert_eq!(effects, [], "it waits");
}

#[test]
fn when_patience_ends_everybody_is_told_why() {
    let mut story = Story::registered();
    let calls: Vec<CallId> =
        [Kind::Again, ONCE, BARRIER].into_iter().map(|kind| story.ask(kind).0).collect();
    story.lose(calls[0]);
    story.miss();
    story.wait(599_000);
    let told = refusals(&story.wait(1_000));
    assert_eq!(told.iter().map(|(call, _)| *call).collect::<Vec<_>>(), calls);
    for (_, refused) in told {
        assert_eq!((refused.code, refused.details.len()), (Code::Unavailable, 0));
        for part in ["up:1", "away for 600", "--upstream-patience", "connection refused"] {
            assert!(refused.message.contains(part), "{part} in {}", refused.message);
        }
    }
    let (call, effects) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert_eq!(refusals(&effects)[0].0, call, "heartbeats too");
    story.reach();
    let (call, effects) = story.ask(Kind::Again);
    assert_eq!(forwarded(&effects)[0].0, call, "until the server is back");
}

/// A server that takes calls and answers none is away, however well its connection stands.
#[test]
fn a_server_that_answers_nothing_does_not_stay_hidden() {
    let mut story = Story::registered();
    let (poll, _) = story.ask(Kind::Again);
    let began = story.now;
    let mut told = Vec::new();
    while told.is_empty() && story.now.since(began) < Duration::from_secs(3600) {
        let (call, mut effects) = story.ask(Kind::Heartbeat(who(0, 5)));
        effects.extend(story.wait(2_000));
        let stood_in = effects.contains(&heartbeat(call, LIFE));
        assert_eq!(stood_in, refusals(&effects).is_empty(), "{effects:?}");
        assert_eq!(story.relay.calls_under_way(), 2, "the oldest heartbeat, and the poll");
        told = refusals(&effects);
        effects = story.wait(48_000);
        told.extend(refusals(&effects));
    }
    assert_eq!(told[0].0, poll);
    assert!(told[0].1.message.contains("it takes calls and answers none"), "{told:?}");
    assert_eq!(story.now.since(began), Duration::from_secs(600));
    let (call, effects) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert_eq!(refusals(&effects)[0].0, call, "heartbeats too");
    assert!(story.events.iter().any(|event| matches!(event, Event::GaveUp { .. })));

    // It takes connections anew, and answers nothing on them: clients are told soon.
    story.reach();
    let (call, effects) = story.ask(ONCE);
    assert_eq!(forwarded(&effects)[0].0, call);
    assert_eq!(story.wait(9_999), []);
    assert_eq!(refusals(&story.wait(1))[0].0, call);
    // A server that thousands ask at once after a restart takes longer: it has twice the time.
    story.reach();
    let (call, _) = story.ask(ONCE);
    assert_eq!(story.wait(19_999), []);
    assert_eq!(refusals(&story.wait(1))[0].0, call);
    story.reach();
    let (call, _) = story.ask(ONCE);
    assert_eq!(story.wait(39_999), []);
    assert_eq!(story.answer(call, None), [passed(call)]);
    let (call, _) = story.ask(ONCE);
    assert_eq!(story.wait(599_999), [], "it was back: it has all the time again");
    assert_eq!(refusals(&story.wait(1))[0].0, call);
}

/// It was away for so short a time that no client was told, and then has much to do.
#[test]
fn a_server_that_is_back_before_clients_were_told_has_all_its_time_to_answer() {
    let mut story = Story::registered();
    let (call, _) = story.ask(ONCE);
    story.lose(call);
    assert_eq!(forwarded(&story.reach())[0].0, call);
    assert_eq!(story.wait(599_999), []);
    assert_eq!(story.answer(call, None), [passed(call)]);
}

/// Calls that wait for others say nothing of the server, and any answer shows that it is there.
#[test]
fn a_server_that_answers_something_is_not_given_up() {
    let mut story = Story::registered();
    story.ask(Kind::Again);
    story.ask(BARRIER);
    assert_eq!(story.wait(3_000_000), [], "both may wait for others");
    let (slow, _) = story.ask(ONCE);
    for _ in 0..10 {
        story.wait(300_000);
        let (call, _) = story.ask(Kind::Again);
        assert_eq!(story.answer(call, None), [passed(call)]);
    }
    assert_eq!(story.answer(slow, None), [passed(slow)]);
    let (asked, _) = story.ask(ONCE);
    story.wait(500_000);
    assert_eq!(story.answer(asked, None), [passed(asked)]);
    story.wait(500_000);
    story.ask(ONCE);
    assert_eq!(story.wait(599_000), [], "it was asked nothing in between");
}

/// A server that takes its time holds one heartbeat of a run, however many it was sent.
#[test]
fn the_oldest_heartbeat_stays_with_a_slow_server_and_has_the_last_word() {
    let mut story = Story::registered();
    let (oldest, _) = story.ask(Kind::Heartbeat(who(0, 5)));
    story.wait(2_000);
    let (next, _) = story.ask(Kind::Heartbeat(who(0, 5)));
    let effects = story.wait(2_000);
    assert_eq!(effects, [heartbeat(next, LIFE), Effect::Withdraw { call: next }]);
    assert_eq!(story.relay.calls_under_way(), 1);
    story.refuse(oldest, Code::Aborted);
    let (call, _) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert_eq!(story.wait(10_000), [], "it is registered no more");
    assert_eq!(story.answer(call, Some(LIFE)), [passed(call)]);
}

#[test]
fn a_server_that_is_reached_and_lost_again_and_again_was_not_back() {
    let mut story = Story::reached(Config::of("up:1"));
    let (call, _) = story.ask(Kind::Again);
    let began = story.now;
    story.wait(11_000);
    story.lose(call);
    let refused = loop {
        assert!(story.now.since(began) < Duration::from_secs(3_600), "nobody is told");
        let mut effects = story.reach();
        if refusals(&effects).is_empty() {
            effects = story.lose(call);
        }
        if let Some(refused) = refusals(&effects).pop() {
            break refused;
        }
        let effects = story.wait(500);
        if let Some(refused) = refusals(&effects).pop() {
            break refused;
        }
    };
    assert_eq!(refused.0, call);
    assert!(story.now.since(began) < Duration::from_secs(620), "{:?}", story.now.since(began));
}

#[test]
fn a_call_whose_client_has_gone_is_dropped_unless_it_must_happen_once() {
    let mut story = Story::reached(Config::of("up:1"));
    let (poll, _) = story.ask(Kind::Again);
    assert_eq!(story.step(Input::Cancel { call: poll }), [Effect::Withdraw { call: poll }]);
    let (barrier, _) = story.ask(BARRIER);
    assert_eq!(story.step(Input::Cancel { call: barrier }), []);
    story.lose(barrier);
    let again = forwarded(&story.reach());
    assert_eq!((again[0].0, again[0].1.waits), (barrier, false));
    assert_eq!(story.answer(barrier, None), [], "nobody waits for it");
    assert_eq!(story.relay.calls_under_way(), 0);
}

#[test]
fn refusals_pass_and_only_those_of_the_way_do_not() {
    let mut story = Story::reached(Config::of("up:1"));
    let (call, _) = story.ask(ONCE);
    let told = refusals(&story.refuse(call, Code::Unavailable));
    assert_eq!((told[0].0, &told[0].1.details[..]), (call, &b"details"[..]));
    for code in [Code::ResourceExhausted, Code::Unimplemented, Code::Internal] {
        let (call, _) = story.ask(ONCE);
        let status = Status::new(code, "too long");
        let told = story.step(Input::Failed { call, link: Link(1), status });
        assert_eq!(refusals(&told)[0].1.code, code);
    }
    let (call, _) = story.ask(ONCE);
    let status = Status::new(Code::Unavailable, "late news");
    let told = story.step(Input::Failed { call, link: Link(0), status });
    assert_eq!(told, [], "another way has failed");
}

#[test]
fn a_relay_that_ends_lets_what_must_happen_once_come_to_its_end() {
    let mut story = Story::reached(Config::of("up:1"));
    let (poll, _) = story.ask(Kind::Again);
    let (insert, _) = story.ask(ONCE);
    let told = story.step(Input::Stop);
    assert_eq!(refusals(&told)[0].0, poll);
    assert!(told.contains(&Effect::Withdraw { call: poll }));
    let (late, told) = story.ask(ONCE);
    assert_eq!(refusals(&told)[0].0, late);
    assert_eq!(story.answer(insert, None), [passed(insert)]);
    assert_eq!(story.relay.calls_under_way(), 0);
}

/// The pauses before each of the next attempts to reach a server that is away, in milliseconds.
fn pauses(story: &mut Story, attempts: usize, entropy: u64) -> Vec<u64> {
    let mut pauses = Vec::new();
    for _ in 0..attempts {
        let began = story.now;
        if !story.is_trying() {
            let (at, wake) = story.relay.deadline().expect("it looks for the server");
            assert_eq!(wake, Wake::Reach);
            story.now = at;
            story.step(Input::Tick);
        }
        pauses.push(story.now.since(began).as_millis());
        story.fail(entropy);
    }
    pauses
}

#[test]
fn attempts_to_reach_the_server_come_ever_less_often_and_not_all_at_once() {
    let mut story = Story::new(Config::of("up:1"));
    assert_eq!(pauses(&mut story, 8, 0), [0, 50, 100, 200, 400, 800, 1000, 1000]);
    let mut story = Story::new(Config::of("up:1"));
    let longest = pauses(&mut story, 8, 999_999_999);
    assert_eq!(longest, [0, 62, 124, 249, 499, 999, 1249, 1249], "a quarter more");
}

/// A server that accepts connections and answers nothing is still the same outage.
#[test]
fn attempts_are_frequent_again_only_after_an_answer() {
    let mut story = Story::new(Config::of("up:1"));
    pauses(&mut story, 7, 0);
    let (call, _) = story.ask(Kind::Again);
    story.reach();
    story.lose(call);
    assert_eq!(pauses(&mut story, 2, 0), [1000, 1000]);
    story.reach();
    let (other, _) = story.ask(Kind::Again);
    story.answer(other, None);
    story.lose(call);
    assert_eq!(pauses(&mut story, 4, 0), [0, 50, 100, 200]);
}

/// The server has answered while the relay's process was stopped, and the answer waits in the socket.
#[test]
fn a_relay_that_was_held_up_itself_gives_the_server_that_time() {
    let mut story = Story::registered();
    story.ask(Kind::Again);
    let (beat, _) = story.ask(Kind::Heartbeat(who(0, 5)));
    story.stand_still(700_000);
    let effects = story.step(Input::Tick);
    let abandons =
        |effects: &[Effect]| effects.iter().any(|it| matches!(it, Effect::Abandon { .. }));
    assert!(!abandons(&effects) && refusals(&effects).is_empty(), "{effects:?}");
    story.answer(beat, Some(LIFE));
    // The next silence counts from then.
    story.ask(Kind::Heartbeat(who(0, 5)));
    let effects = story.wait(599_000);
    assert!(!abandons(&effects), "{effects:?}");
    assert!(abandons(&story.wait(2_000)));
}

/// The same while the server is away: clients are told so no sooner than after the patience in which the
/// relay could look for it.
#[test]
fn a_relay_that_was_held_up_itself_looks_for_the_server_before_it_gives_up() {
    let mut story = Story::registered();
    let (poll, _) = story.ask(Kind::Again);
    story.lose(poll);
    story.stand_still(700_000);
    let effects = story.step(Input::Tick);
    assert!(refusals(&effects).is_empty(), "{effects:?}");
}

/// The same while it tries to reach the server and nobody waits: heartbeats that come when the relay goes
/// on are answered, not refused.
#[test]
fn a_relay_that_was_held_up_during_a_try_with_nobody_waiting_answers_heartbeats() {
    let mut story = Story::registered();
    let (poll, _) = story.ask(Kind::Again);
    story.lose(poll);
    story.step(Input::Cancel { call: poll });
    assert_eq!(story.relay.calls_under_way(), 0);
    story.stand_still(700_000);
    let (_, effects) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert!(refusals(&effects).is_empty(), "{effects:?}");
    // An outage in which the relay is awake ends after its patience all the same.
    story.wait(601_000);
    let (_, effects) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert_eq!(refusals(&effects).len(), 1, "{effects:?}");
}

/// The same while the server is back and has answered nothing yet, when the connection turns out broken.
#[test]
fn an_outage_that_goes_on_after_a_hold_up_gets_that_time_back() {
    let mut story = Story::registered();
    let (poll, _) = story.ask(Kind::Again);
    story.lose(poll);
    story.wait(1_000);
    story.reach();
    let (call, _) = story.ask(Kind::Heartbeat(who(0, 6)));
    story.stand_still(700_000);
    let effects = story.lose(call);
    assert!(refusals(&effects).is_empty(), "{effects:?}");
}

#[test]
fn a_call_that_asks_who_is_alive_is_withdrawn_when_its_client_gives_it_up() {
    let mut story = Story::registered();
    let (call, sent) = story.ask(Kind::Alive);
    assert!(forwarded(&sent)[0].1.stamp.is_some(), "its answer is given once");
    assert_eq!(story.step(Input::Cancel { call }), [Effect::Withdraw { call }]);
    assert_eq!(story.relay.calls_under_way(), 0);
    let (_, sent) = story.ask(Kind::Alive);
    let stamp = forwarded(&sent)[0].1.stamp.unwrap();
    assert_eq!((stamp.sequence, stamp.acknowledged), (2, 1));
}

/// The server learns which process of a task a connection belongs to, also from a relay that began anew.
#[test]
fn a_call_goes_as_of_the_process_that_its_connection_belongs_to() {
    let mut story = Story::reached(Config::of("up:1"));
    let process = |story: &mut Story, client, kind| {
        let sent = forwarded(&story.ask_on(client, kind, "message").1);
        let sent = &sent[0].1;
        (sent.task.map(TaskIndex::get), sent.incarnation.map(|it| it.get()))
    };
    assert_eq!(process(&mut story, 1, BARRIER), (None, None));
    assert_eq!(process(&mut story, 1, Kind::Heartbeat(who(3, 50))), (Some(3), Some(50)));
    assert_eq!(process(&mut story, 1, BARRIER), (Some(3), Some(50)));
    assert_eq!(process(&mut story, 2, Kind::Heartbeat(who(3, 51))), (Some(3), Some(51)));
    assert_eq!(process(&mut story, 1, BARRIER), (Some(3), Some(50)), "still the former process");
    assert_eq!(process(&mut story, 2, Kind::Register(who(3, 52))), (Some(3), Some(52)));
    assert_eq!(process(&mut story, 2, BARRIER), (Some(3), Some(52)), "the run that came last");
    assert_eq!(
        process(&mut story, 2, Kind::Heartbeat(who(4, 60))),
        (None, None),
        "several on one connection"
    );
}

/// A connection that breaks, and a server that starts or ends, give a call one of these codes. None is the
/// service's answer.
#[test]
fn a_call_goes_again_after_each_code_of_the_way() {
    for code in [Code::Unavailable, Code::Cancelled, Code::Unknown, Code::DeadlineExceeded] {
        let mut story = Story::reached(Config::of("up:1"));
        let (barrier, _) = story.ask(BARRIER);
        let effects = story.lose_with(barrier, code);
        assert!(refusals(&effects).is_empty(), "{code:?}: {effects:?}");
        let again = forwarded(&story.reach());
        assert_eq!(again.len(), 1, "{code:?}");
        assert_eq!(story.answer(barrier, None), [passed(barrier)], "{code:?}");
    }
}

#[test]
fn a_refused_shutdown_of_a_former_process_forgets_no_successor() {
    let mut story = Story::registered();
    let (call, _) = story.ask_on(2, Kind::Register(who(0, 6)), "");
    story.answer(call, Some(LIFE));
    let (late, sent) = story.ask_on(1, Kind::Shutdown(task(0)), "");
    assert_eq!(forwarded(&sent)[0].1.incarnation.map(|it| it.get()), Some(5));
    story.refuse(late, Code::Aborted);
    let (poll, _) = story.ask(Kind::Again);
    story.lose(poll);
    let (call, effects) = story.ask_on(2, Kind::Heartbeat(who(0, 6)), "");
    assert!(effects.contains(&heartbeat(call, LIFE)), "{effects:?}");
}
