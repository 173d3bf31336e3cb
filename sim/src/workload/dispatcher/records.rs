//! A reader of records by split: the product's own machine, driven over the world's network, with
//! every request and answer as bytes. Its application consumes what it is handed, in its own time.

mod joining;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rondo_core::dispatcher::{GetOrCreateJob, Reply, Request};
use rondo_core::ids::{CallId, ClientId};
use rondo_core::reader::{self, Delivery, Effect, Input, ReadSplit, Reader, RpcId};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};
use rondo_proto::convert;

use super::busy::BusyLoop;
use super::record_bytes::{message, received, told};
use super::{is_passing, ms, patience, pause};
use crate::mark::Mark;
use crate::workload::actor::{
    Act, Actor, Delivered, Happening, OfReader, Read, ReadAnswer, Role, WantedRecords, With,
};
use crate::workload::outstanding::Outstanding;

/// The position that readers save and restore.
const POSITION: &str = "read-by-split";
/// Wait before something is tried again, in ms.
const RETRY_MS: u64 = 150;
/// A reader that is closed soon after it begins is closed within so many ms.
const HASTY_MS: u64 = 200;
/// Batches that the application takes ahead.
const AHEAD: u64 = 2;

/// A reader and its application.
#[derive(Clone, Debug)]
pub struct RecordReader {
    number: u32,
    reader: Option<Reader>,
    /// Which of the jobs that are read one after the other.
    generation: u64,
    /// Whether others read the same by element.
    is_beside_elements: bool,
    /// Which of the sizes of its group it has joined with.
    group: u64,
    calls: Outstanding<For>,
    streams: BTreeMap<RpcId, Open>,
    consuming: VecDeque<Batch>,
    /// When it goes on, while there is no reader.
    at: Time,
    /// Whether a position was saved that may be restored.
    saved: bool,
    got_on_at: Time,
    busy: BusyLoop,
    /// By which number the dispatcher knew the reader last.
    known_as: Option<ClientId>,
    /// The number of a former process that died, with its job, until the dispatcher has said how far it came.
    former: Option<(ClientId, String)>,
    /// Flushes under way, with whether a position is saved when they are done.
    flushes: BTreeMap<CallId, bool>,
    next_flush: u64,
    /// When the application closes the reader, whatever it does then.
    closes_at: Time,
}

/// What a call is for.
#[derive(Clone, Debug, PartialEq)]
enum For {
    Register,
    /// A former process of this reader ends.
    End(ClientId),
    Position,
    /// The reader's machine asks the dispatcher.
    Ask(RpcId, reader::Request),
    /// It takes a message of a worker's stream.
    Take(RpcId),
}

/// An open stream.
#[derive(Clone, Debug)]
struct Open {
    address: Arc<str>,
    /// What is to be read from here on.
    read: ReadSplit,
}

/// Records that the application has and has not consumed.
#[derive(Clone, Copy, Debug)]
struct Batch {
    consumed_at: Time,
    place: u64,
    upto: u64,
}

impl RecordReader {
    /// The reader of this number, not yet begun.
    pub fn new(number: u32) -> Self {
        Self {
            number,
            reader: None,
            generation: 0,
            is_beside_elements: false,
            group: 0,
            calls: Outstanding::new(1),
            streams: BTreeMap::new(),
            consuming: VecDeque::new(),
            at: Time::ZERO,
            saved: false,
            got_on_at: Time::ZERO,
            busy: BusyLoop::default(),
            known_as: None,
            former: None,
            flushes: BTreeMap::new(),
            next_flush: 1,
            closes_at: Time::NEVER,
        }
    }

    fn wake(&mut self, now: Time, with: &mut With<'_>) {
        while let Some((token, what)) = self.calls.take_overdue(now) {
            with.acts.push(Act::GiveUp { token });
            let late = Status::new(Code::DeadlineExceeded, "no answer in time");
            self.failed(now, what, late, with);
        }
        let due = self.consuming.iter().take_while(|batch| batch.consumed_at <= now).count();
        let consumed: Vec<Batch> = self.consuming.drain(..due).collect();
        if !consumed.is_empty() {
            self.consumed(now, &consumed, with);
        }
        if self.reader.as_ref().is_some_and(|of| of.deadline().is_some_and(|at| at <= now)) {
            self.step(now, Input::Tick, with);
            let deadline = self.reader.as_ref().and_then(Reader::deadline);
            if let Err(text) = self.busy.woken(now, deadline) {
                with.acts.push(Act::Violated(text));
            }
        }
        if now >= self.closes_at {
            self.close(now, with);
        }
        self.follow_group(now, with);
        if self.reader.as_ref().is_some_and(Reader::is_over) {
            self.left(with);
            self.rest(now, with);
        }
        if self.reader.is_none() && now >= self.at && self.calls.is_empty() {
            match self.former.clone() {
                Some((client, job)) => {
                    self.at = Time::NEVER;
                    self.call(now, For::End(client), Request::EndReader { client, job }, with);
                }
                None => self.register(now, with),
            }
        }
    }

