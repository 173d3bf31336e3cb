//! Everything is bounded, and who hits a bound is told which.

use bytes::Bytes;
use rondo_core::ids::{CallId, ConnectionId};
use rondo_core::relay::{Config, Effect, Host, Input, Kind, Link};
use rondo_core::status::Code;

use crate::story::{BARRIER, LIFE, ONCE, Story, forwarded, heartbeat, refusals, task, who};

/// A message that no client may have in any case.
fn message() -> Bytes {
    Bytes::from(vec![7; 5 << 10])
}

#[test]
fn bounds_are_named_and_do_not_touch_others() {
    type Lower = fn(&mut Config);
    let bounds: [(Lower, &str); 4] = [
        (|config| config.clients_max = 1, "--clients-max"),
        (|config| config.calls_per_client_max = 5, "--calls-per-client-max"),
        (|config| config.calls_max = 5, "--calls-max"),
        (|config| config.held_bytes_max = 20_000, "--held-size-max"),
    ];
    for (lower, name) in bounds {
        let mut config = Config::of("up:1");
        lower(&mut config);
        let mut story = Story::reached(config);
        let (first, _) = story.ask(Kind::Again);
        let other = if name == "--clients-max" { 2 } else { 1 };
        let told = (0..10).find_map(|_| {
            let (call, effects) = story.ask_on(other, Kind::Again, message());
            let (refused, told) = refusals(&effects).pop()?;
            assert_eq!((refused, told.code), (call, Code::ResourceExhausted));
            Some(told.message)
        });
        let told = told.unwrap();
        assert!(told.contains(name), "{told}");
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
    config.held_bytes_max = 30_000;
    config.clients_max = 10;
    let mut story = Story::reached(config);
    let mut refused = 0;
    for _ in 0..20 {
        refused += refusals(&story.ask_on(1, Kind::Again, message()).1).len();
    }
    assert_eq!(refused, 15);
    for client in [1, 2] {
        for _ in 0..4 {
            let (heartbeat, effects) = story.ask_on(client, Kind::Heartbeat(who(0, 5)), "");
            assert_eq!(forwarded(&effects)[0].0, heartbeat);
        }
    }
    // Also what others ask for.
    for _ in 0..4 {
        let (call, effects) = story.ask_on(2, Kind::Again, "short");
        assert_eq!(forwarded(&effects)[0].0, call);
    }
    for kind in [Kind::Heartbeat(who(0, 5)), Kind::Again] {
        let (_, effects) = story.ask_on(2, kind, "");
        assert_eq!(refusals(&effects)[0].1.code, Code::ResourceExhausted, "within bounds too");
    }
}

/// A relay of ten calls and six clients: it may have 16 calls, and two of each client beside them.
fn small() -> Story {
    let mut config = Config::of("up:1");
    (config.calls_max, config.clients_max) = (10, 6);
    Story::reached(config)
}

/// A task registers on a connection, and the server confirms that.
fn register(story: &mut Story, client: u64, index: i32) {
    let (call, _) = story.ask_on(client, Kind::Register(who(index, 5)), "");
    story.answer(call, Some(LIFE));
}

/// Five clients ask for as much of these kinds as the relay takes.
fn beset(story: &mut Story, kinds: &[Kind]) {
    for client in 1..6 {
        for kind in kinds.iter().cycle().take(50) {
            story.ask_on(client, kind.clone(), "");
        }
    }
    let told = refusals(&story.ask_on(6, Kind::Again, "").1);
    let text = &told.first().expect("all room is taken").1.message;
    for part in ["at most 16 calls", "--calls-max and --clients-max", "this would be 17"] {
        assert!(text.contains(part), "{text}");
    }
}

/// 256 clients with four calls each took the room of everybody's heartbeats.
#[test]
fn clients_together_cannot_take_the_room_of_another_ones_heartbeat() {
    let mine = || Kind::Heartbeat(who(1, 5));
    let theirs = |kind: fn(_) -> Kind| (10..20).map(move |index| kind(who(index, 5)));
    let leave = Kind::Shutdown(task(9));
    let of_tasks: Vec<_> =
        theirs(Kind::Register).chain(theirs(Kind::Heartbeat)).chain([leave.clone()]).collect();
    let every = [of_tasks, vec![ONCE, BARRIER, Kind::Again]].concat();
    for kinds in [every, vec![leave, ONCE]] {
        let mut story = small();
        register(&mut story, 6, 1);
        beset(&mut story, &kinds);
        for _ in 0..3 {
            let (heartbeat, effects) = story.ask_on(6, mine(), "");
            assert_eq!(forwarded(&effects)[0].0, heartbeat);
            for other in [mine(), Kind::Shutdown(task(1))] {
                let (_, effects) = story.ask_on(6, other, "");
                assert_eq!(refusals(&effects).len(), 1, "one of a client has room of its own");
            }
            story.answer(heartbeat, None);
        }
        // The server is slow: the relay answers by itself, and the next heartbeat has room too.
        for _ in 0..3 {
            let (call, _) = story.ask_on(6, mine(), "");
            assert!(story.wait(2500).contains(&heartbeat(call, LIFE)));
        }
    }
}

/// Processes that share a connection: one waits for the others to leave, or the server is slow.
#[test]
fn heartbeats_of_several_tasks_of_a_connection_have_room_one_at_a_time() {
    let mut story = small();
    (1..=5).for_each(|index| register(&mut story, 6, index));
    for index in 1..=4 {
        let (_, effects) = story.ask_on(6, Kind::Shutdown(task(index)), "");
        assert_eq!(forwarded(&effects).len(), 1);
    }
    beset(&mut story, &[Kind::Again]);
    for _ in 0..3 {
        for index in 1..=5 {
            let (call, effects) = story.ask_on(6, Kind::Heartbeat(who(index, 5)), "");
            assert_eq!(forwarded(&effects)[0].0, call);
            assert!(story.wait(2500).contains(&heartbeat(call, LIFE)));
        }
    }
}

/// A server takes so many calls of one relay, and no more.
#[test]
fn all_calls_of_a_relay_together_have_a_bound() {
    let mut story = small();
    for client in 1..=6 {
        (0..4).for_each(|index| register(&mut story, client, 10 * client as i32 + index));
    }
    beset(&mut story, &[Kind::Again]);
    for index in [0, 1, 2, 3, 0, 1] {
        for client in 1..=6 {
            let (_, effects) =
                story.ask_on(client, Kind::Heartbeat(who(10 * client as i32 + index, 5)), "");
            assert!(refusals(&effects).is_empty());
        }
        assert!(story.relay.calls_under_way() <= 10 + 3 * 6, "{}", story.relay.calls_under_way());
        story.wait(2500);
    }
}

/// A connection that is closed leaves nothing behind that the relay has answered.
#[test]
fn heartbeats_of_closed_connections_are_taken_back() {
    let mut story = small();
    for client in 1..100 {
        register(&mut story, client, 1);
        let (call, _) = story.ask_on(client, Kind::Heartbeat(who(1, 5)), "");
        assert!(story.wait(2500).contains(&heartbeat(call, LIFE)));
        assert_eq!(story.relay.calls_under_way(), 1, "the server has the last word");
        let effects = story.step(Input::Closed { client: ConnectionId::new(client) });
        assert_eq!(effects, [Effect::Withdraw { call }]);
        assert_eq!(story.relay.calls_under_way(), 0);
    }
}

#[test]
fn a_long_registration_has_no_room_of_its_own() {
    let mut config = Config::of("up:1");
    config.held_bytes_max = 10 << 10;
    let mut story = Story::reached(config);
    story.ask_on(1, Kind::Again, vec![7; 6 << 10]);
    let (_, effects) = story.ask_on(2, Kind::Register(who(1, 5)), vec![7; 5 << 10]);
    assert!(refusals(&effects)[0].1.message.contains("--held-size-max"));
    let (call, effects) = story.ask_on(2, Kind::Register(who(1, 5)), vec![7; 4 << 10]);
    assert_eq!(forwarded(&effects)[0].0, call);
}

/// Room that a client does not use again, since it has left, is no room for others.
#[test]
fn the_room_of_a_client_that_has_left_is_given_back() {
    let mut story = small();
    register(&mut story, 6, 1);
    beset(&mut story, &[Kind::Again]);
    let (call, _) = story.ask_on(6, Kind::Register(who(1, 6)), "");
    story.step(Input::Closed { client: ConnectionId::new(6) });
    story.step(Input::Cancel { call });
    let (call, effects) = story.ask_on(7, Kind::Register(who(1, 7)), "");
    assert_eq!(forwarded(&effects)[0].0, call);
    assert_eq!(refusals(&story.ask_on(7, Kind::Again, "").1).len(), 1);
}

/// A relay carries on with an insertion when its client leaves. The client may connect again.
#[test]
fn calls_of_clients_who_have_left_have_a_bound() {
    let mut config = Config::of("up:1");
    config.calls_max = 10;
    config.clients_max = 5;
    let mut story = Story::reached(config);
    let mut taken = 0;
    for client in 1..20 {
        for _ in 0..4 {
            let (call, effects) = story.ask_on(client, ONCE, "short");
            taken += usize::from(refusals(&effects).is_empty());
            story.step(Input::Cancel { call });
        }
        story.step(Input::Closed { client: ConnectionId::new(client) });
    }
    assert_eq!(taken, 15);
}

/// A relay counts heartbeats as it counts other calls.
#[test]
fn a_client_cannot_take_all_calls_by_calls_of_tasks() {
    let mut story = Story::reached(Config::of("up:1"));
    let mut refused = 0;
    for client in [1, 2, 3] {
        for _ in 0..3000 {
            let (_, effects) = story.ask_on(client, Kind::Heartbeat(who(0, 5)), "");
            refused += refusals(&effects).len();
        }
    }
    assert_eq!(9000 - refused, 1250 + 626 + 314, "one call of each has room of its own");
    let (call, effects) = story.ask_on(4, Kind::Again, message());
    assert_eq!(forwarded(&effects)[0].0, call);
}

/// Asks so many times on a client's connection. How many calls the relay takes, and why it refuses the last.
fn taken(story: &mut Story, client: u64, count: usize, message: &Bytes) -> (usize, String) {
    let ask = |_| refusals(&story.ask_on(client, Kind::Again, message.clone()).1);
    let refused: Vec<_> = (0..count).flat_map(ask).collect();
    assert!(refused.iter().all(|(_, told)| told.code == Code::ResourceExhausted));
    let (_, last) = refused.last().expect("a client has a share");
    (count - refused.len(), last.message.clone())
}

/// Two could take all calls, and everybody else was refused until they left.
#[test]
fn each_client_may_have_as_many_calls_as_are_free() {
    let mut story = Story::reached(Config::of("up:1"));
    let mut taken = |client| taken(&mut story, client, 3000, &Bytes::new());
    let (first, told) = taken(1);
    assert_eq!(first, 1250);
    assert!(told.contains("--calls-per-client-max"), "{told}");
    let (second, told) = taken(2);
    assert_eq!(second, 625);
    for part in ["2500 calls (--calls-max)", "625 of these are free", "would have 626"] {
        assert!(told.contains(part), "{told}");
    }
    let others = [3, 4, 5, 6, 7, 8, 9, 10, 11].map(|client| taken(client).0);
    assert_eq!(others, [313, 156, 78, 39, 20, 10, 5, 4, 4], "each has four in any case");
    let (heartbeat, effects) = story.ask_on(12, Kind::Heartbeat(who(0, 5)), "");
    assert_eq!(forwarded(&effects)[0].0, heartbeat);
}

const MIB: usize = 1 << 20;

/// A relay that holds 8 MiB of messages at most.
fn of_eight_mib() -> Story {
    let mut config = Config::of("up:1");
    config.held_bytes_max = 8 * MIB as u64;
    Story::reached(config)
}

#[test]
fn each_client_may_hold_as_many_bytes_as_are_free() {
    let mut story = of_eight_mib();
    let message = Bytes::from(vec![7; MIB]);
    let mut taken = |client| {
        let (taken, told) = taken(&mut story, client, 20, &message);
        assert!(told.contains("--held-size-max"), "{told}");
        taken
    };
    assert_eq!([1, 2, 3].map(&mut taken), [4, 2, 1]);
    assert_eq!(taken(4), 1);
    assert_eq!(taken(5), 0, "all are held");
    let (call, effects) = story.ask_on(5, Kind::Again, "short");
    assert_eq!(forwarded(&effects)[0].0, call);
}

/// Only long messages are refused for the sake of others.
#[test]
fn a_client_with_a_long_message_goes_on_with_short_ones() {
    let mut story = of_eight_mib();
    story.ask_on(1, Kind::Again, Bytes::from(vec![7; 7 * MIB]));
    for _ in 0..10 {
        let (call, effects) = story.ask_on(1, Kind::Again, Bytes::from(vec![7; 64 << 10]));
        assert_eq!(forwarded(&effects)[0].0, call);
    }
    let (_, effects) = story.ask_on(1, Kind::Again, Bytes::from(vec![7; 65 << 10]));
    let told = &refusals(&effects)[0].1.message;
    assert!(told.contains("wait for its calls to end"), "{told}");
}

/// An agent has no clients beside its own process.
#[test]
fn an_agent_has_all_calls_for_itself() {
    let config = Config { host: Host::Client, calls_per_client_max: 2500, ..Config::of("up:1") };
    let mut story = Story::reached(config);
    for _ in 0..2500 {
        assert!(refusals(&story.ask(Kind::Again).1).is_empty());
    }
    assert_eq!(refusals(&story.ask(Kind::Again).1).len(), 1);
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
