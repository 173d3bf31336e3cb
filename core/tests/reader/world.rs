//! A dispatcher, its workers, readers by split, and a network between that loses and reorders.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use rondo_core::ids::{CallId, TaskId};
use rondo_core::reader::{Answer, Batch, BySplit, Config, Input, Member, Records, RpcId, Way};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};

use crate::actor::{Actor, Stream};
use crate::server::{Server, value_of};

/// What a world begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) readers: u32,
    pub(crate) workers: usize,
    pub(crate) splits: usize,
    pub(crate) hold: u32,
    pub(crate) streams: usize,
    pub(crate) buffer: usize,
    pub(crate) is_group: bool,
    /// Whether applications consume in the end only what they are told is all they can have.
    pub(crate) is_patient: bool,
}

/// Something that happens. Numbers choose among what there is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    Want(usize, u64),
    Consume(usize, usize),
    Flush(usize),
    /// A request reaches the dispatcher; its answer may be lost.
    Ask(usize, usize, bool),
    Answer(usize, usize),
    /// A stream brings so many records, some of them once more.
    Stream(usize, usize, u64, u64),
    Break(usize, usize),
    CrashWorker(usize),
    StartWorker(usize),
    /// The dispatcher gives a worker up, or hears of it again.
    Lose(usize),
    CrashServer,
    StartServer,
    /// A reader's process dies, and another one takes its place.
    CrashReader(usize),
    /// The dispatcher gives a reader up.
    Expire(usize),
    Wait(u64),
}

/// Everything, seen from above.
pub(crate) struct World {
    plan: Plan,
    now: Time,
    server: Server,
    is_up: bool,
    workers: Vec<bool>,
    pub(crate) readers: Vec<Actor>,
    calls: u64,
}

/// Records of the split at a place.
pub(crate) const fn records_of(place: u64) -> u64 {
    place * 5 % 13
}

/// One record: its place in the iteration.
fn record(place: u64, number: u64) -> [u8; 2] {
    [u8::try_from(place).unwrap(), u8::try_from(number).unwrap()]
}

fn encoded(place: u64, numbers: Range<u64>) -> Bytes {
    numbers.flat_map(|number| record(place, number)).collect::<Vec<u8>>().into()
}

fn worker_name(index: usize) -> String {
    format!("worker-{index}")
}

