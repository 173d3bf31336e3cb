//! A reader by element: the product's own machine, driven over the world's network, with every request
//! and answer as bytes. Alone it takes what workers have; together with others it reads in rounds.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use rondo_core::dispatcher::{Reply, Request};
use rondo_core::ids::TaskId;
use rondo_core::invariant::check_reader;
use rondo_core::reader::{
    self, Answer, Delivery, Effect, FetchElement, Fetched, Input, Reader, RpcId,
};
use rondo_core::status::{Code, Status};
use rondo_core::time::{Duration, Time};
use rondo_proto::convert;

use super::busy::BusyLoop;
use super::element_bytes::{fetched, identified, registration};
use super::element_job;
use super::held::Held;
use super::record_bytes::{received, told};
use super::retries::Retries;
use super::{is_passing, ms, patience, rest_beside};
use crate::mark::Mark;
use crate::workload::actor::{Act, Actor, Carried, Happening, Role, With};
use crate::workload::elements::{Counted, ElementId, OfElements, ReaderLife};
use crate::workload::outstanding::Outstanding;

/// Wait before something is tried again, in ms.
const RETRY_MS: u64 = 150;
/// Elements that the application takes ahead.
const AHEAD: u64 = 2;

/// A reader and its application.
pub struct ElementReader {
    number: u32,
    /// How many machines it has had.
    life: u64,
    reader: Option<Reader>,
    /// Whether the application has had enough, or all.
    is_closed: bool,
    /// Which of the jobs that are read one after the other.
    generation: u64,
    /// The last round of which it has handed on an element.
    furthest: u64,
    calls: Outstanding<For>,
    fetches: BTreeMap<u64, Fetch>,
    next_fetch: u64,
    /// In which round each element came, until it is handed on.
    rounds: BTreeMap<ElementId, i64>,
    held: Held,
    consuming: VecDeque<Time>,
    /// When it goes on, while there is no reader.
    at: Time,
    got_on_at: Time,
    busy: BusyLoop,
    retries: Retries,
}

/// What a call is for.
#[derive(Clone, Debug, PartialEq)]
enum For {
    Register,
    /// The reader's machine asks the dispatcher.
    Ask(RpcId, reader::Request),
}

/// A worker that is asked for an element.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    rpc: RpcId,
    task: TaskId,
    round: Option<(i64, i64)>,
}

impl ElementReader {
    /// The reader of this number, not yet begun.
    pub fn new(number: u32) -> Self {
        Self {
            number,
            life: 0,
            reader: None,
            is_closed: false,
            generation: 0,
            furthest: 0,
            calls: Outstanding::new(1),
            fetches: BTreeMap::new(),
            next_fetch: 1,
            rounds: BTreeMap::new(),
            held: Held::default(),
            consuming: VecDeque::new(),
            at: Time::ZERO,
            got_on_at: Time::ZERO,
            busy: BusyLoop::default(),
            retries: Retries::default(),
        }
    }

    const fn now_living(&self) -> ReaderLife {
        ReaderLife { reader: self.number, life: self.life }
    }

    fn wake(&mut self, now: Time, with: &mut With<'_>) {
        let Some(shape) = with.swarm.elements else {
            return;
        };
        while let Some((token, what)) = self.calls.take_overdue(now) {
            with.acts.push(Act::GiveUp { token });
            let late = Status::new(Code::DeadlineExceeded, "no answer in time");
            self.failed(now, what, late, with);
        }
        while self.consuming.front().is_some_and(|at| *at <= now) {
            self.consuming.pop_front();
            self.step(now, Input::Wanted { deliveries: 1 }, with);
            if !with.calm && with.stream.chance(shape.leaves) {
                self.close(now, with);
            }
        }
        // Whoever reads in rounds reads with the others or not at all.
        if shape.rounds && self.reader.is_some() && with.known.read_by_element > self.generation {
            // Whoever is last in each round may never see the end, since others leave at theirs.
            if self.furthest >= shape.rounds_of_read / 2 {
                self.got_on_at = now;
            }
            self.close(now, with);
        }
        if self.reader.as_ref().is_some_and(|of| of.deadline().is_some_and(|at| at <= now)) {
            self.step(now, Input::Tick, with);
            let deadline = self.reader.as_ref().and_then(Reader::deadline);
            if let Err(text) = self.busy.woken(now, deadline) {
                with.acts.push(Act::Violated(text));
            }
        }
        if self.reader.as_ref().is_some_and(Reader::is_over) {
            if !self.fetches.is_empty() || !self.calls.is_empty() {
                let Self { calls, fetches, .. } = self;
                let text = format!("over: a reader has left, and waits for {calls:?}, {fetches:?}");
                with.acts.push(Act::Violated(text));
            }
            self.forget(with);
            self.at = now.after(rest_beside(with));
        }
        if self.reader.is_none() && now >= self.at && self.calls.is_empty() {
            self.at = Time::NEVER;
            if let Some(request) = registration(&shape) {
                self.call(now, For::Register, Request::RegisterDataset(request), with);
            }
        }
    }