    fn rest(&mut self, now: Time, with: &mut With<'_>) {
        self.forget();
        self.at = now.after(pause(with.stream, with.swarm.pace.pause_ms));
    }

    fn forget(&mut self) {
        (self.reader, self.saved) = (None, false);
        (self.known_as, self.closes_at) = (None, Time::NEVER);
        self.flushes.clear();
        self.calls.clear();
        self.streams.clear();
        self.consuming.clear();
    }

    /// The application has had enough.
    fn close(&mut self, now: Time, with: &mut With<'_>) {
        self.closes_at = Time::NEVER;
        let Some(reader) = self.reader.as_ref().filter(|reader| reader.left().is_none()) else {
            return;
        };
        let joins = reader.client().is_none();
        let mark = if joins { Mark::ReaderClosedWhileJoining } else { Mark::ReaderClosed };
        with.tally.mark(mark);
        self.consuming.clear();
        self.step(now, Input::Close, with);
    }

    /// The reader has left: nothing of it is under way.
    fn left(&self, with: &mut With<'_>) {
        let is_of_reader = |what: &&For| matches!(what, For::Ask(..) | For::Take(_));
        if let Some(what) = self.calls.all().find(is_of_reader) {
            with.acts
                .push(Act::Violated(format!("over: a reader has left, and waits for {what:?}")));
        }
        let result = self.reader.as_ref().and_then(Reader::left);
        if let (Some(client), Some(result)) = (self.known_as, result) {
            if result.is_err() {
                with.tally.mark(Mark::ReaderLeftUnheard);
            }
            with.acts.push(Act::Reads(client, OfReader::Left(result.is_ok())));
        }
    }

    /// What was consumed is to be acknowledged, and a position saved then if so.
    fn flush(&mut self, now: Time, saves: bool, with: &mut With<'_>) {
        let call = CallId::new(self.next_flush);
        self.next_flush = self.next_flush.saturating_add(1);
        self.flushes.insert(call, saves);
        if let Some(client) = self.known_as {
            with.acts.push(Act::Reads(client, OfReader::Flushing(call)));
        }
        self.step(now, Input::Flush { call }, with);
    }

    /// What was consumed is acknowledged.
    fn flushed(&mut self, now: Time, call: CallId, with: &mut With<'_>) {
        with.tally.mark(Mark::ReaderFlushed);
        if let Some(client) = self.known_as {
            with.acts.push(Act::Reads(client, OfReader::Flushed(call)));
        }
        if self.flushes.remove(&call) == Some(true) {
            let (name, job) = (POSITION.to_owned(), self.job_name());
            self.saved = true;
            self.call(now, For::Position, Request::SavePosition { name, job }, with);
        }
    }

    fn call(&mut self, now: Time, what: For, request: Request, with: &mut With<'_>) {
        let token = self.calls.add(patience(now, with), what);
        with.acts.push(Act::Call { token, request });
    }

    fn step(&mut self, now: Time, input: Input, with: &mut With<'_>) {
        let mut out = Vec::new();
        if let Some(reader) = &mut self.reader {
            reader.step(now, input, &mut out);
        }
        for effect in out {
            self.perform(now, effect, with);
        }
    }

    fn client(&self) -> Option<ClientId> {
        self.reader.as_ref().and_then(Reader::client)
    }

