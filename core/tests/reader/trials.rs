//! Workers that failed a reader by split: those that are back serve again, and those that are gone cost
//! little.

mod silent;
mod turns;

use std::collections::BTreeMap;

use bytes::Bytes;
use rondo_core::ids::TaskId;
use rondo_core::reader::{Answer, BySplit, Config, Input, Records, RpcId, Way};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use crate::actor::Actor;
use crate::server::Server;

/// A reader, a dispatcher that answers at once, and workers that serve each message in so long, and so many
/// messages of a split. Calls to the workers in `gone` fail, after so long.
struct World {
    actor: Actor,
    server: Server,
    now: Time,
    serve: Duration,
    messages: u64,
    gone: BTreeMap<String, Duration>,
    since: BTreeMap<RpcId, Time>,
    /// When splits were read of workers, and when calls failed.
    served: Vec<(String, Time)>,
    failed: Vec<(String, Time)>,
}

const START: Time = Time::from_millis(5);

impl World {
    fn new(names: &[&str], streams: usize, serve: Duration) -> Self {
        let way = BySplit { streams, ..BySplit::default() };
        let mut server = Server::new(20_000);
        let tasks = names.iter().zip(4000..);
        server.tasks.extend(tasks.map(|(name, id)| ((*name).to_owned(), TaskId::new(id))));
        Self {
            actor: Actor::new(Config::of(Way::BySplit(way)), 0),
            server,
            now: START,
            serve,
            messages: 1,
            gone: BTreeMap::new(),
            since: BTreeMap::new(),
            served: Vec::new(),
            failed: Vec::new(),
        }
    }

    fn answer(&mut self, rpc: RpcId, result: Result<Answer, Status>) {
        self.actor.step(self.now, Input::Answered { rpc, result, entropy: 3 });
    }

    /// Lets time pass in steps of 10 ms.
    fn pass(&mut self, span: Duration) {
        let until = self.now.after(span);
        while self.now < until {
            self.actor.step(self.now, Input::Tick);
            self.actor.want(self.now, 100);
            self.actor.consume(self.now, 100);
            while !self.actor.asks.is_empty() {
                let (rpc, request) = self.actor.asks.remove(0);
                let result = self.server.take(&request);
                self.answer(rpc, result);
            }
            let streams = self.actor.streams.iter();
            let streams: Vec<_> = streams
                .map(|(rpc, it)| (*rpc, it.address.trim_end_matches("/r").to_owned()))
                .collect();
            for (rpc, name) in streams {
                self.serve(rpc, name);
            }
            self.now = self.now.after(Duration::from_millis(10));
        }
    }

    fn serve(&mut self, rpc: RpcId, name: String) {
        if !self.actor.streams[&rpc].asked {
            return;
        }
        let since = *self.since.entry(rpc).or_insert(self.now);
        let (took, failure) = (self.now.since(since), self.gone.get(&name));
        if failure.is_some_and(|after| took >= *after) {
            self.failed.push((name, self.now));
            self.actor.streams.remove(&rpc);
            self.answer(rpc, Err(Status::new(Code::Unavailable, "connection refused")));
        } else if failure.is_none() && took >= self.serve {
            self.served.push((name, self.now));
            let records = Bytes::from(vec![7; 10]);
            self.since.remove(&rpc);
            let stream = self.actor.streams.get_mut(&rpc).unwrap();
            let first = stream.next;
            (stream.asked, stream.next) = (false, first + 1);
            let is_last = stream.next == self.messages;
            let next = Records { first, count: 1, records, is_last, skipped: Vec::new() };
            self.answer(rpc, Ok(Answer::Records(next)));
        }
    }

    /// Lets time pass until a worker is read from.
    fn await_stream_of(&mut self, name: &str) {
        let address = format!("{name}/r");
        let until = self.now.after(seconds(300));
        while self.actor.streams.values().all(|it| *it.address != *address) {
            assert!(self.now < until, "nothing is read of {name}");
            self.pass(Duration::from_millis(10));
        }
    }

