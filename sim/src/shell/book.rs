//! The run's book: what the oracles see, the trace hash, the counts. The node is watched through
//! it, and callers compare what they were told with what the node said.

mod same;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use madsim::time::TimeHandle;
use rondo_core::control::{self, Effect, Input};
use rondo_core::dispatcher::{Reply, Request};
use rondo_core::ids::{CallId, Lsn};
use rondo_core::status::Status;
use rondo_core::time::{Duration, Time};
use tokio::sync::Notify;

use self::same::{is_same, is_what_was_sent};
pub(super) use self::watcher::Watcher;
use super::world::World;
use crate::checks::{Check, reached};
use crate::fault::Fault;
use crate::mark::{Mark, Tally};
use crate::oracle::{Broken, Caller, Oracles, Patience, Seen};
use crate::swarm::Swarm;
use crate::trace::{LineKind, Trace, of_reply, of_request};
use crate::watch::{Watch, of_event};
use crate::workload::kind::{Kind, Outcomes};

/// The node's lane in a timeline; actors follow.
const NODE: u32 = 0;

/// The run's book.
pub(super) struct Book {
    pages: Mutex<Pages>,
    /// Something was found to be broken.
    pub(super) alarm: Notify,
}

/// What is in it.
pub(super) struct Pages {
    pub(super) oracles: Oracles,
    /// How long silent workers are waited for.
    pub(super) patience: Patience,
    worker_timeout: Option<Duration>,
    pub(super) tally: Tally,
    pub(super) trace: Trace,
    pub(super) outcomes: Outcomes,
    /// The promise that was broken, and when, in ns.
    pub(super) broken: Option<(Broken, u64)>,
    pub(super) events: u64,
    sent: BTreeMap<u64, Sent>,
    next_tag: u64,
    /// Tags of the calls that the node has.
    calls: BTreeMap<CallId, u64>,
    /// Calls that the node has been told to forget. What it says to them reaches nobody.
    given_up: BTreeSet<CallId>,
    watch: Watch,
    during: Option<CallId>,
    durable: Lsn,
    pub(super) steps: u64,
    look_every: u64,
    /// The process of the node that is watched.
    life: u64,
    /// The node has its state back in this life.
    pub(super) serving: bool,
    /// The node has records that the journal has no room for.
    pub(super) refusing: bool,
    /// What was promised to be durable is gone.
    broke_word: bool,
    /// Everybody has gone long ago.
    gone: bool,
    /// Kills the node after so many effects.
    kill_in: Option<u64>,
    /// The node's own time, when it was last seen.
    now: Time,
}

/// A request that was sent.
struct Sent {
    by: Caller,
    request: Request,
    /// Its caller waits no more.
    over: bool,
    /// What the node answered.
    answer: Option<Result<Reply, Status>>,
}

impl Book {
    /// An empty book.
    pub(super) fn new(swarm: &Swarm, trace: Trace) -> Arc<Self> {
        let pages = Pages {
            oracles: Oracles::new(swarm),
            patience: Patience::default(),
            worker_timeout: swarm.settings.worker_timeout,
            tally: Tally::default(),
            trace,
            outcomes: Outcomes::default(),
            broken: None,
            events: 0,
            sent: BTreeMap::new(),
            next_tag: 1,
            calls: BTreeMap::new(),
            given_up: BTreeSet::new(),
            watch: Watch::default(),
            during: None,
            durable: Lsn::NONE,
            steps: 0,
            look_every: swarm.look_every.max(1),
            life: 0,
            serving: false,
            refusing: false,
            broke_word: false,
            gone: false,
            kill_in: None,
            now: Time::ZERO,
        };
        Arc::new(Self { pages: Mutex::new(pages), alarm: Notify::new() })
    }

    /// What is in it.
    pub(super) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a fault struck.
    pub(super) fn fault(&self, fault: Fault) {
        let mut pages = self.pages();
        pages.tally.fault(fault);
        pages.note(NODE, LineKind::Fault, fault.index() as u64, || fault.name().to_owned());
    }

    /// Notes that a state was reached.
    pub(super) fn mark(&self, mark: Mark) {
        self.pages().tally.mark(mark);
    }

    /// Lets the oracles see something that did not come from the node's machine.
    pub(super) fn see(&self, seen: &Seen<'_>) {
        let mut pages = self.pages();
        let now = pages.now;
        self.judge(&mut pages, now, seen);
    }

    fn judge(&self, pages: &mut Pages, now: Time, seen: &Seen<'_>) {
        if pages.broken.is_some() {
            return;
        }
        let Pages { watch, oracles, tally, .. } = pages;
        watch.see(seen, oracles.shadow().state(), tally);
        if let Err(broken) = pages.oracles.see(now, seen) {
            self.break_with(pages, broken);
        }
    }

    /// Says that something is broken.
    pub(super) fn broken(&self, promise: &str, text: String) {
        let broken = Broken { promise: promise.to_owned(), text };
        self.break_with(&mut self.pages(), broken);
    }