    fn perform(&mut self, now: Time, effect: Effect, with: &mut With<'_>) {
        match effect {
            Effect::Ask { rpc, request, deadline } => self.ask(now, (rpc, request), deadline, with),
            Effect::Open { rpc, address, read } => {
                self.streams.insert(rpc, Open { address, read });
                self.take(now, rpc, with);
            }
            Effect::Take { rpc } => self.take(now, rpc, with),
            Effect::Withdraw { rpc } => {
                self.streams.remove(&rpc);
                let of = |what: &For| matches!(what, For::Ask(of, _) | For::Take(of) if *of == rpc);
                if let Some(token) = self.calls.take_one(of) {
                    with.acts.push(Act::GiveUp { token });
                }
            }
            Effect::Deliver(Delivery::Batch(batch)) => {
                let upto = batch.first.saturating_add(batch.count);
                let consumed_at = now.after(ms(consume_ms(with)));
                let (place, first, count) = (batch.place, batch.first, batch.count);
                self.consuming.push_back(Batch { consumed_at, place, upto });
                if let Some(client) = self.client() {
                    self.known_as = Some(client);
                    with.acts.push(Act::Delivered(Delivered { client, place, first, count }));
                }
            }
            Effect::Flushed { call, result: Ok(()) } => self.flushed(now, call, with),
            Effect::Ended { result } => self.ended(now, result, with),
            // Nobody reads by element here; and what is consumed does not depend on what is asked for.
            Effect::Deliver(_)
            | Effect::Fetch { .. }
            | Effect::Flushed { .. }
            | Effect::Drained => {}
        }
    }

    fn ask(
        &mut self,
        now: Time,
        (rpc, request): (RpcId, reader::Request),
        deadline: Duration,
        with: &mut With<'_>,
    ) {
        let (path, message) = convert::encode_reader_request(&self.job(), &request);
        let until = patience(now, with).min(now.after(deadline));
        let token = self.calls.add(until, For::Ask(rpc, request));
        if let Some(request) = received(path, &message) {
            with.acts.push(Act::Call { token, request });
        }
    }

    fn take(&mut self, now: Time, rpc: RpcId, with: &mut With<'_>) {
        let Some(stream) = self.streams.get(&rpc) else {
            return;
        };
        let ReadSplit { task, split, skip, .. } = stream.read;
        let split = Some(WantedRecords { split, skip });
        let read = Read { task, consumer: i64::from(self.number), round: 0, split };
        let address = stream.address.clone();
        let token = self.calls.add(patience(now, with), For::Take(rpc));
        with.acts.push(Act::Ask { address, token, read });
    }

    /// The application says at once what it has consumed, of several splits maybe.
    fn consumed(&mut self, now: Time, batches: &[Batch], with: &mut With<'_>) {
        if let Some(client) = self.known_as {
            let consumed = batches
                .iter()
                .map(|batch| OfReader::Consumed { place: batch.place, records: batch.upto });
            with.acts.extend(consumed.map(|of| Act::Reads(client, of)));
        }
        let upto: BTreeMap<_, _> = batches.iter().map(|batch| (batch.place, batch.upto)).collect();
        self.step(now, Input::Consumed { upto: upto.into_iter().collect() }, with);
        self.step(now, Input::Wanted { deliveries: batches.len() as u64 }, with);
        let Some(shape) = with.swarm.reading.filter(|_| !with.calm) else {
            return;
        };
        if with.stream.chance(shape.flushes) {
            self.flush(now, false, with);
        }
        if with.stream.chance(shape.closes) {
            return self.close(now, with);
        }
        if with.stream.chance(shape.resizes) {
            self.resize(&shape, with);
        }
        if !with.stream.chance(shape.positions) {
            return;
        }
        if self.saved && with.stream.chance(500) {
            let (name, job) = (POSITION.to_owned(), self.job_name());
            let wanted = GetOrCreateJob { same_dataset: true, ..self.job() };
            let wanted = Some(Box::new(wanted));
            self.call(now, For::Position, Request::RestorePosition { name, job, wanted }, with);
        } else {
            self.flush(now, true, with);
        }
    }

    fn ended(&mut self, now: Time, result: Result<(), Status>, with: &mut With<'_>) {
        let full = result.as_ref().is_err_and(|status| status.code == Code::ResourceExhausted);
        if result.is_ok() || full {
            self.got_on_at = now;
        }
        if result.is_ok() {
            let next = self.generation.saturating_add(1);
            with.known.read_by_split = with.known.read_by_split.max(next);
        }
        with.acts.push(Act::ReadEnded { client: self.client(), result });
    }