    /// The connection to a worker breaks, and with it all its streams.
    fn disconnect(&mut self, name: &str) {
        let address = format!("{name}/r");
        let streams = self.actor.streams.iter().filter(|(_, it)| *it.address == *address);
        let streams: Vec<RpcId> = streams.map(|(rpc, _)| *rpc).collect();
        assert!(!streams.is_empty(), "{name} is read from");
        for rpc in streams {
            self.actor.streams.remove(&rpc);
            self.answer(rpc, Err(Status::new(Code::Unavailable, "the connection is broken")));
        }
    }

    /// Hosts that are switched off: calls to them fail after 20 s.
    fn switch_off(&mut self, names: &[&str]) {
        self.gone.extend(names.iter().map(|name| ((*name).to_owned(), seconds(20))));
    }

    fn served_since(&self, name: &str, since: Time) -> usize {
        self.served.iter().filter(|(of, at)| of == name && *at >= since).count()
    }
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_worker_that_is_back_serves_again_within_seconds() {
    let mut world = World::new(&["a", "b", "c"], 3, Duration::from_millis(20));
    world.pass(seconds(1));
    world.gone.insert("b".to_owned(), Duration::ZERO);
    world.pass(seconds(20));
    assert!(world.failed.len() < 40, "{} calls failed", world.failed.len());
    world.gone.clear();
    let back = world.now;
    world.pass(seconds(15));
    let (first, second) = (world.served_since("a", back), world.served_since("b", back));
    assert!(second * 4 > first, "{first} of one that served all the while, {second}");
    let report = world.actor.reader.report(world.now);
    assert!(report.workers.iter().all(|it| it.failure.is_none()), "{report:?}");
}

/// The dispatcher has heard of a worker that has a new task.
#[test]
fn a_worker_that_has_a_new_task_is_asked_at_once() {
    let mut world = World::new(&["a", "b", "c"], 3, Duration::from_millis(20));
    world.gone.insert("b".to_owned(), seconds(6));
    world.pass(seconds(60));
    assert!(world.failed.len() > 1, "it is tried now and then");
    world.gone.clear();
    world.server.tasks.insert("b".to_owned(), TaskId::new(4009));
    let back = world.now;
    world.pass(seconds(3));
    let (first, second) = (world.served_since("a", back), world.served_since("b", back));
    assert!(second * 2 > first, "{first} of one that served all the while, {second}");
}

/// A trial of a host that is switched off takes seconds. With one stream, nothing is read meanwhile.
#[test]
fn workers_that_are_gone_cost_little() {
    for (silence, names) in [(seconds(5), &["a", "b"][..]), (Duration::ZERO, &["a", "b", "c", "d"])]
    {
        for living in names {
            let mut world = World::new(names, 1, Duration::from_millis(100));
            let gone = names.iter().filter(|name| *name != living);
            world.gone = gone.map(|name| ((*name).to_owned(), silence)).collect();
            world.pass(seconds(300));
            let served = world.served_since(living, START);
            assert!(served > 2200, "{living} of {names:?}: {served} splits in 300 s");
        }
    }
}

/// Each of those that have failed has its turn.
#[test]
fn a_worker_that_is_back_is_found_among_many_that_are_gone() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for back in &names[1..] {
        let mut world = World::new(&names, 3, Duration::from_millis(50));
        let gone = names[1..].iter().map(|name| ((*name).to_owned(), Duration::ZERO));
        world.gone = gone.collect();
        world.pass(seconds(60));
        world.gone.remove(*back);
        let since = world.now;
        world.pass(seconds(20));
        assert!(world.served_since(back, since) > 0, "{back}: {:?}", world.failed.last());
    }
}