    fn break_with(&self, pages: &mut Pages, broken: Broken) {
        pages.note(NODE, LineKind::Broken, 0, || broken.to_string());
        pages.broken.get_or_insert((broken, elapsed_ns()));
        self.alarm.notify_one();
    }

    /// Begins to watch the next process of the node.
    pub(super) fn begin_life(self: &Arc<Self>, world: &Arc<World>) -> Watcher {
        let broke_word = world.platter.broke_word();
        let mut pages = self.pages();
        pages.life = pages.life.wrapping_add(1);
        pages.broke_word = broke_word;
        Watcher { book: self.clone(), life: pages.life, world: Arc::downgrade(world) }
    }

    /// The node's process is gone.
    pub(super) fn end_life(&self) {
        let mut pages = self.pages();
        pages.life = pages.life.wrapping_add(1);
        pages.calls.clear();
        pages.given_up.clear();
        pages.during = None;
        pages.kill_in = None;
        pages.serving = false;
        if pages.durable < pages.oracles.shadow().last() {
            pages.tally.mark(Mark::DiedWithUnsynced);
        }
        pages.note(NODE, LineKind::Effect, 100, || "died".to_owned());
        let now = pages.now;
        self.judge(&mut pages, now, &Seen::Died);
    }

    /// Kills the node after so many effects of its machine.
    pub(super) fn kill_after_effects(&self, effects: u64) {
        self.pages().kill_in = Some(effects);
    }

    /// It does not die of that any more.
    pub(super) fn let_live(&self) {
        self.pages().kill_in = None;
    }

    /// Everybody has gone long ago: the node's next step is looked at.
    pub(super) fn everybody_gone(&self) {
        self.pages().gone = true;
    }

    /// Whether that step is yet to come.
    pub(super) fn waits_for_a_step(&self) -> bool {
        self.pages().gone
    }

    /// Notes a request on its way and gives it a tag.
    pub(super) fn sent(&self, by: Caller, request: &Request) -> u64 {
        let mut pages = self.pages();
        let tag = pages.next_tag;
        pages.next_tag = tag.wrapping_add(1);
        let sent = Sent { by, request: request.clone(), over: false, answer: None };
        pages.sent.insert(tag, sent);
        tag
    }

    /// Notes a copy of a request on its way: nobody waits for the answer.
    pub(super) fn copied(&self, tag: u64) -> u64 {
        let of = self.pages().sent.get(&tag).map(|sent| (sent.by, sent.request.clone()));
        match of {
            Some((by, request)) => self.sent(Caller { stale: true, ..by }, &request),
            None => 0,
        }
    }

    /// A caller waits no more; a copy of its request may still be on its way.
    pub(super) fn over(&self, tag: u64) {
        if let Some(sent) = self.pages().sent.get_mut(&tag) {
            sent.over = true;
        }
    }

    /// A caller was told something: it must be what the node said.
    pub(super) fn told(&self, tag: u64, kind: Kind, answer: &Result<Reply, Status>) {
        let mut pages = self.pages();
        pages.outcomes.count(kind, Some(answer));
        let Some(sent) = pages.sent.get_mut(&tag) else {
            return;
        };
        sent.over = true;
        let said = sent.answer.take();
        let lane = sent.by.actor.saturating_add(1);
        reached(Check::Wire);
        let text = match (&said, answer) {
            // A picture of the state is put together on the way.
            (Some(said), answer) if kind != Kind::Report && !is_same(said, answer) => {
                Some(format!("{kind}: the node said {said:?}, its caller was told {answer:?}"))
            }
            (None, Ok(reply)) => Some(format!("{kind}: the node said nothing, told was {reply:?}")),
            _ => None,
        };
        pages.note(lane, LineKind::Note, of_reply(answer), || format!("{kind}: told {answer:?}"));
        if let Some(text) = text {
            self.break_with(&mut pages, Broken { promise: "wire".to_owned(), text });
        }
    }

    /// Takes something into the trace.
    pub(super) fn note(
        &self,
        lane: u32,
        kind: LineKind,
        value: u64,
        text: impl FnOnce() -> String,
    ) {
        self.pages().note(lane, kind, value, text);
    }
}

impl Pages {
    /// Whether the node is there with its state, and the journal takes what it brings.
    pub(super) const fn is_whole(&self) -> bool {
        self.serving && !self.refusing
    }

    fn note(&mut self, lane: u32, kind: LineKind, value: u64, text: impl FnOnce() -> String) {
        let at = elapsed_ns();
        self.events = self.events.saturating_add(1);
        let code = u64::from(lane).wrapping_mul(16).wrapping_add(kind as u64);
        self.trace.hash(at, code, value);
        self.trace.line(at, lane, kind, text);
    }

