//! Servers that come back and answer nothing, and processes of one task whose answers swap.

use rondo_core::relay::{Config, Event, Input, Kind};
use rondo_core::status::Code;
use rondo_core::time::Duration;

use crate::story::{LIFE, ONCE, Story, heartbeat, passed, refusals, task, who};

const HOUR: Duration = Duration::from_secs(3_600);

/// The server was given up, and its second connection has twenty seconds to show that it answers.
fn on_the_second_trial() -> Story {
    let mut story = Story::registered();
    story.ask(Kind::Again);
    story.ask(Kind::Heartbeat(who(0, 5)));
    assert!(!refusals(&story.wait(600_000)).is_empty(), "given up");
    story.reach();
    let (call, _) = story.ask(ONCE);
    story.wait(9_999);
    assert_eq!(refusals(&story.wait(1))[0].0, call, "ten seconds of trial");
    story.reach();
    story
}

#[test]
fn a_server_whose_connection_breaks_while_it_is_on_trial_was_not_back() {
    let mut story = on_the_second_trial();
    let (call, _) = story.ask(ONCE);
    story.wait(15_000);
    let mut effects = story.lose(call);
    let (beat, more) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert!(
        !more.contains(&heartbeat(beat, LIFE)),
        "it has answered nothing since it was given up"
    );
    effects.extend(more);
    let began = story.now;
    while refusals(&effects).is_empty() && story.now.since(began) < HOUR {
        effects.extend(story.wait(1_000));
    }
    let waited = story.now.since(began);
    assert!(waited < Duration::from_secs(60), "the caller waited {waited:?} more");
    assert!(story.events.iter().any(|it| matches!(it, Event::GaveUp { .. })));
}

#[test]
fn who_waits_for_a_server_on_trial_is_told_what_it_does_now() {
    let mut story = Story::registered();
    let (poll, _) = story.ask(Kind::Again);
    story.lose(poll);
    let told = refusals(&story.wait(600_000));
    assert!(told[0].1.message.contains("connection reset"), "{told:?}");
    story.reach();
    let (call, _) = story.ask(ONCE);
    let told = refusals(&story.wait(10_000));
    assert_eq!(told[0].0, call);
    assert!(told[0].1.message.contains("it takes calls and answers none"), "{told:?}");
}

/// The relay's process stood still while the first call on a new connection was under way.
#[test]
fn a_server_that_has_answered_nothing_yet_gets_the_time_of_a_hold_up_back() {
    let mut story = Story::reached(Config::of("up:1"));
    let (call, _) = story.ask(ONCE);
    story.stand_still(700_000);
    assert_eq!(story.step(Input::Tick), []);
    assert_eq!(story.answer(call, None), [passed(call)]);
}

/// It was away for too short a time to tell clients, came back, and answered nothing.
#[test]
fn an_outage_of_which_nobody_was_told_makes_no_trial_longer() {
    let mut story = Story::registered();
    let (call, _) = story.ask(ONCE);
    story.lose(call);
    story.reach();
    assert_eq!(refusals(&story.wait(600_000))[0].0, call);
    story.reach();
    let (call, _) = story.ask(ONCE);
    assert_eq!(story.wait(9_999), []);
    assert_eq!(refusals(&story.wait(1))[0].0, call, "ten seconds, not twenty");
}

/// Each connection lasts 15 s and brings no answer.
#[test]
fn a_server_that_answers_nothing_on_short_connections_does_not_stay_hidden() {
    let mut story = Story::registered();
    story.ask(Kind::Again);
    let (insert, _) = story.ask(ONCE);
    let began = story.now;
    let mut told = Vec::new();
    while told.is_empty() && story.now.since(began) < HOUR {
        told.extend(refusals(&story.wait(15_000)));
        told.extend(refusals(&story.lose(insert)));
        let (beat, effects) = story.ask(Kind::Heartbeat(who(0, 5)));
        told.extend(refusals(&effects));
        if effects.contains(&heartbeat(beat, LIFE)) && told.is_empty() {
            told.extend(refusals(&story.reach()));
        }
    }
    let waited = story.now.since(began);
    assert!(waited < Duration::from_secs(700), "after {waited:?} nobody was told");
}

/// The successor's registration was sent after the former process's ShutdownTask; the two answers
/// come in the other order, as those of two streams may.
#[test]
fn an_answered_shutdown_of_a_former_process_forgets_no_successor() {
    let mut story = Story::registered();
    let (leaves, _) = story.ask_on(1, Kind::Shutdown(task(0)), "");
    let (comes, _) = story.ask_on(2, Kind::Register(who(0, 6)), "");
    assert_eq!(story.answer(comes, Some(LIFE)), [passed(comes)]);
    assert_eq!(story.answer(leaves, Some(LIFE)), [passed(leaves)]);
    let (poll, _) = story.ask(Kind::Again);
    story.lose_with(poll, Code::Unavailable);
    let (call, effects) = story.ask_on(2, Kind::Heartbeat(who(0, 6)), "");
    assert!(effects.contains(&heartbeat(call, LIFE)), "{effects:?}");
}

/// The service refuses to take its leave, as while it is in error; its process goes all the same.
#[test]
fn a_task_whose_shutdown_is_refused_is_not_said_to_live() {
    let mut story = Story::registered();
    let (leaves, _) = story.ask(Kind::Shutdown(task(0)));
    story.refuse(leaves, Code::Aborted);
    let (poll, _) = story.ask(Kind::Again);
    story.lose(poll);
    let (call, effects) = story.ask(Kind::Heartbeat(who(0, 5)));
    assert!(!effects.contains(&heartbeat(call, LIFE)), "{effects:?}");
}