/// A trial that was never decided, since the task left the list meanwhile, holds up no other.
#[test]
fn a_worker_that_leaves_during_its_trial_holds_up_no_other() {
    let mut world = World::new(&["a", "b", "c"], 3, Duration::from_millis(50));
    world.gone.insert("b".to_owned(), Duration::ZERO);
    world.pass(seconds(5));
    // From now on a trial of it hangs.
    world.gone.insert("b".to_owned(), seconds(1000));
    world.pass(seconds(20));
    assert!(world.actor.streams.values().any(|it| &*it.address == "b/r"), "a trial is under way");
    world.server.tasks.remove("b");
    world.pass(seconds(5));
    world.gone.insert("c".to_owned(), Duration::ZERO);
    world.pass(seconds(5));
    world.gone.clear();
    let since = world.now;
    world.pass(seconds(20));
    assert!(world.served_since("c", since) > 0);
}

/// One of two was restarted as a worker that serves elements only.
#[test]
fn a_worker_that_serves_no_records_is_not_tried() {
    for (other, back) in [("b", "c"), ("c", "b")] {
        let mut world = World::new(&["a", "b", "c"], 3, Duration::from_millis(50));
        world.switch_off(&["b", "c"]);
        world.pass(seconds(21));
        world.server.by_element.insert(other.to_owned());
        world.pass(seconds(150));
        world.gone.clear();
        let since = world.now;
        world.pass(seconds(150));
        assert!(world.served_since(back, since) > 0, "{back}: {:?}", world.failed);
    }
}

/// Its calls fail at once or never, so that a trial of it costs nothing.
#[test]
fn a_worker_whose_connection_broke_serves_at_once_beside_silent_ones() {
    let names = ["a", "b", "v", "w", "x", "y", "z"];
    let mut world = World::new(&names, 8, Duration::from_millis(50));
    world.switch_off(&names[2..]);
    world.pass(seconds(200));
    world.disconnect("b");
    let since = world.now;
    world.pass(seconds(5));
    let (first, second) = (world.served_since("a", since), world.served_since("b", since));
    assert!(second * 2 > first, "{first} of one that served all the while, {second}");
}

/// All its streams break at once. The reader has found out that all other workers are silent.
#[test]
fn the_only_living_worker_is_read_from_again_after_its_connection_broke() {
    for streams in [1, 4, 32] {
        let mut world = World::new(&["a", "y", "z"], streams, Duration::from_millis(100));
        world.switch_off(&["y", "z"]);
        for _ in 0..3 {
            world.await_stream_of("a");
            world.disconnect("a");
            world.pass(seconds(90));
        }
        assert!(["y", "z"].iter().all(|name| world.failed.iter().any(|(of, _)| of == name)));
        world.await_stream_of("a");
        world.disconnect("a");
        let since = world.now;
        world.pass(seconds(5));
        let served = world.served_since("a", since);
        assert!(served > 40 * streams.min(4), "{served} splits in 5 s by {streams} streams");
    }
}

/// The reader's process stands still for an hour while a trial is under way.
#[test]
fn a_reader_that_was_held_up_tries_workers_again_within_minutes() {
    let mut world = World::new(&["a", "b"], 2, Duration::from_millis(50));
    world.switch_off(&["b"]);
    world.pass(seconds(21));
    world.await_stream_of("b");
    world.now = world.now.after(seconds(3600));
    world.pass(seconds(1));
    world.gone.clear();
    let since = world.now;
    world.pass(seconds(150));
    assert!(world.served_since("b", since) > 0, "{:?}", world.failed);
}

/// A silent worker that leaves the list puts off no trial of another.
#[test]
fn a_silent_worker_that_is_gone_puts_off_no_trial() {
    let mut world = World::new(&["a", "b", "z"], 3, Duration::from_millis(50));
    world.switch_off(&["b", "z"]);
    world.pass(seconds(30));
    world.await_stream_of("z");
    world.pass(seconds(25));
    assert_eq!(world.failed.last().map(|(name, _)| &name[..]), Some("z"));
    world.gone.clear();
    world.server.tasks.remove("z");
    let since = world.now;
    world.pass(seconds(10));
    assert!(world.served_since("b", since) > 0, "{:?}", world.failed);
}