    fn answered(
        &mut self,
        now: Time,
        token: u64,
        answer: Result<Reply, Status>,
        with: &mut With<'_>,
    ) {
        match (self.calls.take(token), answer) {
            (Some(For::Ask(rpc, request)), Ok(reply)) => {
                let result = told(&request, reply);
                let entropy = with.stream.below(u64::MAX);
                self.step(now, Input::Answered { rpc, result, entropy }, with);
            }
            (Some(For::Register), Ok(_)) => self.begin(now, with),
            (Some(For::End(_)), Ok(_)) => {
                with.tally.mark(Mark::ReaderEnded);
                (self.former, self.at) = (None, now);
            }
            (Some(what), Err(status)) => self.failed(now, what, status, with),
            _ => {}
        }
        self.wake(now, with);
    }

    fn failed(&mut self, now: Time, what: For, status: Status, with: &mut With<'_>) {
        match what {
            For::Register => {
                if !is_passing(&status) && status.code != Code::DeadlineExceeded {
                    self.got_on_at = now;
                }
                self.at = now.after(ms(RETRY_MS));
            }
            For::End(_) => {
                // The dispatcher may know nothing of it any more.
                if !is_passing(&status) && status.code != Code::DeadlineExceeded {
                    self.former = None;
                }
                self.at = now.after(ms(RETRY_MS));
            }
            For::Position => {}
            For::Ask(rpc, _) => self.broken(now, rpc, status, with),
            For::Take(rpc) => {
                self.streams.remove(&rpc);
                let status = Status::new(Code::Unavailable, status.message);
                self.broken(now, rpc, status, with);
            }
        }
    }

    fn broken(&mut self, now: Time, rpc: RpcId, status: Status, with: &mut With<'_>) {
        let entropy = with.stream.below(u64::MAX);
        self.step(now, Input::Answered { rpc, result: Err(status), entropy }, with);
    }

    fn told(&mut self, now: Time, token: u64, answer: Option<ReadAnswer>, with: &mut With<'_>) {
        let Some(For::Take(rpc)) = self.calls.take(token) else {
            return;
        };
        match answer {
            Some(ReadAnswer::Records { first, count, last }) => {
                if let Some(stream) = self.streams.get_mut(&rpc) {
                    stream.read.skip = first.saturating_add(count);
                }
                let result = message(first, count, last);
                let entropy = with.stream.below(u64::MAX);
                self.step(now, Input::Answered { rpc, result, entropy }, with);
            }
            _ => {
                let status = Status::new(Code::Unavailable, "the worker has no such task");
                self.failed(now, For::Take(rpc), status, with);
            }
        }
        self.wake(now, with);
    }
}

/// When nothing goes wrong any more there is no need to take long.
fn consume_ms(with: &With<'_>) -> u64 {
    let consume_ms = with.swarm.reading.map_or(0, |reading| reading.consume_ms);
    if with.calm { consume_ms.min(10) } else { consume_ms }
}

impl Actor for RecordReader {
    fn role(&self) -> Role {
        Role::Reader
    }

    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>) {
        match what {
            Happening::Wake => self.wake(now, with),
            Happening::Answered { token, answer } => self.answered(now, token, answer, with),
            Happening::Told { token, answer } => self.told(now, token, answer, with),
            Happening::Reborn { .. } => {
                let job = self.job_name();
                self.former = self.known_as.map(|client| (client, job)).or(self.former.take());
                self.forget();
                self.at = now;
                self.wake(now, with);
            }
            Happening::Coordinated { .. }
            | Happening::Pushed(_)
            | Happening::Asked { .. }
            | Happening::Element(_) => {}
        }
    }

    fn wake_at(&self) -> Time {
        let reads = match &self.reader {
            Some(reader) => reader.deadline().unwrap_or(Time::NEVER),
            None if self.calls.is_empty() => self.at,
            None => Time::NEVER,
        };
        let consumes = self.consuming.front().map_or(Time::NEVER, |batch| batch.consumed_at);
        let closes = if self.reader.is_some() { self.closes_at } else { Time::NEVER };
        reads.min(consumes).min(closes).min(self.calls.deadline())
    }

    fn got_on_at(&self) -> Time {
        self.got_on_at
    }

    fn state(&self) -> String {
        let Self { generation, calls, consuming, .. } = self;
        format!(
            "reads {generation} as {:?}, waits for {calls:?}, consumes {consuming:?}",
            self.client()
        )
    }
}