    fn taken(&mut self, book: &Book, now: Time, call: CallId, request: &Request) {
        self.during = Some(call);
        if let Request::WorkerHeartbeat(heartbeat) = request {
            self.patience.hear(now, heartbeat);
        }
        self.note(NODE, LineKind::Input, of_request(request), || {
            format!("call {call}: {request:?}")
        });
        match self.caller(call, request) {
            Ok(by) => book.judge(self, now, &Seen::Taken { call, by, request }),
            Err(text) => book.break_with(self, Broken { promise: "wire".to_owned(), text }),
        }
    }

    fn other_input(&mut self, book: &Book, now: Time, input: &Input) {
        self.note(NODE, LineKind::Input, code_of(input), || format!("{input:?}"));
        match input {
            Input::Cancel { call } => {
                self.calls.remove(call);
                self.given_up.insert(*call);
                book.judge(self, now, &Seen::GivenUp { call: *call });
            }
            Input::Synced { upto } => {
                self.durable = *upto;
                book.judge(self, now, &Seen::Durable(*upto));
            }
            Input::AppendRefused { .. } => {
                self.refusing = true;
                self.tally.mark(Mark::UpdatesRefused);
            }
            Input::AppendAccepted => {
                self.refusing = false;
                self.tally.mark(Mark::UpdatesAccepted);
            }
            Input::Memory(left) => book.judge(self, now, &Seen::MemoryLeft(left)),
            Input::Request { .. } | Input::Tick | Input::SyncFailed { .. } => {}
        }
    }

    /// Whether the node is to be killed at this effect.
    fn dies_now(&mut self) -> bool {
        let left = self.kill_in.map(|left| left.saturating_sub(1));
        self.kill_in = left.filter(|left| *left > 0);
        left == Some(0)
    }

    fn effect(&mut self, book: &Book, now: Time, effect: &Effect) {
        match effect {
            Effect::Append { lsn, record } => {
                let during = self.during;
                self.note(NODE, LineKind::Record, lsn.get(), || format!("{lsn}: {record:?}"));
                book.judge(self, now, &Seen::Recorded { lsn: *lsn, record, during });
            }
            Effect::Reply { call, result } => self.replied(book, now, *call, result),
            Effect::Observe(event) => {
                if let control::Event::Dispatcher(event) = event {
                    of_event(event, &mut self.tally);
                }
                self.note(NODE, LineKind::Effect, 1, || format!("{event:?}"));
            }
            Effect::Push { task } => {
                let id = task.task.get().cast_unsigned();
                self.note(NODE, LineKind::Effect, id, || format!("{effect:?}"));
            }
            Effect::Sync { upto } => {
                self.note(NODE, LineKind::Effect, upto.get(), || format!("{effect:?}"));
            }
            Effect::RetryAppend | Effect::ForgetBlob { .. } | Effect::Halt { .. } => {
                self.note(NODE, LineKind::Effect, 2, || format!("{effect:?}"));
            }
        }
    }

    fn replied(
        &mut self,
        book: &Book,
        now: Time,
        call: CallId,
        result: &Result<control::Reply, Status>,
    ) {
        if self.given_up.remove(&call) {
            return self.tally.mark(Mark::CancelledTooLate);
        }
        let answer = match result {
            Ok(control::Reply::Dispatcher(reply)) => Ok(reply.clone()),
            // Nobody asks the coordination service in this world.
            Ok(control::Reply::Coordination(_)) => return,
            Err(status) => Err(status.clone()),
        };
        self.note(NODE, LineKind::Effect, of_reply(&answer), || format!("call {call}: {answer:?}"));
        let durable = self.durable;
        book.judge(self, now, &Seen::Answered { call, answer: &answer, durable });
        let tag = self.calls.remove(&call);
        if let Some(sent) = tag.and_then(|tag| self.sent.get_mut(&tag)) {
            sent.answer = Some(answer);
        }
    }

    /// Who made a call, and whether it counts as one that is still meant.
    fn caller(&mut self, call: CallId, taken: &Request) -> Result<Caller, String> {
        let sent = self.calls.get(&call).and_then(|tag| self.sent.get_mut(tag));
        let Some(sent) = sent else {
            return Ok(Caller {
                actor: u32::MAX,
                life: 0,
                honest: false,
                stale: true,
                relay: None,
            });
        };
        if !is_what_was_sent(&sent.request, taken) {
            return Err(format!("{:?} was sent, and {taken:?} was taken", sent.request));
        }
        Ok(Caller { stale: sent.by.stale || sent.over, ..sent.by })
    }
}

/// Simulated time since the run began, in ns.
pub(super) fn elapsed_ns() -> u64 {
    u64::try_from(TimeHandle::current().elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// An input as a number, for the trace.
const fn code_of(input: &Input) -> u64 {
    match input {
        Input::Request { .. } => 1,
        Input::Cancel { call } => call.get().wrapping_mul(8).wrapping_add(2),
        Input::Tick => 3,
        Input::Synced { upto } => upto.get().wrapping_mul(8).wrapping_add(4),
        Input::AppendRefused { .. } => 5,
        Input::AppendAccepted => 6,
        Input::SyncFailed { .. } => 7,
        Input::Memory(_) => 8,
    }
}