    /// The application has had enough: what has come and was not handed on is gone.
    fn close(&mut self, now: Time, with: &mut With<'_>) {
        if self.reader.is_some() && !self.is_closed {
            self.is_closed = true;
            with.acts.push(Act::Elements(OfElements::Gone(self.now_living())));
            self.leave_the_job(with);
            self.step(now, Input::Close, with);
        }
    }

    /// A coordinated read that somebody has left is over for all.
    fn leave_the_job(&self, with: &mut With<'_>) {
        if with.swarm.elements.is_some_and(|shape| shape.rounds) {
            let next = self.generation.saturating_add(1);
            with.known.read_by_element = with.known.read_by_element.max(next);
        }
    }

    fn forget(&mut self, with: &mut With<'_>) {
        if self.reader.take().is_some() && !self.is_closed {
            with.acts.push(Act::Elements(OfElements::Gone(self.now_living())));
        }
        self.retries.clear();
        self.calls.clear();
        self.fetches.clear();
        self.rounds.clear();
        self.held = Held::default();
        self.consuming.clear();
    }

    fn call(&mut self, now: Time, what: For, request: Request, with: &mut With<'_>) {
        let token = self.calls.add(patience(now, with), what);
        with.acts.push(Act::Call { token, request });
    }

    /// Begins to read the job that is read at present.
    fn begin(&mut self, now: Time, with: &mut With<'_>) {
        let Some(shape) = with.swarm.elements else {
            return;
        };
        self.generation = match with.swarm.reads_both_ways() {
            true => with.known.read_both_ways(),
            false => with.known.read_by_element,
        };
        self.life = self.life.saturating_add(1);
        (self.is_closed, self.furthest) = (false, 0);
        let joined = OfElements::Joined(self.now_living(), self.generation);
        with.acts.push(Act::Elements(joined));
        let entropy = with.stream.below(u64::MAX);
        self.reader = Some(Reader::new(element_job::config(self.number, &shape, with), entropy));
        self.step(now, Input::Wanted { deliveries: AHEAD }, with);
        self.step(now, Input::Tick, with);
    }

    fn step(&mut self, now: Time, input: Input, with: &mut With<'_>) {
        let mut out = Vec::new();
        if let Some(reader) = &mut self.reader {
            reader.step(now, input, &mut out);
        }
        for effect in out {
            self.perform(now, effect, with);
        }
        if let Some(Err(violation)) = self.reader.as_ref().map(check_reader) {
            with.acts.push(Act::Violated(violation.to_string()));
        }
    }

