//! Everything is bounded, and who hits a bound is told which.

use rondo_core::ids::CallId;
use rondo_core::relay::{Config, Effect, Input, Kind, Link};
use rondo_core::status::Code;

use crate::story::{BARRIER, ONCE, Story, forwarded, refusals, who};

#[test]
fn bounds_are_named_and_do_not_touch_others() {
    type Lower = fn(&mut Config);
    let bounds: [(Lower, &str); 4] = [
        (|config| config.clients_max = 1, "--clients-max"),
        (|config| config.calls_per_client_max = 1, "--calls-per-client-max"),
        (|config| config.calls_max = 1, "--calls-max"),
        (|config| config.held_bytes_max = 10, "--held-size-max"),
    ];
    for (lower, name) in bounds {
        let mut config = Config::of("up:1");
        lower(&mut config);
        let mut story = Story::reached(config);
        let (first, _) = story.ask(Kind::Again);
        let other = if name == "--clients-max" { 2 } else { 1 };
        let (second, effects) = story.ask_on(other, Kind::Again, "message");
        let told = refusals(&effects);
        assert_eq!((told[0].0, told[0].1.code), (second, Code::ResourceExhausted));
        assert!(told[0].1.message.contains(name), "{}", told[0].1.message);
        story.answer(first, None);
        let (third, effects) = story.ask(Kind::Again);
        assert_eq!(forwarded(&effects)[0].0, third, "there is room again");
    }
}

#[test]
fn whoever_asks_too_much_cannot_keep_tasks_from_showing_that_they_live() {
    let mut config = Config::of("up:1");
    config.calls_max = 10;
    config.calls_per_client_max = 10;
    config.clients_max = 2;
    let mut story = Story::reached(config);
    let mut refused = 0;
    for _ in 0..20 {
        refused += refusals(&story.ask(Kind::Again).1).len();
    }
    assert_eq!(refused, 10);
    for client in [1, 2] {
        let (heartbeat, effects) = story.ask_on(client, Kind::Heartbeat(who(0, 5)), "");
        assert_eq!(forwarded(&effects)[0].0, heartbeat);
    }
    let (_, effects) = story.ask_on(2, Kind::Heartbeat(who(0, 5)), "");
    assert_eq!(refusals(&effects)[0].1.code, Code::ResourceExhausted, "within bounds too");
}

/// The server keeps each result until it is acknowledged, and one barrier may last for hours.
#[test]
fn a_call_that_waits_for_others_keeps_no_results_of_the_rest() {
    let mut story = Story::reached(Config::of("up:1"));
    story.ask(BARRIER);
    let (insert, _) = story.ask(ONCE);
    story.answer(insert, None);
    let sent = forwarded(&story.ask(ONCE).1);
    let stamp = sent[0].1.stamp.unwrap();
    assert_eq!((stamp.sequence, stamp.acknowledged), (2, 1));
}

#[test]
fn many_calls_are_sent_and_refused_in_slices() {
    let mut story = Story::new(Config::of("up:1"));
    let calls: Vec<CallId> = (0..1000).map(|_| story.ask(Kind::Again).0).collect();
    let mut sent = forwarded(&story.step(Input::Reached { link: Link(1) }));
    assert_eq!(sent.len(), 256);
    for _ in 0..3 {
        sent.extend(forwarded(&story.wait(0)));
    }
    assert_eq!(sent.iter().map(|(call, _)| *call).collect::<Vec<_>>(), calls);
    story.lose(calls[0]);
    let mut told = refusals(&story.wait(600_000));
    assert_eq!(told.len(), 256);
    for _ in 0..3 {
        told.extend(refusals(&story.wait(0)));
    }
    assert_eq!(story.relay.calls_under_way(), 0);
}

#[test]
fn whatever_does_not_fit_does_nothing() {
    let mut story = Story::new(Config::of("up:1"));
    let nobody = CallId::new(99);
    let reach = story.wait(0);
    assert_eq!(reach, [Effect::Reach { link: Link(1) }]);
    assert_eq!(story.step(Input::Reached { link: Link(7) }), []);
    assert_eq!(story.answer(nobody, None), []);
    assert_eq!(story.lose(nobody), []);
    assert_eq!(story.step(Input::Cancel { call: nobody }), []);
    assert_eq!(story.step(Input::Tick), []);
    story.step(Input::Reached { link: Link(1) });
    let twice = Input::Unreachable { link: Link(1), reason: "no".into(), entropy: 0 };
    assert_eq!(story.step(twice), []);
    let (call, effects) = story.ask(Kind::Again);
    assert_eq!(forwarded(&effects)[0].0, call);
}