fn gone() -> Status {
    Status::new(Code::Unavailable, "connection refused")
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let mut world = Self {
            plan,
            now: Time::from_millis(1),
            server: Server::new(plan.splits),
            is_up: true,
            workers: vec![true; plan.workers],
            readers: Vec::new(),
            calls: 0,
        };
        for index in 0..plan.workers {
            world.register(index);
        }
        for index in 0..plan.readers {
            world.readers.push(world.reader(index));
        }
        world
    }

    fn register(&mut self, index: usize) {
        let id = TaskId::new(4000 + i64::try_from(index).unwrap());
        self.server.tasks.insert(worker_name(index), id);
    }

    fn reader(&self, index: u32) -> Actor {
        let group = Member { index, size: self.plan.readers };
        let way = BySplit {
            hold: self.plan.hold,
            streams: self.plan.streams,
            group: self.plan.is_group.then_some(group),
            ..BySplit::default()
        };
        let mut config = Config::of(Way::BySplit(way));
        config.buffer_deliveries_max = self.plan.buffer;
        Actor::new(config, u64::from(index))
    }

    /// The readers that may still read, by which of them.
    fn nth(&self, nth: usize) -> usize {
        nth % self.readers.len()
    }

    pub(crate) fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Want(nth, more) => {
                let (nth, now) = (self.nth(nth), self.now);
                self.readers[nth].want(now, more);
            }
            Happening::Consume(nth, deliveries) => {
                let (nth, now) = (self.nth(nth), self.now);
                self.readers[nth].consume(now, deliveries);
            }
            Happening::Flush(nth) => {
                self.calls += 1;
                let (nth, now, call) = (self.nth(nth), self.now, CallId::new(self.calls));
                self.readers[nth].step(now, Input::Flush { call });
            }
            Happening::Ask(nth, which, is_lost) => self.ask(self.nth(nth), which, is_lost),
            Happening::Answer(nth, which) => self.answer(self.nth(nth), which),
            Happening::Stream(nth, which, count, again) => {
                self.stream(self.nth(nth), which, count, again);
            }
            Happening::Break(nth, which) => self.break_stream(self.nth(nth), which),
            Happening::CrashWorker(nth) => self.crash_worker(nth % self.plan.workers),
            Happening::StartWorker(nth) => self.workers[nth % self.plan.workers] = true,
            Happening::Lose(nth) => {
                let index = nth % self.plan.workers;
                if self.server.tasks.remove(&worker_name(index)).is_none() {
                    self.register(index);
                }
            }
            Happening::CrashServer => self.is_up = false,
            Happening::StartServer => self.is_up = true,
            Happening::CrashReader(nth) => self.crash_reader(self.nth(nth)),
            Happening::Expire(nth) => {
                let client = self.readers[self.nth(nth)].clients.last();
                client.into_iter().for_each(|client| self.server.forget(*client));
            }
            Happening::Wait(millis) => self.wait(millis),
        }
        self.check_bounds();
    }

    fn ask(&mut self, nth: usize, which: usize, is_lost: bool) {
        let actor = &mut self.readers[nth];
        let Some(index) = which.checked_rem(actor.asks.len()) else {
            return;
        };
        let (rpc, request) = actor.asks.remove(index);
        let result = match self.is_up {
            true => self.server.take(&request),
            false => Err(gone()),
        };
        let result = if is_lost { Err(gone()) } else { result };
        if !self.readers[nth].has_crashed {
            self.readers[nth].answers.push((rpc, result));
        }
    }

    fn answer(&mut self, nth: usize, which: usize) {
        let (actor, now) = (&mut self.readers[nth], self.now);
        let Some(index) = which.checked_rem(actor.answers.len()) else {
            return;
        };
        let (rpc, result) = actor.answers.remove(index);
        actor.step(now, Input::Answered { rpc, result, entropy: now.as_nanos() });
    }

    fn asked(&self, nth: usize, which: usize) -> Option<RpcId> {
        let streams = self.readers[nth].streams.iter().filter(|(_, stream)| stream.asked);
        let asked: Vec<RpcId> = streams.map(|(rpc, _)| *rpc).collect();
        asked.get(which.checked_rem(asked.len())?).copied()
    }

    fn is_serving(&self, stream: &Stream) -> bool {
        let is_its = |index: &usize| format!("{}/r", worker_name(*index)) == *stream.address;
        (0..self.plan.workers).find(is_its).is_some_and(|index| self.workers[index])
    }

    fn stream(&mut self, nth: usize, which: usize, count: u64, again: u64) {
        let Some(rpc) = self.asked(nth, which) else {
            return;
        };
        let stream = self.readers[nth].streams[&rpc].clone();
        if !self.is_serving(&stream) {
            return self.break_stream(nth, which);
        }
        let place = u64::try_from((stream.read.split + 3) / 7).unwrap();
        assert_eq!(value_of(place), stream.read.split, "the value it was told");
        let total = records_of(place);
        assert!(stream.read.skip <= total, "{stream:?} of {total}");
        let end = total.min(stream.next + count);
        let first = stream.next - again.min(stream.next);
        let records = Records {
            first,
            count: end - first,
            records: encoded(place, first..end),
            is_last: end == total,
            skipped: Vec::new(),
        };
        let (actor, now) = (&mut self.readers[nth], self.now);
        let stream = actor.streams.get_mut(&rpc).unwrap();
        (stream.asked, stream.next) = (false, end);
        let result = Ok(Answer::Records(records));
        actor.step(now, Input::Answered { rpc, result, entropy: 1 });
    }

    fn break_stream(&mut self, nth: usize, which: usize) {
        let Some(rpc) = self.asked(nth, which) else {
            return;
        };
        let (actor, now) = (&mut self.readers[nth], self.now);
        actor.streams.remove(&rpc);
        let result = Err(gone());
        actor.step(now, Input::Answered { rpc, result, entropy: now.as_nanos() });
    }

    fn crash_worker(&mut self, index: usize) {
        self.workers[index] = false;
        for nth in 0..self.readers.len() {
            while let Some(which) = {
                let streams = self.readers[nth].streams.values().filter(|stream| stream.asked);
                streams.into_iter().position(|stream| !self.is_serving(stream))
            } {
                self.break_stream(nth, which);
            }
        }
    }

    fn crash_reader(&mut self, nth: usize) {
        let actor = &mut self.readers[nth];
        if actor.has_crashed || self.plan.is_group {
            return;
        }
        actor.has_crashed = true;
        // What it has sent may still arrive.
        actor.answers.clear();
        actor.streams.clear();
        let next = self.reader(u32::try_from(nth).unwrap() % self.plan.readers);
        self.readers.push(next);
    }

    pub(crate) fn wait(&mut self, millis: u64) {
        let until = self.now.after(Duration::from_millis(millis));
        for nth in 0..self.readers.len() {
            self.readers[nth].step(self.now, Input::Tick);
            let mut now = self.now;
            for turn in 0.. {
                match self.readers[nth].reader.deadline() {
                    Some(at) if at <= until && !self.readers[nth].has_crashed => now = now.max(at),
                    _ => break,
                }
                assert!(turn < 1000, "it never rests: {:?}", self.readers[nth].reader);
                self.readers[nth].step(now, Input::Tick);
            }
        }
        self.now = until;
    }

    fn check_bounds(&self) {
        for actor in &self.readers {
            let report = actor.reader.report(self.now);
            assert!(report.buffered <= self.plan.buffer + 1, "{report:?}");
            assert!(actor.streams.len() <= self.plan.streams + 1, "{:?}", actor.streams);
            assert!(report.splits_undelivered <= self.plan.hold as usize, "{report:?}");
        }
    }

    /// All goes well from here on: everything is read.
    pub(crate) fn settle(&mut self) {
        self.is_up = true;
        self.workers.fill(true);
        (0..self.plan.workers).for_each(|index| self.register(index));
        for actor in self.readers.iter().filter(|actor| actor.has_crashed) {
            actor.clients.iter().for_each(|client| self.server.forget(*client));
        }
        // Of readers that the dispatcher gave up, another one takes the place.
        for turn in 0..400 {
            self.wait(50);
            for nth in 0..self.readers.len() {
                self.go_through(nth);
            }
            let is_over = |actor: &Actor| actor.has_crashed || actor.ended.is_some();
            if self.server.is_finished() && self.readers.iter().all(is_over) {
                break;
            }
            if turn % 100 == 50 {
                self.take_places_of_given_up();
            }
        }
        self.check();
    }

    fn take_places_of_given_up(&mut self) {
        let failed = |actor: &Actor| matches!(actor.ended, Some(Err(_))) && !actor.has_crashed;
        for nth in 0..self.readers.len() {
            if failed(&self.readers[nth]) {
                let index = u32::try_from(nth).unwrap() % self.plan.readers;
                self.readers[nth].has_crashed = true;
                self.readers.push(self.reader(index));
            }
        }
    }

    fn go_through(&mut self, nth: usize) {
        for _ in 0..40 {
            self.happen(Happening::Want(nth, 8));
            if self.is_to_consume(nth) {
                self.happen(Happening::Consume(nth, usize::MAX));
            }
            self.ask(nth, 0, false);
            self.answer(nth, 0);
            self.stream(nth, 0, 3, 0);
        }
    }

    /// Whether the application of a reader consumes all that it has now.
    fn is_to_consume(&mut self, nth: usize) -> bool {
        let actor = &mut self.readers[nth];
        let is_told = actor.drained > actor.heeded;
        actor.heeded = actor.drained;
        is_told || !self.plan.is_patient
    }

    fn check(&self) {
        let unfinished: Vec<usize> =
            (0..self.plan.splits).filter(|place| !self.server.splits[*place].is_finished).collect();
        let reports =
            self.readers.iter().map(|actor| (actor.reader.report(self.now), &actor.ended));
        let reports: Vec<_> = reports.collect();
        assert!(unfinished.is_empty(), "{unfinished:?} are not read: {reports:#?}");
        for actor in self.readers.iter() {
            self.check_deliveries(actor);
        }
        for (place, split) in self.server.splits.iter().enumerate() {
            let mut next = 0;
            for (_, records) in &split.by {
                assert_eq!(records.start, next, "place {place}: {split:?}");
                next = records.end;
            }
            assert_eq!(next, records_of(place as u64), "place {place}: {split:?}");
        }
    }

    /// What a reader delivered: splits to their ends, each record once, and all it acknowledged.
    fn check_deliveries(&self, actor: &Actor) {
        let mut read: BTreeMap<u64, Range<u64>> = BTreeMap::new();
        let mut last: Option<&Batch> = None;
        for batch in &actor.delivered {
            let (place, first, end) = (batch.place, batch.first, batch.first + batch.count);
            assert!(batch.count > 0, "{batch:?}");
            assert_eq!(batch.records, encoded(place, first - batch.passed..end), "{batch:?}");
            let so_far = read.entry(place).or_insert(first..first);
            assert_eq!(so_far.end, first, "{place} goes on where it was");
            so_far.end = end;
            if let Some(last) = last.filter(|last| last.place != place) {
                assert_eq!(last.first + last.count, records_of(last.place), "to its end");
                let in_order = !self.plan.is_group || last.place < place;
                assert!(in_order, "{last:?} before {batch:?}");
            }
            last = Some(batch);
        }
        for (place, split) in self.server.splits.iter().enumerate() {
            for (client, records) in split.by.iter().filter(|(by, _)| actor.clients.contains(by)) {
                let read = read.get(&(place as u64)).cloned().unwrap_or_default();
                let has = read.start <= records.start && records.end <= read.end;
                assert!(has, "{client} acknowledged {records:?} of {place} and had {read:?}");
            }
        }
    }
}