    fn perform(&mut self, now: Time, effect: Effect, with: &mut With<'_>) {
        match effect {
            Effect::Ask { rpc, request, deadline } => self.ask(now, (rpc, request), deadline, with),
            Effect::Fetch { rpc, address, fetch } => {
                let FetchElement { task, round, .. } = fetch;
                let token = self.next_fetch;
                self.next_fetch = token.saturating_add(1);
                self.fetches.insert(token, Fetch { rpc, task, round });
                self.asks_again(now, task, with);
                let fetching = OfElements::Fetching(self.now_living(), task, round);
                with.acts.push(Act::Elements(fetching));
                let (_, message) = convert::encode_fetch(&fetch);
                with.acts.push(Act::Fetch { address, token, message });
            }
            Effect::Withdraw { rpc } => {
                let mut fetches = self.fetches.iter();
                let of = fetches.find(|(_, fetch)| fetch.rpc == rpc).map(|(token, _)| *token);
                if let Some(token) = of {
                    self.fetches.remove(&token);
                    with.acts.push(Act::Withdraw { token });
                }
                let is = |what: &For| matches!(what, For::Ask(of, _) if *of == rpc);
                if let Some(token) = self.calls.take_one(is) {
                    with.acts.push(Act::GiveUp { token });
                }
            }
            Effect::Deliver(Delivery::Element(element)) => {
                if let Some(id) = identified(&element) {
                    self.delivered(now, id, with);
                }
            }
            Effect::Ended { result } => self.ended(now, result, with),
            // Nobody reads by split here.
            Effect::Deliver(_)
            | Effect::Open { .. }
            | Effect::Take { .. }
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
        let Some(shape) = with.swarm.elements else {
            return;
        };
        let (path, message) = convert::encode_reader_request(
            &element_job::job(self.generation, &shape, with),
            &request,
        );
        // To agree takes all of them.
        let is_vote = matches!(request, reader::Request::RemoveTask { .. });
        if let reader::Request::RemoveTask { task, .. } = request {
            self.asks_again(now, task, with);
            self.held.votes(now, task);
        }
        let until = match is_vote {
            true => now.after(deadline),
            false => patience(now, with).min(now.after(deadline)),
        };
        let token = self.calls.add(until, For::Ask(rpc, request));
        if let Some(request) = received(path, &message) {
            with.acts.push(Act::Call { token, request });
        }
    }

    fn delivered(&mut self, now: Time, id: ElementId, with: &mut With<'_>) {
        let shape = with.swarm.elements;
        self.consuming.push_back(now.after(ms(element_job::consume_ms(with))));
        with.acts.push(Act::Elements(OfElements::Delivered(self.now_living(), id)));
        let round = self.rounds.remove(&id);
        let last = shape.map_or(0, |shape| shape.rounds_of_read);
        self.furthest = self.furthest.max(round.map_or(0, i64::cast_unsigned));
        if round.is_some_and(|round| round.cast_unsigned() >= last) {
            with.tally.mark(Mark::ReadInRounds);
            self.got_on_at = now;
            self.leave_the_job(with);
        }
    }

    fn ended(&mut self, now: Time, result: Result<(), Status>, with: &mut With<'_>) {
        let full = result.as_ref().is_err_and(|status| status.code == Code::ResourceExhausted);
        if result.is_ok() || full {
            self.got_on_at = now;
        }
        if result.is_ok() {
            with.tally.mark(Mark::ReadByElement);
            let next = self.generation.saturating_add(1);
            with.known.read_by_element = with.known.read_by_element.max(next);
        }
        self.leave_the_job(with);
        let client = self.reader.as_ref().and_then(Reader::client);
        let ended = OfElements::ReadEnded(self.now_living(), client, result);
        with.acts.push(Act::Elements(ended));
        if !std::mem::replace(&mut self.is_closed, true) {
            with.acts.push(Act::Elements(OfElements::Gone(self.now_living())));
        }
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
                self.learn(now, &request, &result, with);
                self.tell(now, rpc, result, with);
            }
            (Some(For::Register), Ok(_)) => self.begin(now, with),
            (Some(what), Err(status)) => self.failed(now, what, status, with),
            _ => {}
        }
    }

    fn failed(&mut self, now: Time, what: For, status: Status, with: &mut With<'_>) {
        match what {
            For::Register => {
                if !is_passing(&status) && status.code != Code::DeadlineExceeded {
                    self.got_on_at = now;
                }
                self.at = now.after(ms(RETRY_MS));
            }
            For::Ask(rpc, request) => {
                let result = Err(status);
                self.learn(now, &request, &result, with);
                self.tell(now, rpc, result, with);
            }
        }
    }

    /// The dispatcher has answered, or cannot be reached.
    fn learn(
        &mut self,
        now: Time,
        request: &reader::Request,
        result: &Result<Answer, Status>,
        with: &mut With<'_>,
    ) {
        self.retries.learn(now, request, result);
        // Who has an answer asks no more.
        for task in self.held.learn(now, self.now_living(), (request, result), with) {
            self.retries.answered(task);
        }
    }

    /// A task is asked, or the others whether it is gone.
    fn asks_again(&mut self, now: Time, task: TaskId, with: &mut With<'_>) {
        if let Err(text) = self.retries.again(now, task) {
            with.acts.push(Act::Violated(text));
        }
    }

    fn tell(&mut self, now: Time, rpc: RpcId, result: Result<Answer, Status>, with: &mut With<'_>) {
        let entropy = with.stream.below(u64::MAX);
        self.step(now, Input::Answered { rpc, result, entropy }, with);
    }

    fn fetched(
        &mut self,
        now: Time,
        token: u64,
        answer: Result<Bytes, Status>,
        with: &mut With<'_>,
    ) {
        let Some(Fetch { rpc, task, round }) = self.fetches.remove(&token) else {
            return;
        };
        let result = answer.and_then(|bytes| fetched(&bytes));
        match &result {
            Ok(fetched) => self.received(fetched, task, round, with),
            Err(_) if round.is_some() => self.retries.failed(now, task),
            Err(_) => {}
        }
        self.tell(now, rpc, result.map(Answer::Element), with);
        if let Some(reader) = self.reader.as_ref().filter(|_| !self.is_closed) {
            let report = reader.report(now);
            let counted =
                Counted { records: report.counts.records, buffered: report.buffered as u64 };
            with.acts.push(Act::Elements(OfElements::Counts(self.now_living(), counted)));
        }
    }

    fn received(
        &mut self,
        fetched: &Fetched,
        task: TaskId,
        round: Option<(i64, i64)>,
        with: &mut With<'_>,
    ) {
        self.retries.answered(task);
        let (by, id) = (self.now_living(), element_of(fetched));
        if let Some(id) = id {
            if let Some((_, round)) = round {
                self.rounds.insert(id, round);
            }
            with.acts.push(Act::Elements(OfElements::Received(by, id, round)));
        }
        self.held.holds(by, task, id, with);
    }

    /// The tasks that are asked at present, for people.
    fn asks(&self) -> Vec<Option<(i64, i64)>> {
        self.fetches.values().map(|fetch| fetch.round).collect()
    }
}

fn element_of(fetched: &Fetched) -> Option<ElementId> {
    match fetched {
        Fetched::Element(element) => identified(element),
        Fetched::Skip | Fetched::End => None,
    }
}

impl Actor for ElementReader {
    fn role(&self) -> Role {
        Role::Reader
    }

    fn happen(&mut self, now: Time, what: Happening, with: &mut With<'_>) {
        self.retries.woken(now);
        match what {
            Happening::Wake => {}
            Happening::Answered { token, answer } => self.answered(now, token, answer, with),
            Happening::Element(Carried::Fetched { token, answer }) => {
                self.fetched(now, token, answer, with);
            }
            Happening::Reborn { .. } => {
                self.leave_the_job(with);
                self.forget(with);
                self.at = now;
            }
            Happening::Told { .. }
            | Happening::Coordinated { .. }
            | Happening::Pushed(_)
            | Happening::Asked { .. }
            | Happening::Element(_) => {}
        }
        self.wake(now, with);
        let until = self.wake_at();
        self.retries.sleeps(until);
    }

    fn wake_at(&self) -> Time {
        let reads = match &self.reader {
            Some(reader) => reader.deadline().unwrap_or(Time::NEVER),
            None if self.calls.is_empty() => self.at,
            None => Time::NEVER,
        };
        let consumes = self.consuming.front().copied().unwrap_or(Time::NEVER);
        reads.min(consumes).min(self.calls.deadline())
    }

    fn reads_by_element(&self) -> bool {
        true
    }

    fn got_on_at(&self) -> Time {
        self.got_on_at
    }

    fn state(&self) -> String {
        let Self { generation, calls, consuming, .. } = self;
        let report = self.reader.as_ref().map(|reader| reader.report(Time::ZERO));
        let asks = self.asks();
        format!(
            "reads {generation}, waits for {calls:?} and in rounds {asks:?}, consumes \
             {consuming:?}: {report:?}"
        )
    }

    fn lost(&self) -> Option<OfElements> {
        self.reader.as_ref().map(|_| OfElements::Gone(self.now_living()))
    }
}
